"""SGLang: the server's arguments and variables that decide about sampling masks.

Only the options that rules read are known (``sglang_options.json``, SGLang 0.5.23); all others are passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from policy_eval.errors import Problem
from policy_eval.model import CONFIG_SCHEMA, Document, Provenance
from policy_eval.normalize.launch import Launch, Word
from policy_eval.normalize.text import UNKNOWN


@cache
def _table() -> dict[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), "sglang_options.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def _spellings() -> dict[str, str]:
    """Every way an option is spelled, with the option."""
    names = {}
    for option, facts in _table()["options"].items():
        for name in (option, *facts.get("aliases", [])):
            names[name] = option
    return names


def resolve(
    launch: Launch, *, engine_version: str | None = None, host: Mapping[str, Any] | None = None
) -> Document:
    """The normalized document of one SGLang server: its facts are under ``server_args`` and ``env``.

    An option without a value, or with one of the wrong kind, is an error of the document. What depends on a word that
    cannot be resolved is listed under ``unknown``.
    """
    table = _table()
    arguments = _Arguments()
    arguments.read(launch)
    engine: dict[str, Any] = {"name": "sglang"}
    places: dict[str, Provenance] = {
        "/engine/name": Provenance(how="stated", location=launch.location, text="sglang")
    }
    if engine_version is not None:
        engine["version"] = engine_version
    elif launch.version is not None and launch.version.text is not None:
        engine["version"] = launch.version.text
        places["/engine/version"] = Provenance(
            how="stated", location=launch.version.location, text=launch.version.text
        )
    unknown: list[str] = []
    server: dict[str, Any] = {}
    for option, facts in table["options"].items():
        dest, pointer = facts["dest"], f"/server_args/{facts['dest']}"
        if dest in arguments.values:
            server[dest], word = arguments.values[dest]
            places[pointer] = Provenance(how="stated", location=word.location, text=word.text)
        elif dest in arguments.unknown:
            unknown.append(pointer)
            word = arguments.unknown[dest]
            places[pointer] = Provenance(how="stated", location=word.location, why=word.unknown)
        elif "default" in facts:
            server[dest] = facts["default"]
            why = f"SGLang {table['release']} server arguments: {option}"
            places[pointer] = Provenance(how="default", location=launch.location, why=why)
    env: dict[str, str] = {}
    for name, word in sorted(launch.env.items()):
        if not name.startswith(table["environment"]):
            continue
        pointer = f"/env/{name}"
        if word.text is None:
            unknown.append(pointer)
            places[pointer] = Provenance(how="stated", location=word.location, why=word.unknown)
        else:
            env[name] = word.text
            places[pointer] = Provenance(how="stated", location=word.location, text=word.text)
    value: dict[str, Any] = {"schema": CONFIG_SCHEMA, "engine": engine, "env": env, "server_args": server}
    if host:
        value["host"] = dict(host)
    if unknown:
        value["unknown"] = unknown
    return Document(
        name=launch.name,
        value=value,
        provenance=places,
        errors=tuple(arguments.errors),
        warnings=launch.warnings,
    )


class _Arguments:
    """The known options among the words of a command; the last one of a name wins."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Any, Word]] = {}
        self.unknown: dict[str, Word] = {}
        self.errors: list[Problem] = []

    def read(self, launch: Launch) -> None:
        words = launch.argv
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            text = word.text if word.text is not None else word.raw or UNKNOWN
            if text.startswith(UNKNOWN):
                self._anything(word)
                continue
            name, equals, rest = text.partition("=")
            option = self._option(name)
            if option is None:
                # An option that no rule reads: its values go with it, one of them at most when it is unknown.
                taken = bool(equals)
                while at < len(words) and not (words[at].raw or words[at].text or "").startswith("-"):
                    if words[at].text is None and taken:
                        break
                    taken = True
                    at += 1
                continue
            facts = _table()["options"][option]
            if facts["kind"] == "flag":
                self._set(facts["dest"], True, word)
            elif equals:
                start = len(name) + 1
                value = Word(
                    text=rest if word.text is not None else None,
                    location=word.place(start, len(text)),
                    unknown=word.unknown,
                )
                self._value(option, value.text, value)
            elif at < len(words) and not (words[at].text or "").startswith("--"):
                self._value(option, words[at].text, words[at])
                at += 1
            else:
                self.errors.append(
                    Problem(message=f"argument {option}: expected one argument", location=word.location)
                )

    def _option(self, name: str) -> str | None:
        """The option a name stands for; an unambiguous beginning is enough, as argparse has it."""
        spellings = _spellings()
        if name in spellings:
            return spellings[name]
        if not name.startswith("--") or len(name) < 5:
            return None
        found = {option for spelling, option in spellings.items() if spelling.startswith(name)}
        return found.pop() if len(found) == 1 else None

    def _anything(self, word: Word) -> None:
        """A word in an option's place that cannot be resolved: it may set any option."""
        for facts in _table()["options"].values():
            self.values.pop(facts["dest"], None)
            self.unknown[facts["dest"]] = word

    def _set(self, dest: str, value: Any, word: Word) -> None:
        self.unknown.pop(dest, None)
        self.values[dest] = (value, word)

    def _value(self, option: str, text: str | None, word: Word) -> None:
        facts = _table()["options"][option]
        if text is None:
            self.values.pop(facts["dest"], None)
            self.unknown[facts["dest"]] = word
            return
        value: Any = text
        try:
            if facts["kind"] == "integer":
                value = int(text[:400])
            elif facts["kind"] == "number":
                value = float(text)
                if value != value or value in (float("inf"), float("-inf")):
                    raise ValueError
        except ValueError:
            kind = {"integer": "int", "number": "float"}[facts["kind"]]
            problem = Problem(
                message=f"argument {option}: invalid {kind} value: {text[:80]!r}", location=word.location
            )
            self.errors.append(problem)
            return
        choices = facts.get("choices")
        if choices is not None and text not in choices:
            shown = ", ".join(repr(choice) for choice in choices)
            problem = Problem(
                message=f"argument {option}: invalid choice: {text[:80]!r} (choose from {shown})",
                location=word.location,
            )
            self.errors.append(problem)
            return
        self._set(facts["dest"], value, word)
