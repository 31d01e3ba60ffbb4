"""Ray: RayService (YAML inside a YAML string), RayJob, and Ray Serve LLM configuration files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_eval.model import Document
from policy_eval.normalize.item import Item, nested_yaml
from policy_eval.normalize.readers.options import option_words
from policy_eval.normalize.readers.pods import Cluster
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, engine_launch, found_in
from policy_eval.normalize.shell.script import read_script
from policy_eval.normalize.text import Text


def ray_service(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """The engines of `serveConfigV2`, one for each LLM configuration in it."""
    found: list[Found] = []
    config = item.get("spec", "serveConfigV2")
    if config is None or not isinstance(config.value, str):
        return found
    image = next(
        (
            container.get("image")
            for container in item.items(
                "spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers"
            )
        ),
        None,
    )
    for inner in nested_yaml(config.text()):
        found += serve_engines(inner, name, source, image.text() if image is not None else None)
    return found


def ray_job(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """The engines that a RayJob's entry point starts: it is a line for a shell."""
    entry = item.get("spec", "entrypoint")
    if entry is None or not isinstance(entry.value, str):
        return []
    return found_in(read_script(entry.text()), Origin(name=name, input=source))


def serve_engines(config: Item, name: str, source: Input, image: Text | None) -> list[Found]:
    """The engines of a Ray Serve configuration: its applications' `llm_configs`."""
    found: list[Found] = []
    for application in config.items("applications"):
        args = application.get("args")
        if args is None:
            continue
        configs = list(args.items("llm_configs")) or [args]
        for number, one in enumerate(configs):
            for key in ("llm_config", "prefill_config", "decode_config"):
                if (inner := one.get(key)) is not None and inner.get("engine_kwargs") is not None:
                    label = f"{name} application {application.string('name') or '?'} {key}"
                    found.append(_engine(inner, label, source, image))
            if one.get("model_loading_config") is not None or one.get("engine_kwargs") is not None:
                model = one.string("model_loading_config", "model_id") or str(number + 1)
                found.append(_engine(one, f"{name} model {model}", source, image))
    return found


def _engine(config: Item, name: str, source: Input, image: Text | None) -> Found:
    """One `LLMConfig`: its `engine_kwargs` are names of vLLM's engine arguments."""
    where = config.get("model_loading_config", "model_source") or config.get(
        "model_loading_config", "model_id"
    )
    words: list[Text] = []
    if where is not None and isinstance(where.value, str):
        words = [where.key_text("--model"), where.text()]
    for key, value in config.pairs("engine_kwargs"):
        words += option_words(key, value)
    env = {key: value.text() for key, value in config.pairs("runtime_env", "env_vars") if value.is_scalar}
    return engine_launch("vllm", words, env, Origin(name=name, input=source, image=image), config.location())


def matches(source: Input) -> bool:
    """Whether this is a Ray Serve configuration file."""
    return any(item.string("kind") is None and _is_serve(item) for item in source.mappings())


def _is_serve(item: Item) -> bool:
    return any(
        application.get("import_path") is not None or application.get("args", "llm_configs") is not None
        for application in item.items("applications")
    )


def read(source: Input) -> Sequence[Found | Document]:
    """The engines of a Ray Serve configuration file."""
    found: list[Found] = []
    for item in source.items():
        found += serve_engines(item, os.path.basename(source.file), source, None)
    return found


SHAPE = Shape(
    name="ray-serve",
    description="Ray Serve LLM configuration: applications with llm_configs and engine_kwargs",
    matches=matches,
    read=read,
)
