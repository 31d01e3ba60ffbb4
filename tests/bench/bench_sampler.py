"""How fast the reference sampler is, as ratios in one run: ``python tests/bench/bench_sampler.py [--device cuda]``.

Against one read of the logits (``amax``), the least that any sampler has to do, and against the full-sort way
(sort, softmax, cumsum, scatter). Read and sampler take turns, and each figure is the median of its turns.
Rows with a top_k come out as lists of ids and log-probabilities, the others as the logit at which they are cut;
the time of the dense mask and log-probabilities, which are made only when asked for, is stated apart. Memory is
the most that is held at once beside the logits, of the tensors made on the way, the dense forms left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import weakref
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from policy_eval.sampler.params import Params, RowParams
from policy_eval.sampler.pipeline import support
from policy_eval.sampler.semantics import Name

ROWS, VOCAB = 16, 151_936


def full_sort(logits: torch.Tensor, k: int, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask and log-probabilities as a sampler does that sorts every row."""
    value, order = logits.sort(dim=-1)
    value = value.masked_fill(value < value[:, -k, None], -torch.inf)
    value = value.masked_fill(
        (value.softmax(-1).cumsum(-1) <= 1 - p).index_fill(
            1, torch.tensor([VOCAB - 1]).to(value.device), False
        ),
        -torch.inf,
    )
    kept = torch.empty_like(logits).scatter_(1, order, value)
    return kept > -torch.inf, kept.log_softmax(-1)


def in_turns(works: list[Callable[[], object]], turns: int, device: str) -> list[float]:
    """The median seconds of one call of each, called in turns so that what else runs slows all of them."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(turns + 2):
        for work, times in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            # The first turns fill caches.
            if turn > 1:
                times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


class Held(TorchDispatchMode):
    """The most bytes that tensors made while it is on hold at one time."""

    def __init__(self, given: torch.Tensor) -> None:
        super().__init__()
        self.now = self.most = 0
        self.alive: dict[int, int] = {given.untyped_storage()._cdata: 0}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor.untyped_storage())
        return out

    def count(self, storage: torch.UntypedStorage) -> None:
        """Add a storage once, until it is freed."""
        key = storage._cdata
        if key in self.alive:
            return
        size = self.alive[key] = storage.nbytes()
        self.now += size
        self.most = max(self.most, self.now)

        def freed() -> None:
            self.now -= self.alive.pop(key, 0)

        weakref.finalize(storage, freed)


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    arguments = argparse.ArgumentParser(description="ratios of the reference sampler, in one run")
    arguments.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--turns", type=int, default=51)
    options = arguments.parse_args()
    device: str = options.device
    torch.set_num_threads(options.threads)
    logits = (torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(0)) * 4).to(device)
    where = torch.cuda.get_device_name(0) if device == "cuda" else f"cpu, {options.threads} threads"
    print(f"{ROWS} x {VOCAB:,} fp32 on {where}")
    [sort] = in_turns([lambda: full_sort(logits, 50, 0.95)], 5, device)
    print(f"full sort, softmax, cumsum, scatter: {sort * 1e3:.1f} ms")
    same = [RowParams(top_k=50, top_p=0.95)] * ROWS
    mixed = [RowParams(top_k=2 ** (i % 12), top_p=0.95, temperature=0.7) for i in range(ROWS)]
    cases: list[tuple[str, Name, list[RowParams]]] = [
        ("k=50 p=.95", "vllm", same),
        ("k=50 p=.95", "hf", same),
        ("k=50 p=.95, joint: needs all", "sglang-torch", same),
        ("k=2048 p=.95", "vllm", [RowParams(top_k=2048, top_p=0.95)] * ROWS),
        ("k from 1 to 2048", "vllm", mixed),
        (
            "k=50, two rows p only",
            "vllm",
            [RowParams(top_k=50 if i > 1 else 0, top_p=0.95) for i in range(ROWS)],
        ),
        ("k=50, two rows open", "vllm", [RowParams(top_k=50 if i > 1 else 0) for i in range(ROWS)]),
    ]
    missed = False
    for name, semantics, rows in cases:
        params = Params.build(rows, vocab_size=VOCAB, semantics=semantics, device=device)

        def work(params: Params = params) -> object:
            return support(logits, params)

        found = support(logits, params)
        read, took = in_turns([lambda: logits.amax(-1), work], options.turns, device)
        [dense] = in_turns([lambda found=found: (found.keep(), found.logprobs())], 3, device)  # type: ignore[misc]
        with Held(logits) as held:
            work()
        memory = held.most / logits.nbytes
        print(
            f"{semantics:13} {name:30} {took * 1e3:7.2f} ms = {took / read:5.2f} reads of {read * 1e3:.2f} ms, "
            f"{sort / took:5.1f} x faster than the sort, memory {memory:.2f} x the logits; dense {dense * 1e3:.1f} ms"
        )
        if name == "k=50 p=.95":
            missed |= took > 3 * read or sort < 10 * took or memory > 1.5
    print(
        "a goal is missed" if missed else "goals met: <= 3 reads, >= 10 x faster than the sort, memory <= 1.5"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
