"""What each token of one row must be, as far as the precision of the engine decides it.

The float64 model gives every token a scaled logit z. The engine computed in a dtype with unit roundoff u
(half of its eps), so its own z lies within an error of ours, and its sums within a bound of ours:

- edits: an edited logit goes through at most 9 roundings (bias 2, repetition 2, additive penalties 5), each
  at most u times the largest magnitude on the way; an unedited one through none. A logit that the dtype
  cannot hold differs by exactly its cast.
- temperature: cast and division, 2u |z|; none where the temperature is 1.
- a term exp(z - max): relative error delta = error + error of the max + u |z - max| + 4u (exp within 2 ulp).
- an engine that ranks by probabilities (``Semantics.on_probabilities``) ranks by rounded ones: their logarithms are
  another u |z - max| + 6u off (exp, division, its rounding), so tokens with different logits may tie or swap.
- a sum of n terms: the sum of the terms' errors and n u of it, the worst case of adding one by one; tree
  sums lie inside. A term below the dtype's smallest normal number may vanish: n times that, absolute.
- top_p itself: its cast, |fl(p) - p|, and one rounding where the engine computes 1 - p or subtracts a term.

The error of an ascending sum is relative to the tail, that of a descending sum to the head: at p = 1 an
ascending engine decides every token that does not underflow, a descending one passes 1.0 in the far tail.

Unedited tokens with equal logits have equal values in any precision: they are a tie. Which of them stay is
free, how many is decided. So every filter answers, for each tie, with the fewest and the most that stay; a
token alone is a tie of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from policy_eval.sampler.params import RowParams
from policy_eval.sampler.semantics import Filter, Semantics

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The reference's word on each of V tokens of one row. All tensors are [V].

    ``z``, ``error``: float64, the scaled logit (-inf: forbidden) and its rounding bound. ``size``: int64, how many
    tokens tie with this one, itself included; ``tie``: int64, the number of its tie. ``fewest``, ``most``:
    int64, how many of the tie stay at least and at most. ``cut_by``: which filters surely drop a token, bool,
    in the engine's order.
    """

    z: Tensor
    error: Tensor
    size: Tensor
    tie: Tensor
    fewest: Tensor
    most: Tensor
    cut_by: dict[Filter, Tensor]

    @property
    def must(self) -> Tensor:
        """Tokens that must be kept, bool [V]."""
        return (self.fewest >= self.size) & self.z.isfinite()

    @property
    def may(self) -> Tensor:
        """Tokens that may be kept, bool [V]; the ones that are not must also be kept are undecided."""
        return (self.most > 0) & self.z.isfinite()


def bounds(
    raw: Tensor, processed: Tensor, row: RowParams, table: Semantics, dtype: torch.dtype = torch.float32
) -> Bounds:
    """Judge every token of one row.

    raw, processed: float64 [V], logits before and after the edits (``pipeline.process``); a token must be left.
    dtype: what the engine computed in.
    """
    error, edited = rounding(raw, processed, row, table, dtype)
    z = processed / (row.temperature or 1.0)
    if table.on_probabilities:
        error = torch.where(z.isfinite(), error + torch.finfo(dtype).eps / 2 * ((z - z.max()).abs() + 6), 0.0)
    joint = table.joint or (table.joint_without_min_p and row.min_p == 0)
    if joint or table.on_probabilities or row.temperature == 0 or not 0 < row.top_k < len(z):
        return _decide(z, error, edited, row, table, dtype, joint)
    # Every filter keeps a head of the falling order, so what surely lies below k others is out, whichever filter
    # comes first: only the few others need a closer look.
    near = z + error >= torch.topk(z - error, row.top_k).values[-1]
    few = _decide(z[near], error[near], edited[near], row, table, dtype, joint)

    def spread(values: Tensor, rest: Tensor) -> Tensor:
        return rest.masked_scatter(near, values)

    none = torch.zeros_like(near, dtype=torch.int64)
    cut_by = {name: spread(cut, torch.zeros_like(near)) for name, cut in few.cut_by.items()}
    cut_by["top_k"] = cut_by.get("top_k", torch.zeros_like(near)) | ~near
    return Bounds(
        z=z,
        error=error,
        size=spread(few.size, none + 1),
        tie=spread(few.tie, torch.arange(len(z)) + len(few.z)),
        fewest=spread(few.fewest, none),
        most=spread(few.most, none),
        cut_by=cut_by,
    )


