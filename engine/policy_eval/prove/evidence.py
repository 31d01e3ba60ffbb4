"""What one behaviour does to a trainer, in numbers: a run, judged, and held against what was really drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.sampler.miniature.cases import Case, cases
from policy_eval.sampler.miniature.engine import Run, run
from policy_eval.sampler.miniature.model import VOCABULARY
from policy_eval.sampler.params import Params, row_params
from policy_eval.sampler.pipeline import process
from policy_eval.sampler.rollout import Request, judge_request

# Broken where the returned distribution is not the one drawn from; only the miniature can know that.
DRAWN = "drawn-as-returned"
# Float32 log-probabilities of one distribution differ by less than this many nats on average.
SAME = 1e-6

# Hostile logits show that something breaks; how much it costs is read off logits as models have them.
_USUAL = ("plain", "coarse")
_CAP = 50.0
# Requests to judge where something is broken already.
_ENOUGH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRow:
    """The first token that cannot be trained on: its request, what is wrong, and the distributions around it.

    ``drawn``: probability of each id as it was really drawn, [V]. ``mask``: the returned ids, None: no row came.
    """

    case: Case
    position: int
    token: int
    invariant: str
    message: str
    drawn: Sequence[float]
    mask: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A behaviour, run.

    Counted over all logits: ``tokens`` generated, requests ``served`` and ``refused``, ``judged`` tokens, and of these
    ``findings`` by invariant (DRAWN over all tokens). Over usual logits only: ``counted`` tokens; ``missing`` rows;
    rows ``misaligned``, that is kept from another draw than the token's; tokens ``outside`` their row;
    ``sum_off``, the largest
    |sum of probabilities - 1|; ``ratios``, the trainer's probability of the token over its mask (over the whole
    vocabulary where none came) divided by the returned one; ``kl``, the mean of KL(drawn || trainer) in nats
    over the tokens where it is finite, ``kl_infinite`` the others; ``sizes`` of the masks.
    """

    behaviour: Behaviour
    tokens: int
    served: int
    refused: int
    judged: int
    findings: Mapping[str, int]
    counted: int
    missing: int
    misaligned: int
    outside: int
    sum_off: float
    ratios: Sequence[float]
    kl: float
    kl_infinite: int
    sizes: Sequence[int]
    broken: BrokenRow | None

    @property
    def consistent(self) -> bool:
        """Whether everything came, and fits."""
        return not self.findings and not self.refused

    @property
    def ratio_mean(self) -> float:
        """Mean importance ratio; 1 where nothing is wrong, before the first update."""
        return sum(self.ratios) / len(self.ratios) if self.ratios else float("nan")

    @property
    def ratio_spread(self) -> float:
        """Standard deviation of the importance ratios."""
        mean = self.ratio_mean
        return (
            (sum((one - mean) ** 2 for one in self.ratios) / len(self.ratios)) ** 0.5 if self.ratios else 0.0
        )


def gather(behaviour: Behaviour, *, seeds: int, judged_seeds: int) -> Evidence:
    """Run every shape of logits and all parameters ``seeds`` times, and judge the rollouts of ``judged_seeds``.

    Once something is broken no more is judged than shows it.
    """
    done = run(behaviour, cases(seeds))
    findings: Counter[str] = Counter()
    broken: BrokenRow | None = None
    judged = requests = 0
    for at, request in enumerate(done.requests):
        if done.cases[at].seed > judged_seeds or (broken and requests >= _ENOUGH):
            continue
        requests += 1
        judged += len(request.token_ids)
        for one in judge_request(request, done.logits[at], "vllm"):
            findings[one.invariant] += 1
            # People see a usual row if there is one; those come first.
            if broken is None:
                broken = _broken(done, at, one.position or 0, one.invariant, one.message)
    numbers = _Numbers(done)
    differs = (numbers.kl > SAME) & numbers.present
    if bool(differs.any()):
        findings[DRAWN] += int(differs.sum())
        if broken is None:
            at, position = (int(one) for one in differs.view(len(done.requests), -1).nonzero()[0])
            message = "the token was not drawn from the distribution that its row describes"
            broken = _broken(done, at, position, DRAWN, message)
    usual = numbers.usual
    present, sums = numbers.present & usual, numbers.sums[numbers.present & usual]
    kl = numbers.kl[usual]
    return Evidence(
        behaviour=behaviour,
        tokens=len(numbers.kl),
        served=len(done.requests),
        refused=done.refused,
        judged=judged,
        findings=dict(findings),
        counted=int(usual.sum()),
        missing=int((usual & ~numbers.present).sum()),
        misaligned=int((present & ~done.aligned.reshape(-1)).sum()),
        outside=int((present & ~numbers.inside).sum()),
        sum_off=float((sums - 1).abs().max()) if len(sums) else 0.0,
        ratios=tuple(numbers.ratio[usual].tolist()),
        kl=float(kl[kl.isfinite()].mean()) if bool(kl.isfinite().any()) else 0.0,
        kl_infinite=int((~kl.isfinite()).sum()),
        sizes=tuple(numbers.size[present].tolist()),
        broken=broken,
    )


