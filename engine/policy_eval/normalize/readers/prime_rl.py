"""prime-rl: TOML for the orchestrator, the inference server, or both (`rl`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_eval.errors import PolicyEvalError
from policy_eval.model import Document
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.options import option_words
from policy_eval.normalize.readers.pins import pinned_release
from policy_eval.normalize.readers.shape import Fact, Found, Input, Shape, Way
from policy_eval.normalize.readers.starts import Origin, engine_launch
from policy_eval.normalize.readers.trainers import item_facts, trainers
from policy_eval.normalize.text import Text, standing
from policy_eval.normalize.toml import load_toml

DEFAULT_TOP_K = 512
"""prime-rl bounds masks with this top_k where top_p alone truncates."""

_SAMPLING = (
    ("orchestrator", "train", "sampling"),
    ("train", "sampling"),
    ("orchestrator", "sampling"),
    ("sampling",),
)
_SOURCES = (
    ("orchestrator", "train", "source"),
    ("train", "source"),
    ("orchestrator", "train", "env"),
    ("train", "env"),
)
_MARKS = (
    "orchestrator",
    "inference",
    "train",
    "sampling",
    "renderer",
    "weight_broadcast",
    "enable_return_sampling_mask",
    "vllm",
)


def matches(source: Input) -> bool:
    """Whether this is TOML with a table or key of prime-rl's."""
    if source.suffix != ".toml" and not (source.suffix == "" and "[" in source.text and "=" in source.text):
        return False
    if source.suffix == "" and source.mappings():
        return False
    try:
        item = load_toml(source.text, source.file)
    except PolicyEvalError:
        return source.suffix == ".toml" and any(f"[{mark}" in source.text for mark in _MARKS)
    return any(mark in item.value for mark in _MARKS)


def read(source: Input) -> Sequence[Found | Document]:
    """One engine with the orchestrator's facts beside it."""
    config = load_toml(source.text, source.file)
    facts = _facts(config)
    replay = next(fact for fact in facts if fact.pointer == "/trainer/replay")
    origin = Origin(name=os.path.basename(source.file), input=source, fallback=pinned_release(source, "vllm"))
    inference = config.get("inference")
    if inference is None and _is_server(config):
        inference = config
    if inference is None:
        found = engine_launch("vllm", [], {}, origin, config.location(), tuple(facts))
        return [
            Found(ways=tuple(Way(launch=way.launch, facts=way.facts, only_facts=True) for way in found.ways))
        ]
    if inference is config:
        # A server by itself has no orchestrator whose sampling could turn replay on.
        facts = facts[:1]
    words = _server(inference, config)
    asked = inference.get("enable_return_sampling_mask")
    flag = "--return-sampling-mask"
    env: dict[str, Text] = {}
    if inference is not config and replay.value is True and replay.text is not None:
        words.append(standing(flag, replay.text.place()))
        env["VLLM_USE_V2_MODEL_RUNNER"] = standing("1", replay.text.place())
    elif asked is not None and asked.value is True:
        words.append(asked.key_text(flag))
        env["VLLM_USE_V2_MODEL_RUNNER"] = asked.key_text("1")
    for group in (config.get("env_vars"), inference.get("env_vars")):
        if group is not None:
            env |= {key: value.text() for key, value in group.pairs() if value.is_scalar}
    return [engine_launch("vllm", words, env, origin, inference.location(key=True), tuple(facts))]


def _is_server(config: Item) -> bool:
    """Whether this is the inference server's own file."""
    return config.get("enable_return_sampling_mask") is not None or (
        config.get("vllm") is not None and not any(config.get(*path) for path in _SAMPLING)
    )


def _server(inference: Item, config: Item) -> list[Text]:
    """The arguments of the server: `[inference.vllm]` holds vLLM's own names, passed through."""
    words: list[Text] = []
    model = inference.get("vllm", "model") or inference.get("model", "name") or config.get("model", "name")
    if model is not None and isinstance(model.value, str):
        words += [model.key_text("--model"), model.text()]
    for group in ("model", "vllm", "vllm_extra"):
        for key, value in inference.pairs(group):
            if key not in ("name", "model") and not (isinstance(value.value, str) and value.value == "None"):
                words += option_words(key, value)
    if inference.get("vllm", "logprobs_mode") is None:
        words += [
            standing("--logprobs-mode", inference.location(key=True)),
            standing("processed_logprobs", inference.location(key=True)),
        ]
    return words


def _facts(config: Item) -> list[Fact]:
    """The trainer's facts: its name, the sampling it trains on, and whether it replays masks."""
    name = Fact(pointer="/trainer/name", value="prime-rl", why="the shape of the file")
    sampling = next((found for path in _SAMPLING if (found := config.get(*path)) is not None), None)
    facts = [name, *item_facts(sampling, trainers()["sampling"])]
    stated = {fact.pointer.rpartition("/")[2]: fact for fact in facts}
    truncating = [
        fact for key in ("top_k", "top_p") if (fact := stated.get(key)) and _truncates(key, fact.value)
    ]
    reason = truncating[0] if truncating else None
    why = "top_p below 1 or a top_k turns replay on" if reason else "nothing truncates the distribution"
    place = reason.text if reason else (stated["top_p"].text if "top_p" in stated else None)
    facts.append(Fact(pointer="/trainer/replay", value=reason is not None, text=place, why=why))
    if reason is not None and "top_k" not in stated:
        why = f"prime-rl takes {DEFAULT_TOP_K} where only top_p truncates"
        facts.append(Fact(pointer="/sampling_params/top_k", value=DEFAULT_TOP_K, text=reason.text, why=why))
    uniform, text = _uniform(config, sampling)
    if uniform is not None:
        why = "whether all sources have a top_k, or none has"
        facts.append(Fact(pointer="/trainer/uniform_top_k", value=uniform, text=text, why=why))
    return facts


def _truncates(key: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value > 0 if key == "top_k" else value < 1


def _uniform(config: Item, sampling: Item | None) -> tuple[bool | None, Text | None]:
    """Whether top_k is on for every source or for none; None where no source has sampling of its own."""
    sources = [source for path in _SOURCES for source in config.items(*path)]
    if not any(source.get("sampling") is not None for source in sources):
        return None, None
    shared = sampling is not None and sampling.get("top_k") is not None
    on = [shared or source.get("sampling", "top_k") is not None for source in sources]
    odd = next((source for source, has in zip(sources, on, strict=True) if has != on[0]), None)
    place = (odd.get("sampling") or odd) if odd is not None else None
    text = standing("sampling", place.location()) if place is not None else None
    return len(set(on)) == 1, text


SHAPE = Shape(
    name="prime-rl",
    description="prime-rl TOML: orchestrator, inference server, or both",
    matches=matches,
    read=read,
)
