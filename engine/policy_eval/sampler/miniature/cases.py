"""The requests that the engine in miniature serves: every shape of logits under every kind of sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy_eval.sampler.miniature.model import SHAPES, VOCABULARY, Shape

TOKENS = 6

# All have a temperature and a top_k, without which vLLM refuses a request for masks.
SAMPLING: tuple[Mapping[str, Any], ...] = (
    {"temperature": 1.0, "top_k": 16, "top_p": 0.9, "min_p": 0.0},
    {"temperature": 0.7, "top_k": 24, "top_p": 0.8, "min_p": 0.02},
    {"temperature": 1.4, "top_k": 4, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 1.0, "top_k": VOCABULARY, "top_p": 0.5, "min_p": 0.0},
    {
        "temperature": 0.9,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.0,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "min_tokens": 3,
        "stop_token_ids": [2, 3, 5],
        "logit_bias": {"7": 1.5, "11": -2.0},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request: which logits, which parameters (vLLM's names), and the seed of its text and its draws."""

    shape: Shape
    sampling: Mapping[str, Any]
    seed: int
    tokens: int = TOKENS


def cases(seeds: int) -> list[Case]:
    """``seeds`` requests for each shape and each set of parameters."""
    return [
        Case(shape=shape, sampling=_possible(shape, sampling), seed=1 + seed)
        for shape in SHAPES
        for sampling in SAMPLING
        for seed in range(seeds)
    ]


def _possible(shape: Shape, sampling: Mapping[str, Any]) -> Mapping[str, Any]:
    # With one token left that min_tokens may forbid there would be nothing to draw from.
    return {key: value for key, value in sampling.items() if shape != "one" or key != "min_tokens"}