def _broken(done: Run, at: int, position: int, invariant: str, message: str) -> BrokenRow:
    request = done.requests[at]
    rows = request.sampling_mask
    return BrokenRow(
        case=done.cases[at],
        position=position,
        token=request.token_ids[position],
        invariant=invariant,
        message=message,
        drawn=tuple(done.truth[at, position].tolist()),
        mask=rows[position] if rows is not None and position < len(rows) else None,
    )


class _Numbers:
    """What a trainer computes with a run, flat over its N tokens; all tensors are [N]."""

    def __init__(self, done: Run) -> None:
        total = sum(len(request.token_ids) for request in done.requests)
        keep = torch.zeros(total, VOCABULARY, dtype=torch.bool)
        self.present = torch.zeros(total, dtype=torch.bool)
        self.sums = torch.zeros(total, dtype=torch.float64)
        row = 0
        for request in done.requests:
            for position in range(len(request.token_ids)):
                ids = _at(request.sampling_mask, position)
                if ids is not None:
                    self.present[row] = True
                    keep[row, list(ids)] = True
                    values = torch.tensor(_at(request.sampling_mask_logprobs, position), dtype=torch.float64)
                    self.sums[row] = values.clamp(max=_CAP).exp().sum()
                row += 1
        token = torch.tensor(
            [one for request in done.requests for one in request.token_ids], dtype=torch.int64
        )
        recorded = torch.tensor(
            [one for request in done.requests for one in request.token_logprobs or ()], dtype=torch.float64
        )
        self.size = keep.sum(1)
        self.inside = keep.gather(1, token[:, None]).squeeze(1) if total else self.present
        trainer = self._trainer(done, keep) if total else torch.zeros(0, VOCABULARY).double()
        own = trainer.gather(1, token[:, None]).squeeze(1) if total else recorded
        # A recorded -inf (drawn where its own row has nothing) gives a ratio without bound: capped.
        self.ratio = (own - recorded).nan_to_num(nan=0.0, posinf=_CAP).clamp(-_CAP, _CAP).exp()
        self.ratio = torch.where(own.isfinite(), self.ratio, 0.0)
        drawn = done.truth.reshape(-1, VOCABULARY)
        term = torch.where(drawn > 0, drawn * (drawn.clamp(min=1e-300).log() - trainer), 0.0)
        self.kl = term.sum(1).clamp(min=0.0)
        shapes = [case.shape in _USUAL for case in done.cases for _ in range(case.tokens)]
        self.usual = torch.tensor(shapes, dtype=torch.bool)

    def _trainer(self, done: Run, keep: Tensor) -> Tensor:
        """The trainer's log-probabilities [N, V]: over the returned mask, or over everything where none came."""
        rows = [
            row_params(request.sampling_params, (), request.token_ids[:position])
            for request in done.requests
            for position in range(len(request.token_ids))
        ]
        params = Params.build(rows, vocab_size=VOCABULARY, semantics="vllm")
        z = process(done.logits.reshape(-1, VOCABULARY), params).double() / params.temperature[:, None]
        z = torch.where(keep | ~self.present[:, None], z, -torch.inf)
        # A foreign row can hold nothing that these logits allow: no probability anywhere.
        return torch.log_softmax(z, 1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def _at(rows: Sequence[Any] | None, position: int) -> Any:
    return rows[position] if rows is not None and position < len(rows) else None


def recorded(request: Request) -> dict[str, Any]:
    """A request as one line of a recording (``schemas/rollout.schema.json``), which ``policy-eval judge`` reads."""
    return {
        "prompt_token_ids": list(request.prompt_token_ids),
        "sampling_params": dict(request.sampling_params),
        "token_ids": list(request.token_ids),
        "sampling_mask": request.sampling_mask,
        "sampling_mask_logprobs": request.sampling_mask_logprobs,
        "token_logprobs": request.token_logprobs,
        "vocab_size": request.vocab_size,
        "first_logits_row": request.first_logits_row,
        "semantics": request.semantics,
        "dtype": "fp32",
    }
