"""Drawing tokens by Gumbel noise that depends on nothing but the row's seed, its position and the token id.

The noise is a counter-based hash in 64-bit integers, so a row draws the same token alone or in any batch, in
any order, on a CPU or a GPU (whose random generators differ). It is not the engines' noise: a token is compared
with an engine's support, never with an engine's token.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Rows of at most this many logits together are worked on at a time.
_CHUNK = 1 << 22


def seeds(rows: int, generator: torch.Generator) -> Tensor:
    """One seed a row from an explicit generator: int64 [rows], on the generator's device."""
    return torch.randint(0, 1 << 62, (rows,), generator=generator, device=generator.device)


def draw(logprobs: Tensor, seed: Tensor, position: Tensor) -> Tensor:
    """One token a row: argmax of log-probability + Gumbel noise, int64 [B].

    logprobs: [B, V] float, -inf outside the support (``Support.logprobs``); seed, position: int64 [B] on the
    same device. A row must have a token (``raise_faults``); a row without one gives id 0.
    """
    rows, vocab = logprobs.shape
    assert seed.shape == position.shape == (rows,)
    assert seed.dtype == position.dtype == torch.int64
    ids = torch.arange(vocab, device=logprobs.device)
    tokens = torch.empty(rows, dtype=torch.int64, device=logprobs.device)
    step = max(1, _CHUNK // max(vocab, 1))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        noise = gumbel(seed[part, None], position[part, None], ids)
        tokens[part] = torch.argmax(logprobs[part].double() + noise, dim=1)
    return tokens


def gumbel(seed: Tensor, position: Tensor, ids: Tensor) -> Tensor:
    """Standard Gumbel noise, float64, of the shape the three int64 tensors broadcast to."""
    key = _mix(_mix(seed) ^ _wrap(position, 0x9E3779B97F4A7C15))
    bits = _mix(key ^ _wrap(ids, 0xD1B54A32D192ED03))
    # 52 bits, moved half a step off 0 and 1 so that both logarithms are finite.
    uniform = ((bits >> 12) & ((1 << 52) - 1)).double().add(0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def _wrap(x: Tensor, factor: int) -> Tensor:
    return x * (factor - (1 << 64) if factor >= 1 << 63 else factor)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers that spreads every input bit (the finaliser of splitmix64)."""
    x = _wrap(x ^ ((x >> 30) & ((1 << 34) - 1)), 0xBF58476D1CE4E5B9)
    x = _wrap(x ^ ((x >> 27) & ((1 << 37) - 1)), 0x94D049BB133111EB)
    return x ^ ((x >> 31) & ((1 << 33) - 1))
