"""What a model's ``config.json`` says, where the caller supplies it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source, load_json, read_text

HfConfig = str | os.PathLike[str] | Mapping[str, Any] | Source
"""A config.json: its data, its text, its path, or the folder that holds it."""

_EXPERT_KEYS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")


def hf_config(name: str, configs: Mapping[str, HfConfig], *, served: bool = False) -> Source | None:
    """The config.json of a model by the name used on the command line; None where nobody supplied it.

    The name ``*`` stands for the served model, whatever its name. Raises PolicyEvalError for a file that cannot be read
    or is no JSON object.
    """
    given = configs.get(name)
    if given is None and served:
        given = configs.get("*")
    if given is None:
        return None
    source = _source(given, name)
    if not isinstance(source.value, dict):
        where = source.location("")
        raise PolicyEvalError(Problem(message=f"the config.json of `{name}` is no mapping", location=where))
    return source


def _source(given: HfConfig, name: str) -> Source:
    if isinstance(given, Source):
        return given
    if isinstance(given, Mapping):
        from json import dumps

        try:
            return load_json(dumps(dict(given)), f"config.json of {name}")
        except (TypeError, ValueError):
            where = Location(file=f"config.json of {name}")
            raise PolicyEvalError(
                Problem(message="a value that JSON does not have", location=where)
            ) from None
    text = os.fspath(given)
    if text.lstrip().startswith("{"):
        return load_json(text, f"config.json of {name}")
    path = os.path.join(text, "config.json") if os.path.isdir(text) else text
    return load_json(read_text(path), path)


def model_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that rules and derivations need, by the names the document uses.

    Values of a kind that the engine does not expect are left out: they stay unknown.
    """
    canvas = config.get("canvas_length")
    # Any value but null counts, whatever it is; the document holds plain, finite values.
    plain = canvas is None or isinstance(canvas, (bool, str))
    number = isinstance(canvas, (int, float)) and abs(canvas) < 2**63
    found: dict[str, Any] = {"canvas_length": canvas if plain or number else True}
    architectures = config.get("architectures") or []
    if isinstance(architectures, list) and all(isinstance(name, str) for name in architectures):
        found["architectures"] = architectures
    model_type = config.get("model_type")
    if model_type is None or isinstance(model_type, str):
        found["model_type"] = model_type
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    experts = next((text[key] for key in _EXPERT_KEYS if text.get(key) is not None), 0)
    if isinstance(experts, list):
        experts = max((item for item in experts if isinstance(item, int)), default=0)
    if isinstance(experts, int) and not isinstance(experts, bool) and abs(experts) < 2**63:
        found["num_experts"] = experts
    layers = text.get("layer_types")
    if layers is None or (isinstance(layers, list) and all(isinstance(item, str) for item in layers)):
        found["layer_types"] = layers or []
    return found
