"""Command lines of our own: facts, places, unknowns, and the exact words of errors and warnings.

A case is one JSON file. A word is text, or a mapping with ``raw`` (``<?>`` for each unknown part) and ``unknown``.
``facts`` maps JSON Pointers to values; ``places`` to the text that provenance points at; ``why`` to reasons.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_eval.derive import derive
from policy_eval.errors import Location, Problem
from policy_eval.load.source import line_starts, span_location
from policy_eval.model import Document
from policy_eval.normalize.launch import Launch, Word
from policy_eval.normalize.text import UNKNOWN, file_text
from policy_eval.normalize.vllm import resolve
from policy_eval.pack import load_pack

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


def words(argv: list[Any]) -> tuple[Word, ...]:
    """Words placed in the line that they make, as written in the case."""
    shown = [word if isinstance(word, str) else word["raw"].replace("<?>", "?") for word in argv]
    line = " ".join(shown)
    starts, at, found = line_starts(line), 0, []
    for word, text in zip(argv, shown, strict=True):

        def place(first: int, last: int, at: int = at) -> Location:
            return span_location("command", line, starts, at + first, at + last)

        unknown = None if isinstance(word, str) else word["unknown"]
        raw = None if isinstance(word, str) else word["raw"].replace("<?>", UNKNOWN)
        found.append(
            Word(
                text=text if unknown is None else None,
                location=place(0, len(text)),
                unknown=unknown,
                raw=raw,
                placer=place,
            )
        )
        at += len(text) + 1
    return tuple(found)


def document(case: dict[str, Any]) -> Document:
    """The case's document, derived facts included."""
    files = {}
    for name, content in case.get("files", {}).items():
        text = file_text(content, name)
        files[name] = Word(text=content, location=text.place(), placer=text.place)
    env = {
        name: Word(text=value, location=Location(file="env"))
        if isinstance(value, str)
        else Word(text=None, location=Location(file="env"), unknown=value["unknown"])
        for name, value in case.get("env", {}).items()
    }
    image = case.get("image")
    launch = Launch(
        name="case",
        engine="vllm",
        argv=words(case["argv"]),
        env=env,
        files=files,
        image=None if image is None else Word(text=image, location=Location(file="image")),
    )
    found = resolve(
        launch, engine_version=case.get("version"), hf_configs=case.get("hf"), host=case.get("host")
    )
    return derive(found, load_pack().derivations)


def fact(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        value = value[part] if isinstance(value, dict) and part in value else "(absent)"
    return value


def shown(problem: Problem) -> str:
    """A problem as ``text it points at: message``."""
    return f"{pointed(problem.location)}: {problem.message}"


def pointed(where: Location | None) -> str:
    """The characters of a place."""
    if where is None or where.source_line is None or where.column is None or where.end_column is None:
        return "-" if where is None else str(where)
    one_line = where.line == where.end_line
    return where.source_line[where.column - 1 : where.end_column - 1 if one_line else None]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    found = document(case)
    assert [shown(problem) for problem in found.errors] == case.get("errors", [])
    assert [shown(problem) for problem in found.warnings] == case.get("warnings", [])
    facts = case.get("facts", {})
    assert {pointer: fact(found.value, pointer) for pointer in facts} == facts
    places = case.get("places", {})
    stated = {pointer: place for pointer in places if (place := found.provenance.get(pointer))}
    assert {pointer: pointed(place.location) for pointer, place in stated.items()} == places
    reasons = {pointer: place.why for pointer, place in found.provenance.items()}
    why = case.get("why", {})
    assert {pointer: reasons.get(pointer) for pointer in why} == why
    if "unknown" in case:
        assert found.value.get("unknown", []) == case["unknown"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 20
