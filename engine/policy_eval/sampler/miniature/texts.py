"""The texts being generated, and everything that was sampled for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from policy_eval.sampler.miniature.cases import Case
from policy_eval.sampler.miniature.model import SHAPES, follow, logits, start
from policy_eval.sampler.miniature.sample import Sampled
from policy_eval.sampler.params import RowParams, row_params

NO_ROW = -1


class Texts:
    """R requests in the making. Sampled rows go to a pool; a token names the row it was drawn from.

    ``own[r][t]``: the pool row from whose distribution token t of request r was drawn. ``returned[r]``: the pool
    rows that the engine hands out for request r, in its order; NO_ROW where it has none.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self.seed = torch.tensor([case.seed for case in cases], dtype=torch.int64)
        self.shape = torch.tensor([SHAPES.index(case.shape) for case in cases], dtype=torch.int64)
        # Requests with the same seed read different texts, and draw different noise.
        self.seed = self.seed * 4096 + torch.arange(len(cases))
        self.tokens: list[list[int]] = [[] for _ in cases]
        self.own: list[list[int]] = [[] for _ in cases]
        self.returned: list[list[int]] = [[] for _ in cases]
        self._pool: list[Sampled] = []
        self._size = 0

    def add(self, sampled: Sampled) -> int:
        """Put rows into the pool; returns the number of the first."""
        first = self._size
        self._pool.append(sampled)
        self._size += len(sampled.token)
        return first

    def pool(self) -> Sampled:
        """All rows, in the order in which they were added."""
        fields = ("token", "truth", "keep", "logprobs", "raw", "scaled")
        return Sampled(**{name: torch.cat([getattr(part, name) for part in self._pool]) for name in fields})

    def unfinished(self) -> list[int]:
        """The requests that still need tokens."""
        return [at for at, case in enumerate(self.cases) if len(self.tokens[at]) < case.tokens]

    def row(self, request: int, more: Sequence[int] = ()) -> RowParams:
        """Parameters of the token that follows a request's text and ``more``."""
        return row_params(self.cases[request].sampling, (), [*self.tokens[request], *more])

    def states(self, requests: Sequence[int]) -> Tensor:
        """The model's states after these requests' texts: int64 [len(requests)]."""
        state = start(self.seed[list(requests)])
        longest = max((len(self.tokens[at]) for at in requests), default=0)
        for position in range(longest):
            there = torch.tensor([len(self.tokens[at]) > position for at in requests])
            token = torch.tensor(
                [self.tokens[at][position] if len(self.tokens[at]) > position else 0 for at in requests]
            )
            state = torch.where(there, follow(state, token), state)
        return state

    def trainer_logits(self) -> Tensor:
        """Raw logits of the finished texts, as a trainer computes them: float32 [R, T, V], all of one length."""
        tokens = torch.tensor(self.tokens, dtype=torch.int64)
        state = start(self.seed)
        rows = []
        for position in range(tokens.shape[1]):
            rows.append(logits(state, self.shape))
            state = follow(state, tokens[:, position])
        return torch.stack(rows, 1)
