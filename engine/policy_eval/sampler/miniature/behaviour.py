"""What an engine does that decides whether its masks can be trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from policy_eval.sampler.semantics import Name

LogprobsMode = Literal["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How one engine generates and what it returns; two configurations with equal behaviours need one run.

    ``captures``: the sampler keeps its masks (vLLM's older runner does not). ``speculation``: how many
    drafted positions a step verifies: none, always as many, or as many as the draft is confident of. ``rows_per``:
    what a mask row is kept for where a step commits several tokens: each position, or only the step's last one.
    ``diffusion``: a canvas of positions is revised in rounds. ``processors``: custom logits processors; the first
    works where the mask is taken already, the others before it, unknown to the trainer. ``logprobs_mode``: what
    is returned as log-probabilities. ``semantics``: whose order of filters. ``checks_requests``: requests
    without a temperature or a top_k are refused. ``temperature``, ``top_k``: what every request has instead of
    its own.
    """

    captures: bool = True
    speculation: Literal["none", "fixed", "adaptive"] = "none"
    rows_per: Literal["position", "step"] = "position"
    diffusion: bool = False
    processors: int = 0
    logprobs_mode: LogprobsMode = "processed_logprobs"
    semantics: Name = "vllm"
    checks_requests: bool = True
    temperature: float | None = None
    top_k: int | None = None
