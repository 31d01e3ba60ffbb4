"""vLLM production-stack: Helm values with `servingEngineSpec`, and the operator's VLLMRuntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policy_eval.model import Document
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.options import json_text, listed, option_words
from policy_eval.normalize.readers.pods import Cluster, container_env
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, container_readings, engine_launch, found_in
from policy_eval.normalize.text import Text, join, standing

_NOT_OPTIONS = frozenset({"extraArgs", "v0", "v1", "hfOverrides", "env", "enabled", "port"})
"""Keys of `vllmConfig` that the chart does not pass on as the option of that name."""


def runtime(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """The engine of a VLLMRuntime: `spec.model`, `spec.vllmConfig`, the image under `spec.deploymentConfig`."""
    spec = item.get("spec")
    if spec is None:
        return []
    words: list[Text] = []
    model = spec.get("model", "modelURL")
    if model is not None and isinstance(model.value, str):
        words.append(model.text())
    for key, value in spec.pairs("model"):
        if key in ("maxModelLen", "dtype", "maxNumSeqs"):
            words += option_words(key, value)
    config = spec.get("vllmConfig")
    words += config_words(config)
    env: dict[str, Text] = {}
    for entry in spec.items("vllmConfig", "env"):
        stated = entry.get("value")
        if (variable := entry.string("name")) and stated is not None and stated.is_scalar:
            env[variable] = stated.text()
    origin = Origin(name=name, input=source, image=_image(spec.get("deploymentConfig", "image")))
    return [engine_launch("vllm", words, env, origin, item.location())]


def _image(image: Item | None) -> Text | None:
    """An image given as one string, or as registry and name."""
    if image is None:
        return None
    if isinstance(image.value, str):
        return image.text()
    name = image.get("name") or image.get("repository")
    if name is None or not name.is_scalar:
        return None
    tag = image.get("tag")
    return _tagged(name, tag)


def _tagged(name: Item, tag: Item | None) -> Text:
    if tag is None or not tag.is_scalar:
        return name.text()
    return join([name.text(), standing(":", name.location()), tag.text()])


def config_words(config: Item | None) -> list[Text]:
    """The options that a `vllmConfig` stands for; `extraArgs` come last, as the chart puts them."""
    words: list[Text] = []
    if config is None:
        return words
    for key, value in config.pairs():
        # The chart writes a flag for true and nothing for false.
        if key not in _NOT_OPTIONS:
            words += option_words(key, value, negative=False)
    overrides = config.get("hfOverrides")
    if overrides is not None:
        words += [overrides.key_text("--hf-overrides")]
        words += [overrides.text() if isinstance(overrides.value, str) else json_text(overrides)]
    return words + listed(config.get("extraArgs"))


def matches(source: Input) -> bool:
    """Whether this is a production-stack values file."""
    return any(item.get("servingEngineSpec") is not None for item in source.mappings())


def read(source: Input) -> Sequence[Found | Document]:
    """The engine of each entry of `servingEngineSpec.modelSpec`."""
    found: list[Found] = []
    for item in source.items():
        for number, spec in enumerate(item.items("servingEngineSpec", "modelSpec")):
            found += _model(spec, f"modelSpec {spec.string('name') or number + 1}", item, source)
    return found


def _model(spec: Item, name: str, values: Item, source: Input) -> list[Found]:
    warnings: list[Any] = []
    repository = spec.get("repository")
    image = _tagged(repository, spec.get("tag")) if repository is not None and repository.is_scalar else None
    env = container_env(spec, Cluster(), warnings)
    model = spec.get("modelURL")
    words: list[Text] = []
    if model is not None and model.is_scalar:
        words.append(model.text())
    words += config_words(spec.get("vllmConfig"))
    for key, variable in (("v1", "VLLM_USE_V1"),):
        value = spec.get("vllmConfig", key)
        if value is not None and value.is_scalar:
            env.setdefault(variable, value.text())
    if spec.dig("enableLoRA", default=False) is True:
        words.append((spec.get("enableLoRA") or spec).key_text("--enable-lora"))
    if spec.dig("lmcacheConfig", "enabled", default=False) is True:
        words += _lmcache(spec.get("lmcacheConfig") or spec)
    origin = Origin(name=name, input=source, image=image, warnings=tuple(warnings))
    command = listed(spec.get("command"))
    if command:
        return found_in(container_readings((*command, *words), image, env, False), origin)
    return [engine_launch("vllm", words, env, origin, spec.location())]


def _lmcache(config: Item) -> list[Text]:
    """The connector that the chart adds where LMCache is on; the key states it."""
    role = config.string("kvRole") or "kv_both"
    value = f'{{"kv_connector": "LMCacheConnectorV1", "kv_role": "{role}"}}'
    enabled = config.get("enabled") or config
    return [enabled.key_text("--kv-transfer-config"), enabled.key_text(value)]


SHAPE = Shape(
    name="production-stack",
    description="vLLM production-stack Helm values: servingEngineSpec.modelSpec[].vllmConfig",
    matches=matches,
    read=read,
)
