"""The YAML file of `vllm serve --config FILE`: option names as keys."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_eval.model import Document
from policy_eval.normalize.readers.engines import knowledge
from policy_eval.normalize.readers.options import kebab
from policy_eval.normalize.readers.pins import pinned_release
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, engine_launch
from policy_eval.normalize.text import standing


def matches(source: Input) -> bool:
    """Whether this is one flat mapping whose keys look like options of `vllm serve`, some of them well known."""
    items = source.mappings()
    if len(items) != 1 or items[0].get("kind") is not None:
        return False
    known = set(knowledge()["config_keys"])
    return any(kebab(key).partition(".")[0] in known for key in items[0].value)


def read(source: Input) -> Sequence[Found | Document]:
    """One engine, started with nothing but this file."""
    source.items()
    name = os.path.basename(source.file)
    shown = name if source.suffix in (".yaml", ".yml") else "config.yaml"
    where = source.whole.place(0, 1)
    origin = Origin(
        name=name, input=source, files={shown: source.whole}, fallback=pinned_release(source, "vllm")
    )
    return [engine_launch("vllm", [standing("--config", where), standing(shown, where)], {}, origin, where)]


SHAPE = Shape(
    name="vllm-config",
    description="the YAML file of `vllm serve --config FILE`",
    matches=matches,
    read=read,
)
