"""A second, slow sampler in plain Python, written from the description of each engine and not from the code."""

from __future__ import annotations

import math


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
