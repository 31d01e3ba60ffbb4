"""KServe: InferenceService, LLMInferenceService and its configs; the operator writes the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy_eval.errors import Problem
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.options import json_text, mapped_words, shell_split
from policy_eval.normalize.readers.pods import Cluster, container_engines, container_env, mounted_files
from policy_eval.normalize.readers.shape import Found, Input
from policy_eval.normalize.readers.starts import Origin, container_readings, found_in
from policy_eval.normalize.text import Text, standing

_ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
_PARALLELISM = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
}
_POOLS = (
    ("", ()),
    ("worker", ("worker",)),
    ("prefill", ("prefill",)),
    ("prefill worker", ("prefill", "worker")),
)


def llm_inference_service(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """The engines of an LLMInferenceService or of an LLMInferenceServiceConfig: decode and prefill pools.

    Where a container states neither command nor arguments, KServe's own template runs `vllm serve /mnt/models`
    with `VLLM_ADDITIONAL_ARGS` appended by `eval`. `spec.speculator.config` sets speculation.
    """
    configs = {
        other.string("metadata", "name"): other
        for kind, other in objects
        if kind == "LLMInferenceServiceConfig"
    }
    bases = [configs.get(base.string("name")) for base in item.items("spec", "baseRefs")]
    warnings = [
        Problem(
            message=f"the config `{base.string('name')}` is not in the input: what it sets is not seen here",
            location=base.location(),
            help="put the LLMInferenceServiceConfig into the same stream",
        )
        for base, known in zip(item.items("spec", "baseRefs"), bases, strict=True)
        if known is None
    ]
    # The service first, then its bases, the last of them strongest: the first that states something wins.
    layers = [item, *(base for base in reversed(bases) if base is not None)]
    found: list[Found] = []
    for label, path in _POOLS:
        templates = []
        for layer in layers:
            pod = layer.get("spec", *path, *(() if label.endswith("worker") else ("template",)))
            if pod is not None:
                templates.append(pod)
        if not templates and (label or item.get("spec", "model") is None):
            continue
        pool_name = f"{name} {label}".strip()
        found += _pool(pool_name, layers, templates, path, cluster, source, warnings)
    return found


def _pool(
    name: str,
    layers: list[Item],
    templates: list[Item],
    path: tuple[str, ...],
    cluster: Cluster,
    source: Input,
    warnings: list[Problem],
) -> list[Found]:
    container = _merged(templates)
    label = container.dig("name") if container is not None else None
    name = f"{name} container {label or 'main'}"
    env: dict[str, Text] = {}
    for template in reversed(templates):
        inner = _main(template)
        if inner is not None:
            env |= container_env(inner, cluster, warnings)
    added = [*_typed(layers, path), *(shell_split(env[_ADDITIONAL]) if _ADDITIONAL in env else [])]
    image = container.get("image") if container is not None else None
    words: list[Text] = []
    entry = False
    if container is not None and (container.get("command") or container.get("args")):
        from policy_eval.normalize.readers.pods import strings, substituted

        command = strings(container, "command")
        words = [substituted(text, env) for text in (*command, *strings(container, "args"))]
        entry = not command
        if entry and image is None:
            words = [*_serve(layers, container), *words]
        elif command and any(_ADDITIONAL in word.text for word in command + words):
            added = _typed(layers, path)
        words += added if not command or command[0].text.rpartition("/")[2] not in ("sh", "bash") else []
    else:
        words = [*_serve(layers, container), *added]
    files: Mapping[str, Text] = mounted_files(templates[0], cluster) if templates else {}
    origin = Origin(
        name=name,
        input=source,
        image=None if image is None else image.text(),
        files=files,
        warnings=tuple(warnings),
    )
    return found_in(container_readings(tuple(words), origin.image, env, entry), origin)


def _merged(templates: list[Item]) -> Item | None:
    """The main container: the first template's, with what it leaves out taken from the next ones."""
    mains = [main for template in templates if (main := _main(template)) is not None]
    if not mains:
        return None
    for main in mains:
        if main.get("command") or main.get("args") or main.get("image"):
            return main
    return mains[0]