def _decide(
    z: Tensor,
    error: Tensor,
    edited: Tensor,
    row: RowParams,
    table: Semantics,
    dtype: torch.dtype,
    joint: bool,
) -> Bounds:
    """``bounds`` of the tokens given: all of a row, or all that its top_k may leave."""
    one = _Row(z, error, edited, dtype)
    fewest, most = one.size, one.size
    cut_by: dict[Filter, Tensor] = {}
    if row.temperature == 0 and table.greedy == "one":
        fewest, most = one.top_k(1, one.finite, one.finite, ties_kept=False)
        cut_by["top_k"] = most == 0
    elif row.temperature != 0:
        for name in table.filters:
            sure, maybe = (fewest >= one.size) & one.finite, (most > 0) & one.finite
            if name == "min_p" and row.min_p > 0:
                low, high = one.min_p(row.min_p)
            elif name == "top_k" and 0 < row.top_k < len(z):
                low, high = one.top_k(row.top_k, sure, maybe, ties_kept=table.top_k_ties)
            elif name == "top_p":
                left = (one.finite, one.finite) if joint else (sure, maybe)
                low, high = one.top_p(row.top_p, left[0], left[1], table)
            else:
                continue
            fewest, most = torch.minimum(fewest, low), torch.minimum(most, high)
            cut_by[name] = high == 0
        if table.on_probabilities:
            low, high = one.positive()
            fewest, most = torch.minimum(fewest, low), torch.minimum(most, high)
        # The largest always stays; it is known where nothing else can exceed it.
        first = one.could_exceed(one.finite, or_equal=True) == 0
        fewest = torch.where(first, fewest.clamp(min=1), fewest)
        most = torch.where(first, most.clamp(min=1), most)
    return Bounds(z=one.z, error=error, size=one.size, tie=one.tie, fewest=fewest, most=most, cut_by=cut_by)


