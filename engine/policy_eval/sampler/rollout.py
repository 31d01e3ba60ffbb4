"""One request of a rollout, as an engine returned it, and the judge of all of its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from policy_eval.sampler.bounds import Precision
from policy_eval.sampler.judge import Row, judge_row
from policy_eval.sampler.params import row_params
from policy_eval.sampler.semantics import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recorded request (``schemas/rollout.schema.json``). T is the number of generated tokens.

    ``sampling_params``: vLLM's names, see ``params.row_params``. ``sampling_mask``: T rows of ids, a row or all
    None where nothing came. ``sampling_mask_logprobs``: T rows in the order of the ids. ``sampling_mask_counts``: T
    stated sizes. ``token_logprobs``: T log-probabilities of the sampled tokens. The last three: None where the
    engine was not asked for them. ``first_logits_row``: the row of the first token in the file of logits.
    """

    prompt_token_ids: Sequence[int]
    sampling_params: Mapping[str, Any]
    token_ids: Sequence[int]
    vocab_size: int
    sampling_mask: Sequence[Sequence[int] | None] | None
    sampling_mask_logprobs: Sequence[Sequence[float | None] | None] | None = None
    sampling_mask_counts: Sequence[int] | None = None
    token_logprobs: Sequence[float] | None = None
    first_logits_row: int | None = None
    semantics: Name | None = None
    dtype: Precision | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFinding:
    """An invariant that a request breaks at the generated token ``position`` (from 0); None: in the request's form."""

    position: int | None
    invariant: str
    message: str
    ids: tuple[int, ...] = ()


def judge_request(
    request: Request, logits: Tensor | None, semantics: Name, dtype: Precision = "fp32"
) -> list[RequestFinding]:
    """Every broken invariant of a request, by position; empty means consistent.

    logits: raw, float [T, V'] with V' >= vocab_size, or None: then only what the record says of itself is
    checked. Raises ValueError for parameters outside their ranges.
    """
    total = len(request.token_ids)
    assert logits is None or len(logits) == total, "a row of logits for each generated token"
    found: list[RequestFinding] = []
    for name, invariant in (
        ("sampling_mask", "row-present"),
        ("sampling_mask_logprobs", "row-present"),
        ("sampling_mask_counts", "count-is-population"),
        ("token_logprobs", "token-logprob-is-entry"),
    ):
        rows = getattr(request, name)
        # Missing rows are found token by token; here are rows too many, and lists that are only shorter.
        if rows is not None and (len(rows) > total or (len(rows) < total and invariant != "row-present")):
            message = (
                f"`{name}` has {len(rows)} rows for {total} tokens, so rows and tokens do not correspond"
            )
            found.append(RequestFinding(position=None, invariant=invariant, message=message))
    before: list[int] = []
    for position, token in enumerate(request.token_ids):
        params = row_params(request.sampling_params, request.prompt_token_ids, before)
        row = Row(
            token=token,
            mask=_at(request.sampling_mask, position),
            logprobs=_at(request.sampling_mask_logprobs, position),
            logprobs_expected=request.sampling_mask_logprobs is not None,
            count=_at(request.sampling_mask_counts, position),
            token_logprob=_at(request.token_logprobs, position),
        )
        raw = None if logits is None else logits[position]
        for invariant, message, ids in judge_row(raw, params, row, request.vocab_size, semantics, dtype):
            found.append(RequestFinding(position=position, invariant=invariant, message=message, ids=ids))
        # An id outside the vocabulary has its finding; no penalty can apply to it.
        if 0 <= token < request.vocab_size:
            before.append(token)
    return found


def _at(rows: Sequence[Any] | None, position: int) -> Any:
    return rows[position] if rows is not None and position < len(rows) else None
