"""A random language model without weights: logits are a hash of the text so far, in shapes that are hard to sample.

Deterministic on every platform: the hash is integer arithmetic, the rest is elementwise float64, rounded to float32.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from policy_eval.sampler.draw import gumbel

VOCABULARY = 64

Shape = Literal["plain", "coarse", "ties", "flat", "spike", "tiny", "huge", "few", "one"]
SHAPES: tuple[Shape, ...] = get_args(Shape)


def start(seed: Tensor) -> Tensor:
    """The state of an empty text: int64 [N] from seeds int64 [N]."""
    return seed * 0x2545F4914F6CDD1D + 0x632BE59BD9B4E019


def follow(state: Tensor, token: Tensor) -> Tensor:
    """The state after one more token: int64 [N]."""
    return (state ^ (token + 1)) * 0x5851F42D4C957F2D + 0x14057B7EF767814F


def logits(state: Tensor, shape: Tensor) -> Tensor:
    """Raw logits float32 [N, VOCABULARY] of texts with these states [N]; ``shape`` int64 [N] indexes SHAPES.

    plain: a usual spread. coarse: rounded to bfloat16, so that some are equal. ties: few different values. flat:
    all equal. spike: one far above the rest. tiny, huge: differences near nothing, or so large that all but the
    first vanish. few, one: -inf except for five, for one.
    """
    ids = torch.arange(VOCABULARY, device=state.device)
    plain = 1.5 * gumbel(state[:, None], torch.zeros_like(state)[:, None], ids)
    out = plain.clone()
    rank = plain.argsort(1, descending=True).argsort(1)
    made = {
        "coarse": plain.float().bfloat16().double(),
        "ties": (plain / 1.5).round(),
        "flat": torch.zeros_like(plain),
        "spike": plain * 0.1 + 20.0 * (rank == 0),
        "tiny": plain * 1e-5,
        "huge": plain * 1e3,
        "few": plain.masked_fill(rank >= 5, -torch.inf),
        "one": plain.masked_fill(rank >= 1, -torch.inf),
    }
    for index, name in enumerate(SHAPES):
        if name in made:
            out = torch.where((shape == index)[:, None], made[name], out)
    return out.float()


def draft(target: Tensor, state: Tensor) -> Tensor:
    """What a smaller model would say: the target's logits [N, V] float32 with noise of its own."""
    ids = torch.arange(target.shape[1], device=state.device)
    noise = gumbel(state[:, None], torch.ones_like(state)[:, None], ids)
    return target + 0.7 * noise.float()
