"""NeMo-RL: YAML with `defaults:` inheritance and `${…}` interpolation."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.model import Document
from policy_eval.normalize.item import Item, nested_yaml
from policy_eval.normalize.readers.options import option_words
from policy_eval.normalize.readers.pins import pinned_release
from policy_eval.normalize.readers.shape import UNKNOWN_FACT, Fact, Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, engine_launch
from policy_eval.normalize.readers.trainers import item_facts, trainers
from policy_eval.normalize.text import Text, join, missing, standing

_MAX_DEFAULTS = 20
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")


def matches(source: Input) -> bool:
    """Whether this is a NeMo-RL recipe: a policy with generation settings, alone or on top of `defaults`."""
    return any(
        item.get("policy", "generation") is not None
        or (
            item.get("defaults") is not None
            and (item.get("policy") is not None or item.get("grpo") is not None)
        )
        for item in source.mappings()
        if item.get("kind") is None
    )


class Layers:
    """Settings of a recipe and of those it inherits from: the first layer that states something wins."""

    def __init__(self, layers: list[Item]) -> None:
        self.layers = layers
        self.value = _merged([layer.value for layer in reversed(layers)])

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place of a setting in the layer that states it."""
        for layer in self.layers:
            found: Item | None = layer
            for part in pointer.split("/")[1:]:
                name = part.replace("~1", "/").replace("~0", "~")
                value = found.value if found is not None else None
                step: str | int = int(name) if isinstance(value, list) and name.isdigit() else name
                found = found.get(step) if found is not None else None
            if found is not None:
                return layer.places.location(layer.pointer + pointer, start, end, key=key)
        return self.layers[0].places.location("")


def _merged(values: list[Any]) -> Any:
    """Mappings merged key by key, later ones stronger."""
    found: dict[str, Any] = {}
    for value in values:
        for key, inner in value.items():
            old = found.get(key)
            found[key] = _merged([old, inner]) if isinstance(old, dict) and isinstance(inner, dict) else inner
    return found


def read(source: Input) -> Sequence[Found | Document]:
    """One engine with the trainer's facts beside it."""
    items = source.items()
    if len(items) != 1 or not isinstance(items[0].value, dict):
        raise PolicyEvalError(Problem(message="expected one YAML mapping", location=source.whole.place(0, 1)))
    gone: list[Item] = []
    layers = Layers(_layers(items[0], source, set(), gone))
    config = Item(layers.value, "", layers)
    generation = config.get("policy", "generation")
    facts = [Fact(pointer="/trainer/name", value="nemo-rl", why="the shape of the file")]
    words: list[Text] = []
    model = config.get("policy", "model_name")
    if model is not None and isinstance(model.value, str):
        words += [model.key_text("--model"), resolved(model, config)]
    if generation is not None:
        facts += item_facts(_resolved_item(generation, config), trainers()["sampling"])
        facts += _inherited(facts, gone)
        facts += item_facts(generation, {"backend": ("/trainer/backend", "string")})
        for key, value in [*generation.pairs("vllm_cfg"), *generation.pairs("vllm_kwargs")]:
            if key in _VLLM_CFG or value.pointer.startswith("/policy/generation/vllm_kwargs"):
                words += _option(key, value, config)
        if generation.get("vllm_kwargs", "logprobs_mode") is None:
            why = (
                "NeMo-RL chooses `logprobs_mode` itself: state `policy.generation.vllm_kwargs.logprobs_mode`"
            )
            words += [standing("--logprobs-mode", generation.location()), missing(why, generation.location())]
    for name in gone:
        # What the file sets is not known: a word that may be any option, before those that are stated here.
        why = f"the defaults `{name.value[:80]}` are not there to read"
        words.insert(0, join([standing("--", name.location()), missing(why, name.location())]))
    origin = Origin(name=os.path.basename(source.file), input=source, fallback=pinned_release(source, "vllm"))
    backend = generation.string("backend") if generation is not None else None
    engine = backend if backend in ("vllm", "sglang") else "vllm"
    return [engine_launch(engine, words, {}, origin, config.location(), tuple(facts))]


