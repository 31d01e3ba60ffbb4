"""From the commands of an input to the engines they start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.launch import Launch, Word
from policy_eval.normalize.readers.engines import (
    Start,
    container_run,
    engine_start,
    entry_words,
    image_facts,
    knowledge,
)
from policy_eval.normalize.readers.env_file import env_file
from policy_eval.normalize.readers.shape import MAX_ENGINES, Fact, Found, Input, Way
from policy_eval.normalize.shell.script import Command, Reading, read_words
from policy_eval.normalize.text import Text, standing
from policy_eval.record import record, replace

_PINNED = re.compile(r"^(vllm|sglang)(?:\[[^\]]*\])?==([0-9][0-9A-Za-z.+]*)$")


@record
class Origin:
    """What is known of the place that commands run in, whatever they are.

    ``fallback`` is the release of vLLM where neither the image nor the commands tell it (a lock file's).
    """

    name: str
    input: Input
    image: Text | None = None
    fallback: Text | None = None
    files: Mapping[str, Text] = MappingProxyType({})
    warnings: tuple[Problem, ...] = ()


def word(text: Text) -> Word:
    """A text as a word of a launch."""
    unknown = text.unknown
    return Word(
        text=text.text if unknown is None else None,
        location=text.place(),
        unknown=unknown,
        raw=text.text,
        placer=text.place,
    )


def found_in(readings: Sequence[Reading], origin: Origin) -> list[Found]:
    """The engines that the commands start: one each, with a launch for every way it may be started."""
    ways: dict[tuple[str, int], list[Launch]] = {}
    lines: dict[tuple[str, int], int | None] = {}
    assumed: dict[str, Location | None] = {}
    for reading in readings:
        seen: dict[str, int] = {}
        pinned: dict[str, Text] = {}
        for command in reading.commands:
            pinned |= _pins(command)
            for launch in _launches(command, origin, pinned):
                place = " ".join(str(where) for where in (*command.calls, command.location))
                number = seen[place] = seen.get(place, 0) + 1
                several = ways.setdefault((place, number), [])
                if not any(_same(launch, other) for other in several):
                    several.append(launch)
                outermost = (*command.calls, command.location)[0]
                lines[place, number] = outermost.line if outermost is not None else None
                if len(ways) > MAX_ENGINES:
                    raise PolicyEvalError(
                        Problem(message=f"more than {MAX_ENGINES} engines", location=command.location)
                    )
        for condition, where, _ in reading.assumed:
            assumed.setdefault(condition, where)
    found = []
    for site, launches in ways.items():
        if len(ways) > 1:
            name = f"{origin.name} line {lines[site]}" + (f" ({site[1]})" if site[1] > 1 else "")
            launches = [replace(launch, name=name) for launch in launches]
        open_conditions = tuple(assumed.items()) if len(launches) > 1 else ()
        found.append(Found(ways=tuple(Way(launch=launch) for launch in launches), assumed=open_conditions))
    return found


def _same(left: Launch, right: Launch) -> bool:
    """Whether two launches are the same but for their remarks."""
    return all(
        _words(getattr(left, part)) == _words(getattr(right, part)) for part in ("argv", "env", "version")
    )


def _words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _words(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_words(inner) for inner in value]
    return None if value is None else (value.text, value.unknown, value.location)


def _pins(command: Command) -> dict[str, Text]:
    """Releases that a `pip install vllm==…` among the commands states."""
    texts = [text.text for text in command.words]
    if "install" not in texts or not any(text.rpartition("/")[2] in ("pip", "pip3", "uv") for text in texts):
        return {}
    found = {}
    for text in command.words:
        if text.unknown is None and (match := _PINNED.match(text.text)):
            found[match.group(1)] = text.slice(*match.span(2))
    return found


def _launches(command: Command, origin: Origin, pinned: Mapping[str, Text]) -> list[Launch]:
    """The engine that one command starts, if it starts one; in a container of its own, several ways."""
    container = container_run(command.words, command.env)
    if container is None:
        start = engine_start(command.words)
        if start is None:
            return []
        return [_launch(start, command, origin, pinned)]
    env: dict[str, Text] = {}
    warnings: tuple[Problem, ...] = ()
    for name in container.env_files:
        text = None if name.unknown else origin.input.include(name.text, name.place())
        if text is None:
            problem = Problem(
                message=f"cannot read the env file `{name.text[:80]}`; what it sets is taken to be unset",
                location=name.place(),
            )
            warnings = (*warnings, problem)
        else:
            env |= env_file(text, quotes=False)
    env |= container.env
    inner = replace(origin, image=container.image, warnings=(*origin.warnings, *command.warnings, *warnings))
    launches = []
    for reading in container_readings(container.words, container.image, env, container.default_entry):
        for inside in reading.commands:
            start = engine_start(inside.words)
            if start is not None:
                placed = replace(inside, location=command.location)
                launches.append(_launch(start, placed, inner, {}))
    return launches


def container_readings(
    words: tuple[Text, ...], image: Text | None, env: Mapping[str, Text], default_entry: bool
) -> list[Reading]:
    """Every way through what a container runs: the image's entry point comes first unless it is replaced."""
    if default_entry and image is not None:
        entry = image_facts(image).entry
        if entry and not (words and engine_start(words)):
            if words and words[0].text == entry[-1] and len(entry) > 1:
                entry = entry[:-1]
            words = (*entry_words(entry, image), *words)
        elif not entry and _looks_like_vllm(words, image):
            readings = read_words((*entry_words(("vllm", "serve"), image), *words), env=env)
            return [_remarked(reading, image) for reading in readings]
    return read_words(words, env=env)


def _looks_like_vllm(words: Sequence[Text], image: Text) -> bool:
    """Whether arguments for an image whose entry point is not known are options of `vllm serve`."""
    if not words or not words[0].text.startswith("--"):
        return False
    known = set(knowledge()["config_keys"])
    options = {text.text.partition("=")[0].removeprefix("--").replace("_", "-") for text in words}
    facts = image_facts(image)
    return facts.engine in (None, "vllm") and len(options & known) > 0


def _remarked(reading: Reading, image: Text) -> Reading:
    problem = Problem(
        message="what this image starts is not known; its arguments are read as those of `vllm serve`",
        location=image.place(),
        help="state the command: command: [vllm, serve]",
    )
    commands = [replace(one, warnings=(*one.warnings, problem)) for one in reading.commands]
    return replace(reading, commands=tuple(commands))


def _launch(start: Start, command: Command, origin: Origin, pinned: Mapping[str, Text]) -> Launch:
    version = pinned.get(start.engine)
    if version is None and origin.image is not None:
        facts = image_facts(origin.image)
        version = facts.version if facts.engine == start.engine else None
    elif version is None and start.engine == "vllm":
        version = origin.fallback
    argv = tuple(word(text) for text in start.arguments)
    if start.engine == "vllm":
        argv = (word(standing("serve", command.location)), *argv)
    return Launch(
        name=origin.name,
        engine=start.engine,  # type: ignore[arg-type]
        argv=argv,
        env={name: word(text) for name, text in command.env.items() if _concerns(name, text, start.engine)},
        image=None if origin.image is None else word(origin.image),
        version=None if version is None else word(version),
        files={name: word(text) for name, text in origin.files.items()},
        location=command.location,
        warnings=(*origin.warnings, *command.warnings),
        base=origin.input.folder,
    )


def _concerns(name: str, value: Text, engine: str) -> bool:
    """Whether a variable may matter to an engine: an unknown one of another engine's does not."""
    return value.unknown is None or not any(
        name in relevant(other) for other in knowledge()["environment"] if other != engine
    )


def relevant(engine: str) -> Sequence[str]:
    """Names of the environment variables that decide something for an engine."""
    names: list[str] = knowledge()["environment"].get(engine, [])
    return names


def engine_launch(
    engine: str,
    arguments: Sequence[Text],
    env: Mapping[str, Text],
    origin: Origin,
    location: Location | None,
    facts: tuple[Fact, ...] = (),
) -> Found:
    """An engine whose options an input states without a command."""
    command = Command(words=(), env=env, location=location)
    start = Start(engine=engine, arguments=tuple(arguments))
    return Found(ways=(Way(launch=_launch(start, command, origin, {}), facts=facts),))
