"""Serve requests with one behaviour: what the engine returns, and the truth beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.sampler.miniature.cases import Case
from policy_eval.sampler.miniature.diffusion import diffuse
from policy_eval.sampler.miniature.model import VOCABULARY, logits
from policy_eval.sampler.miniature.sample import Sampled, sample
from policy_eval.sampler.miniature.speculation import speculate
from policy_eval.sampler.miniature.texts import Texts
from policy_eval.sampler.rollout import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of R requests of T tokens each.

    ``cases``: the requests that were served; ``refused``: how many were not. ``requests``: what the engine
    returned, in the form of recordings. ``logits``: float32 [R, T, V], raw, as a trainer computes them on the
    finished texts. ``truth``: float64 [R, T, V], the distribution that each token was really drawn from.
    ``aligned``: bool [R, T], whether the row that came as the token's was kept from that draw.
    """

    behaviour: Behaviour
    cases: Sequence[Case]
    refused: int
    requests: Sequence[Request]
    logits: Tensor
    truth: Tensor
    aligned: Tensor


def run(behaviour: Behaviour, cases: Sequence[Case]) -> Run:
    """Serve the cases, all of one length. Deterministic: the same behaviour and cases give the same run."""
    assert len({case.tokens for case in cases}) == 1, "the cases need one length"
    cases = [_as_set(behaviour, case) for case in cases]
    served = [case for case in cases if not (behaviour.checks_requests and _refused(case))]
    texts = Texts(served)
    if served:
        if behaviour.diffusion:
            diffuse(texts, behaviour)
        elif behaviour.speculation != "none":
            speculate(texts, behaviour)
        else:
            _one_by_one(texts, behaviour)
        pool = texts.pool()
        own = torch.tensor(texts.own)
    else:
        pool, own = None, torch.zeros(0, cases[0].tokens, dtype=torch.int64)
    aligned = torch.zeros_like(own, dtype=torch.bool)
    for at, rows in enumerate(texts.returned):
        for position, row in enumerate(rows[: own.shape[1]]):
            aligned[at, position] = behaviour.captures and row == own[at, position]
    return Run(
        behaviour=behaviour,
        cases=served,
        refused=len(cases) - len(served),
        requests=[] if pool is None else _requests(texts, pool, behaviour),
        logits=torch.zeros(0, own.shape[1], VOCABULARY) if pool is None else texts.trainer_logits(),
        truth=torch.zeros(0, own.shape[1], VOCABULARY).double() if pool is None else pool.truth[own],
        aligned=aligned,
    )


def _as_set(behaviour: Behaviour, case: Case) -> Case:
    changes = {
        name: value
        for name, value in (("temperature", behaviour.temperature), ("top_k", behaviour.top_k))
        if value is not None
    }
    return replace(case, sampling={**case.sampling, **changes}) if changes else case


def _refused(case: Case) -> bool:
    """VLLM 0.28 to 0.33 refuse a request for masks that is greedy or has no top_k."""
    return bool(case.sampling["temperature"] <= 0 or case.sampling["top_k"] <= 0)


def _one_by_one(texts: Texts, behaviour: Behaviour) -> None:
    everyone = list(range(len(texts.cases)))
    for position in range(texts.cases[0].tokens):
        state = texts.states(everyone)
        sampled = sample(
            logits(state, texts.shape),
            [texts.row(at) for at in everyone],
            behaviour,
            texts.seed,
            torch.full_like(texts.seed, position),
        )
        first = texts.add(sampled)
        for at, token in enumerate(sampled.token.tolist()):
            texts.tokens[at].append(token)
            texts.own[at].append(first + at)
            texts.returned[at].append(first + at)


def _requests(texts: Texts, pool: Sampled, behaviour: Behaviour) -> list[Request]:
    """What goes out: ids in rising order, with values as the logprobs mode has them."""
    values = {
        "raw_logprobs": lambda: torch.log_softmax(pool.raw.double(), 1).float(),
        "raw_logits": lambda: pool.raw,
        "processed_logprobs": lambda: pool.logprobs,
        "processed_logits": lambda: pool.scaled,
    }[behaviour.logprobs_mode]()
    found = []
    for at, case in enumerate(texts.cases):
        masks: list[list[int] | None] = []
        logprobs: list[list[float] | None] = []
        for row in texts.returned[at][: case.tokens]:
            ids = pool.keep[row].nonzero()[:, 0] if row >= 0 else None
            masks.append(None if ids is None else ids.tolist())
            logprobs.append(None if ids is None else values[row][ids].tolist())
        found.append(
            Request(
                prompt_token_ids=(),
                sampling_params=case.sampling,
                token_ids=texts.tokens[at],
                vocab_size=VOCABULARY,
                sampling_mask=masks if behaviour.captures else None,
                sampling_mask_logprobs=logprobs if behaviour.captures else None,
                token_logprobs=[
                    float(values[row, token])
                    for row, token in zip(texts.own[at], texts.tokens[at], strict=True)
                ],
                first_logits_row=at * case.tokens,
                semantics="vllm",
            )
        )
    return found