def _inherited(facts: list[Fact], gone: list[Item]) -> list[Fact]:
    """Sampling parameters that the recipe leaves to files that are not there: unknown."""
    stated = {fact.pointer for fact in facts}
    if not gone:
        return []
    why = f"the defaults `{gone[0].value[:80]}` are not there to read"
    return [
        Fact(pointer=pointer, value=UNKNOWN_FACT, text=gone[0].text(), why=why)
        for pointer, _ in trainers()["sampling"].values()
        if pointer not in stated
    ]


_VLLM_CFG = frozenset(
    {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "gpu_memory_utilization",
        "max_model_len",
        "enforce_eager",
    }
)


def _option(key: str, value: Item, config: Item) -> list[Text]:
    if isinstance(value.value, str) and "${" in value.value:
        return [value.key_text(f"--{key.replace('_', '-')}"), resolved(value, config)]
    return option_words(key, value)


def _layers(item: Item, source: Input, seen: set[str], gone: list[Item]) -> list[Item]:
    """The recipe and everything it inherits from, strongest first; files outside the folder are refused.

    Files that are not there are noted in ``gone``.
    """
    found = [item]
    defaults = item.get("defaults")
    if defaults is None:
        return found
    names = list(defaults.items()) if isinstance(defaults.value, list) else [defaults]
    for name in reversed(names):
        if not isinstance(name.value, str):
            raise PolicyEvalError(Problem(message="`defaults` takes file names", location=name.location()))
        path = os.path.normpath(os.path.join(_folder_of(item, source), name.value))
        if path in seen or len(seen) >= _MAX_DEFAULTS:
            problem = Problem(
                message=f"`defaults` that come back to `{name.value[:80]}`", location=name.location()
            )
            raise PolicyEvalError(problem)
        if source.path(path) is not None and source.include(path, None) is None:
            gone.append(name)
            continue
        text = source.required(path, name.location())
        inner = nested_yaml(text)
        if len(inner) != 1 or not isinstance(inner[0].value, dict):
            problem = Problem(
                message=f"`{name.value[:80]}` is not one YAML mapping", location=name.location()
            )
            raise PolicyEvalError(problem)
        found += _layers(inner[0], source, seen | {path}, gone)
    return found


def _folder_of(item: Item, source: Input) -> str:
    """The folder of the file that an item comes from, relative to the input's."""
    file = item.location().file
    return os.path.relpath(os.path.dirname(file) or ".", os.path.dirname(source.file) or ".")


def resolved(value: Item, config: Item, depth: int = 0) -> Text:
    """A scalar with `${a.b}` replaced by the setting it names; resolvers (`${oc.env:…}`) are unknown."""
    text = value.text()
    if not isinstance(value.value, str) or "${" not in value.value:
        return text
    parts: list[Text] = []
    at = 0
    for found in _REFERENCE.finditer(text.text):
        parts.append(text.slice(at, found.start()))
        at = found.end()
        name = found.group(1).strip()
        target = config.get(*name.split(".")) if ":" not in name and name else None
        if target is None or not target.is_scalar or depth > 10:
            parts.append(missing(f"`${{{name[:60]}}}` cannot be resolved here", text.place(*found.span())))
        else:
            parts.append(resolved(target, config, depth + 1))
    return join([*parts, text.slice(at)])


def _resolved_item(item: Item, config: Item) -> Item:
    """A mapping with whole-value references (`top_k: ${other.top_k}`) replaced by what they name."""
    value = dict(item.value)
    for key, inner in value.items():
        whole = _REFERENCE.fullmatch(inner) if isinstance(inner, str) else None
        target = config.get(*whole.group(1).strip().split(".")) if whole else None
        if target is not None and target.is_scalar:
            value[key] = target.value
    return Item(value, item.pointer, item.places)


SHAPE = Shape(
    name="nemo-rl",
    description="NeMo-RL YAML recipes: defaults, ${…}, policy.generation",
    matches=matches,
    read=read,
)
