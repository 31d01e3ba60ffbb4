"""Trainers launched by shell scripts: miles and slime (options), SkyRL (dotted settings)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from policy_eval.errors import Location
from policy_eval.normalize.readers.shape import Fact, Found, Input, Way
from policy_eval.normalize.readers.starts import Origin, engine_launch
from policy_eval.normalize.readers.trainers import fact_of, trainers
from policy_eval.normalize.shell.script import Command, Reading
from policy_eval.normalize.text import Text, standing


def trainers_in(readings: Sequence[Reading], source: Input) -> list[Found]:
    """The trainers that the commands of a script launch, each with what it says of the engine it runs."""
    ways: dict[str, list[Way]] = {}
    assumed: dict[str, Location | None] = {}
    for reading in readings:
        for command in reading.commands:
            found = _trainer(command, source)
            if found is not None:
                ways.setdefault(str(command.location), []).extend(found.ways)
        for condition, where, _ in reading.assumed:
            assumed.setdefault(condition, where)
    return [
        Found(ways=tuple(several), assumed=tuple(assumed.items()) if len(several) > 1 else ())
        for several in ways.values()
    ]


def _trainer(command: Command, source: Input) -> Found | None:
    texts = [word.text if word.unknown is None else "" for word in command.words]
    for name, known in trainers()["overrides"].items():
        if any(text.startswith(tuple(known["modules"])) for text in texts):
            return _overrides(name, known, command, source)
    for name, known in trainers()["launch_scripts"].items():
        programs = set(known["programs"])
        started = any(os.path.basename(text) in programs or text in programs for text in texts)
        samples = any(text.partition("=")[0] in known["options"] for text in texts)
        if (
            started
            and samples
            and any(_marked(text, known["marks"]) for text in [*texts, source.text[:20_000]])
        ):
            return _options(name, known, command, source)
    return None


def _marked(text: str, marks: Sequence[str]) -> bool:
    return any(mark in text for mark in marks)


def _options(name: str, known: Mapping[str, Any], command: Command, source: Input) -> Found:
    """Options of the trainer itself as facts; those with the engine's prefix are the engine's own."""
    facts: dict[str, Fact] = {
        "/trainer/name": Fact(pointer="/trainer/name", value=name, text=command.words[0])
    }
    for pointer in known["flags"].values():
        facts[pointer] = Fact(pointer=pointer, value=False, why=f"{name} has it off unless it is asked for")
    engine: list[Text] = []
    words = list(command.words)
    at = 0
    while at < len(words):
        option, equals, _ = words[at].text.partition("=")
        value = words[at].slice(len(option) + 1) if equals else words[at + 1] if at + 1 < len(words) else None
        if words[at].unknown is not None:
            pass
        elif option in known["options"] and value is not None:
            pointer, kind = known["options"][option]
            facts[pointer] = fact_of(pointer, kind, value)
            at += 0 if equals else 1
        elif option in known["flags"]:
            pointer = known["flags"][option]
            facts[pointer] = Fact(pointer=pointer, value=True, text=words[at])
        elif option.startswith(known["engine_prefix"]):
            stem = "--" + option.removeprefix(known["engine_prefix"])
            engine.append(Text(stem, words[at].slice(0, len(option)).runs[:1]))
            if equals and value is not None:
                engine.append(value)
            while not equals and at + 1 < len(words) and not words[at + 1].text.startswith("--"):
                at += 1
                engine.append(words[at])
        at += 1
    origin = Origin(name=f"{name} {os.path.basename(source.file)}", input=source, warnings=command.warnings)
    return engine_launch(
        known["engine"], engine, command.env, origin, command.location, tuple(facts.values())
    )


def _overrides(name: str, known: Mapping[str, Any], command: Command, source: Input) -> Found:
    """Dotted settings (`generator.sampling_params.top_k=50`): the last one of a name wins."""
    facts: dict[str, Fact] = {
        "/trainer/name": Fact(pointer="/trainer/name", value=name, text=command.words[0])
    }
    engine: dict[str, list[Text]] = {}
    backend = known["engine"]
    for word in command.words:
        key, equals, _ = word.text.partition("=")
        bare = key.lstrip("+")
        if not equals:
            continue
        value = word.slice(len(key) + 1)
        if bare in known["settings"]:
            pointer, kind = known["settings"][bare]
            facts[pointer] = fact_of(pointer, kind, value)
        elif bare in known["model"]:
            engine["model"] = [Text("--model", word.slice(0, len(key)).runs[:1]), value]
        elif bare in known["backend"] and value.unknown is None:
            backend = value.text.strip("\"'")
        else:
            for prefix in known["engine_prefixes"]:
                if bare.startswith(prefix):
                    option = bare.removeprefix(prefix)
                    engine[option] = _setting(option, word.slice(0, len(key)), value)
    replay = facts.get("/trainer/enable_return_sample_support_set")
    if replay is not None and replay.value is True and "return_sampling_mask" not in engine:
        where = replay.text.place() if replay.text is not None else None
        engine["return_sampling_mask"] = [standing("--return-sampling-mask", where)]
    if backend not in ("vllm", "sglang"):
        backend = known["engine"]
    words = [word for option in engine.values() for word in option]
    origin = Origin(name=f"{name} {os.path.basename(source.file)}", input=source, warnings=command.warnings)
    return engine_launch(backend, words, command.env, origin, command.location, tuple(facts.values()))


def _setting(option: str, key: Text, value: Text) -> list[Text]:
    """A setting of the engine's as words: a flag for true, `--no-…` for false."""
    spelled = option.replace("_", "-")
    if value.text in ("true", "True"):
        return [Text(f"--{spelled}", key.runs[:1])]
    if value.text in ("false", "False"):
        return [Text(f"--no-{spelled}", key.runs[:1])]
    return [Text(f"--{spelled}", key.runs[:1]), value]
