"""What the engine in miniature knows of configurations: which facts decide its behaviour, and how.

This is written from what the engines were seen to do, not from the policies, which are judged by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy_eval.cel import Unknown
from policy_eval.sampler.miniature.behaviour import Behaviour

ENGINE = "vllm"

# The facts that decide whether masks are consistent: varied by every proof, whether a policy reads them or not.
MODELLED = (
    "/model_config",
    "/model_config/return_sampling_mask",
    "/model_config/is_diffusion",
    "/model_config/logits_processors",
    "/model_config/logprobs_mode",
    "/speculative_config",
    "/speculative_config/enable_adaptive_verification",
    "/use_v2_model_runner",
)

# Defaults of requests. vLLM refuses requests that do not suit, so a policy may leave them alone: varied only
# where a policy reads them.
MODELLED_IF_READ = ("/sampling_params", "/sampling_params/temperature", "/sampling_params/top_k")

# From this release masks are kept for each committed position; before, for each step of the engine.
ROWS_PER_POSITION = "0.32"


class FactsUnknownError(Exception):
    """The behaviour depends on facts that are not known: ``pointers``."""

    def __init__(self, pointers: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(pointers)))
        self.pointers = pointers


def behaviour(config: Mapping[str, Any]) -> Behaviour | None:
    """What a configuration's engine does; None where it is not asked for masks.

    ``config`` is complete (`policy_eval.schema.complete`) and states a release. Raises FactsUnknownError.
    """
    model = _known(config["model_config"])
    if model is None or not _known(model["return_sampling_mask"]):
        return None
    processors = len(_known(model["logits_processors"]) or ())
    requests = _known(config["sampling_params"]) or {}
    temperature, top_k = (_stated(requests.get(name)) for name in ("temperature", "top_k"))
    common: dict[str, Any] = {
        "captures": _known(config["use_v2_model_runner"]),
        "logprobs_mode": _known(model["logprobs_mode"]),
        "processors": min(processors, 2),
        "temperature": None if temperature is None else float(temperature),
        "top_k": top_k,
    }
    if _known(model["is_diffusion"]):
        # The canvas takes the place of drafts.
        return Behaviour(diffusion=True, **common)
    speculative = _known(config["speculative_config"])
    if speculative is None:
        return Behaviour(**common)
    adaptive = _known(speculative["enable_adaptive_verification"])
    return Behaviour(
        speculation="adaptive" if adaptive else "fixed",
        rows_per="position" if _from(config["engine"]["version"], ROWS_PER_POSITION) else "step",
        **common,
    )


def _known(value: Any) -> Any:
    if isinstance(value, Unknown):
        raise FactsUnknownError(value.pointers)
    return value


def _stated(value: Any) -> Any:
    """A request default that nothing states is the request's own business."""
    return None if isinstance(value, Unknown) else value


def _from(version: str, first: str) -> bool:
    from packaging.version import Version

    return Version(version).release >= Version(first).release
