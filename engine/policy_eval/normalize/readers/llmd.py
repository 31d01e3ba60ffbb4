"""llm-d modelservice: Helm values with `decode` and `prefill` pools."""

from __future__ import annotations

from collections.abc import Sequence

from policy_eval.errors import Problem
from policy_eval.model import Document
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.options import mapped_words
from policy_eval.normalize.readers.pods import (
    Cluster,
    container_engines,
    container_env,
    strings,
    substituted,
)
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, engine_launch
from policy_eval.normalize.text import Text

_PARALLELISM = {
    "tensor": "tensor-parallel-size",
    "data": "data-parallel-size",
    "pipeline": "pipeline-parallel-size",
}


def matches(source: Input) -> bool:
    """Whether this is a modelservice values file: containers below `decode` or `prefill`."""
    return any(
        item.string("kind") is None
        and (list(item.items("decode", "containers")) or list(item.items("prefill", "containers")))
        for item in source.mappings()
    )


def read(source: Input) -> Sequence[Found | Document]:
    """The engines of the decode and prefill pools that are created."""
    found: list[Found] = []
    for item in source.items():
        for pool in ("decode", "prefill"):
            if item.dig(pool, "create", default=True) is False:
                continue
            for number, container in enumerate(item.items(pool, "containers")):
                label = f"{pool} container {container.string('name') or number + 1}"
                found += _container(container, label, item, pool, source)
    return found


def _container(container: Item, name: str, values: Item, pool: str, source: Input) -> list[Found]:
    """One container: `modelCommand` says who writes the command, the chart or the values."""
    mode = container.string("modelCommand") or ("custom" if container.get("command") else "imageDefault")
    if mode == "custom":
        return container_engines(container, name, Cluster(), source, {})
    if mode not in ("vllmServe", "imageDefault"):
        return []
    warnings: list[Problem] = []
    env = container_env(container, Cluster(), warnings)
    words: list[Text] = []
    uri = values.get("modelArtifacts", "uri")
    if uri is not None and isinstance(uri.value, str):
        text = uri.text()
        for scheme in ("hf://", "pvc+hf://"):
            if uri.value.startswith(scheme):
                text = text.slice(len(scheme))
        words.append(text)
    words += mapped_words(values.get(pool, "parallelism"), _PARALLELISM)
    given = [substituted(text, env) for text in strings(container, "args")]
    if mode == "imageDefault" and given and not given[0].text.startswith("-"):
        return container_engines(container, name, Cluster(), source, {})
    image = container.get("image")
    origin = Origin(
        name=name, input=source, image=image.text() if image is not None and image.is_scalar else None
    )
    return [engine_launch("vllm", [*words, *given], env, origin, container.location())]


SHAPE = Shape(
    name="llm-d",
    description="llm-d modelservice Helm values: decode and prefill containers",
    matches=matches,
    read=read,
)