def _main(template: Item) -> Item | None:
    containers = list(template.items("containers"))
    return next(
        (one for one in containers if one.string("name") == "main"), containers[0] if containers else None
    )


def _serve(layers: list[Item], container: Item | None) -> tuple[Text, ...]:
    """`vllm serve MODEL`, as KServe's template runs it."""
    model = next((found for layer in layers if (found := layer.get("spec", "model", "uri"))), None)
    where = model or container or layers[0]
    served = standing("/mnt/models", where.location())
    if model is not None and isinstance(model.value, str) and model.value.startswith("hf://"):
        served = model.text().slice(len("hf://"))
    return (standing("vllm", where.location()), standing("serve", where.location()), served)


def _typed(layers: list[Item], path: tuple[str, ...]) -> list[Text]:
    """Options that typed fields stand for: parallelism of the pool, speculation."""
    words: list[Text] = []
    pool = path[:1] if path[:1] == ("prefill",) else ()
    for layer in layers:
        if parallelism := layer.get("spec", *pool, "parallelism"):
            words += mapped_words(parallelism, _PARALLELISM)
            break
    for layer in layers:
        config = layer.get("spec", "speculator", "config")
        if config is None:
            continue
        words.append(config.key_text("--speculative-config"))
        words.append(config.text() if isinstance(config.value, str) else _speculation(layer, config))
        break
    return words


def _speculation(layer: Item, config: Item) -> Text:
    """The speculator's config as JSON; its model is the speculator's own where the config names none."""
    model: Any = layer.dig("spec", "speculator", "model", "uri") or layer.dig("spec", "speculator", "uri")
    if isinstance(config.value, dict) and isinstance(model, str) and "model" not in config.value:
        value = {**config.value, "model": model.removeprefix("hf://")}
        return json_text(Item(value, config.pointer, config.places))
    return json_text(config)


def inference_service(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """An InferenceService whose predictor is a `model` that KServe's Hugging Face server runs with vLLM."""
    model = item.get("spec", "predictor", "model")
    if model is None:
        return []
    runtime = model.string("runtime")
    for kind, other in objects:
        if (
            kind in ("ServingRuntime", "ClusterServingRuntime")
            and other.string("metadata", "name") == runtime
        ):
            return _with_runtime(model, other, name, cluster, source)
    form = model.string("modelFormat", "name")
    if form not in ("huggingface", "vLLM", "vllm"):
        return []
    where = (model.get("modelFormat", "name") or model).location()
    prefix: tuple[Text, ...] = (standing("huggingfaceserver", where),)
    if form != "huggingface":
        prefix = (standing("vllm", where), standing("serve", where))
    uri = model.get("storageUri")
    words: list[Text] = []
    if uri is not None and isinstance(uri.value, str):
        words = [standing("--model", where), uri.text()]
        if uri.value.startswith("hf://"):
            words[1] = uri.text().slice(len("hf://"))
    return container_engines(model, f"{name} model", cluster, source, {}, prefix=prefix, suffix=tuple(words))


def _with_runtime(model: Item, runtime: Item, name: str, cluster: Cluster, source: Input) -> list[Found]:
    """The runtime's container with the model's arguments and environment added."""
    from policy_eval.normalize.readers.pods import strings, substituted

    found: list[Found] = []
    for container in runtime.items("spec", "containers"):
        warnings: list[Problem] = []
        env = container_env(container, cluster, warnings) | container_env(model, cluster, warnings)
        given = [*strings(container, "command"), *strings(container, "args"), *strings(model, "args")]
        image = model.get("image") or container.get("image")
        origin = Origin(
            name=f"{name} model",
            input=source,
            image=None if image is None else image.text(),
            warnings=tuple(warnings),
        )
        words = tuple(substituted(text, env) for text in given)
        found += found_in(
            container_readings(words, origin.image, env, container.get("command") is None), origin
        )
    return found