def rounding(
    raw: Tensor, processed: Tensor, row: RowParams, table: Semantics, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The bound on |engine's scaled logit - ours|, float64 [V], and which tokens were edited, bool [V]."""
    u = torch.finfo(dtype).eps / 2
    magnitude, gain = raw.abs(), torch.ones_like(raw)
    edited = torch.zeros_like(raw, dtype=torch.bool)
    for token, value in row.logit_bias.items():
        magnitude[token] += abs(value)
        edited[token] = True
    if row.repetition_penalty != 1.0:
        seen = list(set(row.output) | (set(row.prompt) if table.repetition_sees_prompt else set()))
        gain[seen] = max(row.repetition_penalty, 1 / row.repetition_penalty)
        edited[seen] = True
    if row.frequency_penalty or row.presence_penalty:
        counts = torch.bincount(torch.tensor(row.output, dtype=torch.int64), minlength=len(raw))
        magnitude = magnitude + counts * abs(row.frequency_penalty) + (counts > 0) * abs(row.presence_penalty)
        edited |= counts > 0
    cast = (raw.to(dtype).double() - raw).abs()
    error = torch.where(edited, (cast + 9 * u * magnitude) * gain, cast)
    temperature = row.temperature or 1.0
    error = error / temperature
    if temperature != 1.0:
        error = error + 2 * u * (processed / temperature).abs()
    return torch.where(processed.isfinite(), error, 0.0), edited


class _Row:
    """One row's scaled logits with their intervals, and the question each filter asks of them.

    Each filter returns (fewest, most), int64 [V]: how many of a token's tie it leaves.
    """

    def __init__(self, z: Tensor, error: Tensor, edited: Tensor, dtype: torch.dtype) -> None:
        self.z, self.dtype = z, dtype
        self.u = torch.finfo(dtype).eps / 2
        self.finite = z.isfinite()
        self.low, self.high = z - error, z + error
        top, at = z.max(0)
        self.top, self.top_error = float(top), float(error[at])
        self.mass = torch.exp(z - top)
        exponent = error + self.top_error + self.u * (z - top).abs() + 4 * self.u
        # Capped: above it nothing is sure anyway, and it keeps sums finite.
        self.delta = torch.expm1(torch.where(self.finite, exponent, 0.0).clamp(max=30))
        # An edited token is a tie of its own, whatever it equals.
        alone = edited | ~self.finite
        _, tie = torch.unique(z, return_inverse=True)
        self.tie = torch.where(alone, len(z) + torch.arange(len(z)), tie)
        _, tie, size = torch.unique(self.tie, return_inverse=True, return_counts=True)
        self.tie, self.size = tie, size[tie]

    def could_exceed(self, among: Tensor, *, or_equal: bool = False) -> Tensor:
        """How many of ``among`` may be larger than each token (or equal to it), its tie not counted: int64 [V]."""
        high = self.high[among].sort().values
        more = len(high) - torch.searchsorted(high, self.low, right=not or_equal)
        # Where there is a rounding error, or equality counts, a tie counts itself.
        itself = among & (or_equal | (self.high > self.low))
        return more - torch.where(itself, self.size, 0)

    def must_exceed(self, among: Tensor) -> Tensor:
        """How many of ``among`` are surely larger than each token: int64 [V]."""
        low = self.low[among].sort().values
        return len(low) - torch.searchsorted(low, self.high, right=True)

    def _whole(self, sure: Tensor, maybe: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(sure, self.size, 0), torch.where(maybe, self.size, 0)

    def min_p(self, min_p: float) -> tuple[Tensor, Tensor]:
        """Keep where the probability is at least min_p times the largest."""
        cast = abs(float(torch.tensor(min_p, dtype=self.dtype)) - min_p) / min_p
        log = abs(math.log(min_p))
        # log and the sum with the max, or exp of the difference and the product: each within this.
        slack = self.top_error + cast + self.u * (6 + 2 * log + abs(self.top) + abs(self.top - log))
        threshold = self.top - log
        return self._whole(self.low >= threshold + slack, self.high >= threshold - slack)

    def top_k(self, k: int, sure: Tensor, maybe: Tensor, *, ties_kept: bool) -> tuple[Tensor, Tensor]:
        """Keep the k largest of what is left; with ``ties_kept`` also all that equal the k-th."""
        # Two tokens that become equal both stay, or either may rank first.
        could, surely = self.could_exceed(maybe, or_equal=not ties_kept), self.must_exceed(sure)
        if ties_kept:
            return self._whole(could < k, surely < k)
        return torch.minimum((k - could).clamp(min=0), self.size), torch.minimum(
            (k - surely).clamp(min=0), self.size
        )

    def top_p(self, p: float, sure: Tensor, maybe: Tensor, table: Semantics) -> tuple[Tensor, Tensor]:
        """Keep the smallest head of what is left that has the mass p."""
        mass, own = self.mass, self.size * self.mass
        head_least = _sum_above(self.low, self.high, mass, sure)
        head_most = (
            _sum_above(self.high, self.low, mass, maybe, equal=True) - torch.where(maybe, own, 0)
        ).clamp(min=0)
        tail_least = _sum_below(self.high, self.low, mass, sure)
        tail_most = (
            _sum_below(self.low, self.high, mass, maybe, equal=True) - torch.where(maybe, own, 0)
        ).clamp(min=0)
        terms = int(maybe.sum())
        total_error = float((mass * self.delta)[maybe].sum() / mass[maybe].sum()) + terms * self.u
        floor = terms * torch.finfo(self.dtype).tiny
        cast = abs(float(torch.tensor(p, dtype=self.dtype)) - p)
        # A tie whose members all stay or all go is decided by its first one.
        size = self.size.double()
        if table.cumulative == "ascending":
            part = tail_most + own
            part_error = _sum_below(self.low, self.high, mass * self.delta, maybe, equal=True) / part
            growth = (part_error + total_error + terms * self.u).nan_to_num(0.0)
            slack = cast + self.u * (1 - p) + floor
            # The t-th of a tie stays while its tail, (size - t) * mass + what follows, exceeds 1 - p of the total.
            lowest = (1 - p + slack) * (1 + growth) * (head_most + own + tail_least)
            highest = (1 - p - slack) / (1 + growth) * (head_least + own + tail_most)
            fewest = torch.ceil(size - (lowest - tail_least) / mass)
            most = torch.floor(size - (highest - tail_most) / mass) + 1
        else:
            part = head_most + own
            part_error = (_sum_above(self.high, self.low, mass * self.delta, maybe, equal=True)) / part
            growth = (part_error + total_error + terms * self.u).nan_to_num(0.0)
            slack = cast + self.u + floor
            # The t-th of a tie stays while its head, t * mass + what precedes, is within p of the total.
            lowest = (p - slack) / (1 + growth) * (head_most + own + tail_least)
            highest = (p + slack) * (1 + growth) * (head_least + own + tail_most)
            fewest = torch.floor((lowest - head_most) / mass) + 1
            most = torch.floor((highest - head_least) / mass) + 1
        fewest = torch.minimum(fewest.nan_to_num(0.0).clamp(min=0), size).long()
        most = torch.minimum(most.nan_to_num(0.0).clamp(min=0), size).long()
        if table.top_p_ties:
            return self._whole(fewest > 0, most > 0)
        return fewest, most

    def positive(self) -> tuple[Tensor, Tensor]:
        """Keep what does not underflow to probability zero."""
        share = self.mass / self.mass.sum()
        kind = torch.finfo(self.dtype)
        sure = share / (1 + self.delta) > kind.tiny * 2
        return self._whole(sure, share * (1 + self.delta) >= kind.tiny * kind.eps / 2)


def _sum_above(values: Tensor, at: Tensor, weight: Tensor, among: Tensor, *, equal: bool = False) -> Tensor:
    """For each of ``at`` [V]: the weight of the ``among`` whose value is above it (or equal)."""
    sorted_values, order = values[among].sort(descending=True)
    through = torch.cat([weight.new_zeros(1), weight[among][order].cumsum(0)])
    return through[torch.searchsorted(-sorted_values, -at, right=equal)]


def _sum_below(values: Tensor, at: Tensor, weight: Tensor, among: Tensor, *, equal: bool = False) -> Tensor:
    """For each of ``at`` [V]: the weight of the ``among`` whose value is below it (or equal)."""
    sorted_values, order = values[among].sort()
    through = torch.cat([weight.new_zeros(1), weight[among][order].cumsum(0)])
    return through[torch.searchsorted(sorted_values, at, right=equal)]
