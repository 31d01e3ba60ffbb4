"""A second, slow sampler in plain Python, written from the description of each engine and not from the code."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def supports(z: list[float], k: int, p: float, min_p: float, semantics: str) -> set[int]:
    """The support of scaled logits by exact rules; ties at a cut that keeps only some: the lowest ids."""
    order = sorted((i for i in range(len(z)) if z[i] > -math.inf), key=lambda i: (-z[i], i))
    top = z[order[0]]
    weight = {i: math.exp(z[i] - top) for i in order}

    def by_min_p(left: list[int]) -> list[int]:
        return [i for i in left if min_p == 0 or z[i] >= top + math.log(min_p)]

    def by_top_k(left: list[int], ties: bool) -> list[int]:
        if not 0 < k < len(z) or len(left) <= k:
            return left
        return [i for i in left if z[i] >= z[left[k - 1]]] if ties else left[:k]

    def by_top_p(left: list[int], full: list[int], *, equal: bool, ties: bool) -> list[int]:
        if p >= 1:
            return left
        total = math.fsum(weight[i] for i in full)
        kept = []
        for i in left:
            before = math.fsum(
                weight[j] for j in full if (z[j] > z[i] if ties else order.index(j) < order.index(i))
            )
            if before < p * total or (equal and before == p * total) or i == order[0]:
                kept.append(i)
        return kept

    if semantics == "vllm":
        left = by_top_k(by_min_p(order), True)
        return set(by_top_p(left, left, equal=False, ties=False))
    if semantics == "hf":
        left = by_top_k(order, True)
        return set(by_min_p(by_top_p(left, left, equal=False, ties=False)))
    if semantics == "sglang-torch":
        return set(by_min_p(by_top_p(by_top_k(order, False), order, equal=True, ties=False)))
    left = by_top_k(order, True)
    return set(by_min_p(by_top_p(left, order if min_p == 0 else left, equal=False, ties=True)))


def by_sorting(z: Tensor, k: int, p: float, min_p: float, semantics: str) -> Tensor:
    """The same rules for long rows: scaled logits float64 [V] -> members, bool [V], by one full stable sort."""
    value, order = z.sort(descending=True, stable=True)
    weight = (value - value[0]).exp()
    every = value > -math.inf

    def by_min_p(left: Tensor) -> Tensor:
        return left & (value >= value[0] + math.log(min_p)) if min_p else left

    def by_top_k(left: Tensor, ties: bool) -> Tensor:
        if not 0 < k < len(z) or int(left.sum()) <= k:
            return left
        return left & ((value >= value[k - 1]) if ties else (torch.arange(len(z)) < k))

    def by_top_p(left: Tensor, full: Tensor, *, equal: bool, ties: bool) -> Tensor:
        if p >= 1:
            return left
        mass = torch.where(full, weight, 0.0)
        through = mass.cumsum(0)
        before, need = through - mass, p * mass.sum()
        kept = (before <= need) if equal else (before < need)
        kept[0] = True
        return left & ((value >= value[kept][-1]) if ties else kept)

    if semantics == "vllm":
        left = by_top_k(by_min_p(every), True)
        left = by_top_p(left, left, equal=False, ties=False)
    elif semantics == "hf":
        left = by_top_k(every, True)
        left = by_min_p(by_top_p(left, left, equal=False, ties=False))
    elif semantics == "sglang-torch":
        left = by_min_p(by_top_p(by_top_k(every, False), every, equal=True, ties=False))
    else:
        left = by_top_k(every, True)
        left = by_min_p(by_top_p(left, every if min_p == 0 else left, equal=False, ties=True))
    return torch.zeros_like(every).scatter(0, order, left)
