"""Timing side by side, so that a change of the machine's speed falls on both."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable

ROUNDS = 7


def seconds(function: Callable[[], object]) -> float:
    """Seconds a call takes, over a round that is long enough to measure."""
    timer = timeit.Timer(function)
    number, taken = timer.autorange()
    number = max(1, int(number * 0.2 / max(taken, 1e-9)))
    return timer.timeit(number) / number


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = ROUNDS) -> float:
    """How many times as long ``ours`` takes as ``theirs``: the median of rounds in which both ran in turn."""
    return statistics.median(seconds(ours) / seconds(theirs) for _ in range(rounds))


class Table:
    """Rows of ratios with their budgets, printed as they come; ``missed`` counts budgets that were not kept."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, name: str, value: float, budget: float | None = None) -> None:
        """Print a ratio and, when it has one, its budget."""
        over = budget is not None and value > budget
        self.missed += over
        note = f"   budget {budget:g} x{'   MISSED' if over else ''}" if budget is not None else ""
        print(f"{name:58} {value:9.2f} x{note}", flush=True)
