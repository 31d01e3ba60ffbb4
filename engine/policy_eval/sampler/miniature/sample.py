"""One call of the engine's sampler: what it keeps of a batch of rows, and what it really draws from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from policy_eval.sampler.draw import draw
from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.sampler.miniature.model import VOCABULARY
from policy_eval.sampler.params import Params, RowParams
from policy_eval.sampler.pipeline import process, raise_faults, support


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """N rows. ``token``: int64 [N], drawn from ``truth``: float64 [N, V], which sums to 1.

    What the sampler could return: ``keep`` bool [N, V], ``logprobs`` float32 [N, V] over the support, -inf
    outside; ``raw`` float32 [N, V], the logits before anything; ``scaled`` float32 [N, V], after edits and temperature.
    """

    token: Tensor
    truth: Tensor
    keep: Tensor
    logprobs: Tensor
    raw: Tensor
    scaled: Tensor


def sample(
    raw: Tensor, rows: Sequence[RowParams], behaviour: Behaviour, seed: Tensor, position: Tensor
) -> Sampled:
    """Sample a batch. raw: float32 [N, V]; rows: N parameters; seed, position: int64 [N], the key of each draw."""
    params = Params.build(rows, vocab_size=VOCABULARY, semantics=behaviour.semantics)
    seen = raw
    if behaviour.processors > 1:
        seen = raw + _boost(raw, 5)
    processed = process(seen, params)
    found = drawn = support(processed, params)
    if behaviour.processors:
        drawn = support(process(seen + _boost(raw, 3), params), params)
    raise_faults(found)
    truth = drawn.logprobs().double().exp()
    first = torch.nn.functional.one_hot(drawn.logprobs().argmax(1), VOCABULARY).double()
    truth = torch.where(params.greedy[:, None], first, truth / truth.sum(1, keepdim=True))
    return Sampled(
        token=draw(truth.log(), seed, position),
        truth=truth,
        keep=found.keep(),
        logprobs=found.logprobs(),
        raw=raw,
        scaled=(processed.double() / params.temperature[:, None]).float(),
    )


def _boost(raw: Tensor, every: int) -> Tensor:
    """A custom logits processor: a liking for some ids."""
    return 3.0 * (torch.arange(raw.shape[1], device=raw.device) % every == 0)
