"""Which engine a command starts, with which arguments, and which release an image holds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from policy_eval.normalize.text import Text, missing, standing

_RELEASE = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:(?:a|b|rc|\.post|\.dev)\d+)*)(?=$|[-_+])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An engine being started: ``arguments`` are those of its server command, without the command itself."""

    engine: str
    arguments: tuple[Text, ...]
    module: str | None = None


@cache
def knowledge() -> dict[str, Any]:
    """What ``engines.json`` says of engines, images and container commands."""
    with open(os.path.join(os.path.dirname(__file__), "engines.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def engine_start(words: Sequence[Text]) -> Start | None:
    """The engine that a command starts; None when it starts none.

    The command may be wrapped (``numactl … vllm serve``, ``uv run python -m …``): any word may begin it.
    """
    known = knowledge()
    texts = [word.text if word.unknown is None else "" for word in words]
    if not texts or os.path.basename(texts[0]) in known["not_starts"]:
        return None
    for index, text in enumerate(texts):
        name = text.rpartition("/")[2]
        following = texts[index + 1] if index + 1 < len(texts) else ""
        for engine, facts in known["engines"].items():
            if following and following in facts["commands"].get(name, ()):
                return Start(engine=engine, arguments=tuple(words[index + 2 :]))
        if text == "-m":
            found = _module(following, words[index + 2 :])
        elif text.endswith(".py") and "/" in text:
            found = _script(text, words[index + 1 :])
        elif name in known["wrapped_modules"] and "." not in name:
            found = _module(name, words[index + 1 :])
        else:
            continue
        if found is not None:
            return found
    return None


def _script(path: str, rest: Sequence[Text]) -> Start | None:
    """A server module run by its path: `python3 /opt/vllm/vllm/entrypoints/openai/api_server.py`."""
    dotted = path.removesuffix(".py").replace("/", ".")
    for engine, facts in knowledge()["engines"].items():
        for module in facts["modules"]:
            if dotted.endswith("." + module):
                return Start(engine=engine, arguments=tuple(rest), module=module)
    return None


def _module(module: str, rest: Sequence[Text]) -> Start | None:
    known = knowledge()
    for engine, facts in known["engines"].items():
        if module in facts["modules"]:
            return Start(engine=engine, arguments=tuple(rest), module=module)
        if module in facts["commands"] or module.removesuffix(".entrypoints.cli.main") in facts["commands"]:
            command = facts["commands"].get(module.partition(".")[0], [])
            if rest and rest[0].text in command:
                return Start(engine=engine, arguments=tuple(rest[1:]), module=module)
    wrapped = known["wrapped_modules"].get(module)
    if wrapped is None:
        return None
    return Start(engine=wrapped["engine"], arguments=_without(rest, wrapped), module=module)


def _without(words: Sequence[Text], wrapper: dict[str, Any]) -> tuple[Text, ...]:
    """The arguments that a wrapper passes on to the engine: its own options left out."""
    flags, options = set(wrapper["flags"]), set(wrapper["options"])
    kept: list[Text] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        name, equals, _ = word.text.partition("=")
        if name in flags:
            continue
        if name in options:
            skip = not equals
            continue
        kept.append(word)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image's name tells: the engine in it, what it runs, and the release."""

    engine: str | None = None
    entry: tuple[str, ...] = ()
    version: Text | None = None


def image_facts(image: Text) -> Image:
    """What is known of an image by its name; nothing, when the name is not known."""
    text = image.text
    name = text.partition("@")[0]
    slash = name.rfind("/")
    colon = name.find(":", slash + 1)
    repository = name if colon < 0 else name[:colon]
    for engine, facts in knowledge()["engines"].items():
        for known in facts["images"]:
            if not re.search(known["pattern"], repository):
                continue
            version = None
            if colon >= 0 and known["release"]:
                tag = image.slice(colon + 1, len(name))
                found = _RELEASE.match(tag.text) if tag.unknown is None else None
                version = tag.slice(*found.span(1)) if found else None
            return Image(engine=engine, entry=tuple(known["entry"] or ()), version=version)
    return Image()


def entry_words(entry: Sequence[str], image: Text) -> tuple[Text, ...]:
    """The words of an image's entry point, standing where the image is named."""
    return tuple(standing(word, image.place()) for word in entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """``docker run``: the image, the environment stated, and the words run in the container."""

    image: Text
    env: dict[str, Text]
    env_files: tuple[Text, ...]
    words: tuple[Text, ...]
    default_entry: bool


def container_run(words: Sequence[Text], env: Mapping[str, Text]) -> ContainerRun | None:
    """The container that ``docker run …`` (podman, nerdctl) starts; None for other commands.

    ``env`` is the environment of the command itself, from which ``-e NAME`` hands variables on.
    """
    known = knowledge()
    texts = [word.text for word in words]
    name = texts[0].rpartition("/")[2] if texts else ""
    if known["containers"].get(name) is None:
        return None
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 1 if "=" in texts[at] else 2
    if at < len(texts) and texts[at] == "container":
        at += 1
    if at >= len(texts) or texts[at] not in ("run", "create"):
        return None
    at += 1
    stated: dict[str, Text] = {}
    files: list[Text] = []
    entry: Text | None = None
    flags = set(known["container_flags"])
    while at < len(texts) and texts[at].startswith("-"):
        option, equals, _ = texts[at].partition("=")
        value: Text | None = None
        if equals:
            value = words[at].slice(len(option) + 1)
        elif option in flags or (
            not option.startswith("--") and len(option) > 2 and set(option[1:]) <= set("ditPq")
        ):
            at += 1
            continue
        elif not option.startswith("--") and len(option) > 2:
            value, option = words[at].slice(2), option[:2]
        elif at + 1 < len(words):
            at += 1
            value = words[at]
        at += 1
        if value is None:
            continue
        if option in ("-e", "--env"):
            variable, equals, _ = value.text.partition("=")
            if equals:
                stated[variable] = value.slice(len(variable) + 1)
            else:
                stated[variable] = env.get(variable) or missing(
                    f"`{variable}` is not set here", value.place()
                )
        elif option == "--env-file":
            files.append(value)
        elif option == "--entrypoint":
            entry = value
    if at >= len(words):
        return None
    image, rest = words[at], tuple(words[at + 1 :])
    if entry is not None:
        rest = ((entry,) if entry.text else ()) + rest
    return ContainerRun(
        image=image, env=stated, env_files=tuple(files), words=rest, default_entry=entry is None
    )
