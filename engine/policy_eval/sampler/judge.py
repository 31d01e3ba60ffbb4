"""Judging recorded masks: is each mask and log-probability row what the sampler's distribution was?

    findings = judge(logits, rows, mask, logprobs, token, semantics="vllm")

A mask is never repaired, and never compared with a recomputed one: each recorded id is held against what the
reference says of it (``bounds``). Without logits only what the record says about itself is checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from policy_eval.sampler.bounds import DTYPES, Bounds, Precision, bounds
from policy_eval.sampler.params import Params, RowParams
from policy_eval.sampler.pipeline import FAULTS, process
from policy_eval.sampler.semantics import SEMANTICS, Name, Semantics

# Where the logits are not known, an engine that subtracts max + log sum as one number rounds a number of this size.
_USUAL_LOGIT = 128.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One invariant that one row breaks: what was expected and what was found.

    ``row``: its number in the judged batch. ``invariant``: a key of INVARIANTS. ``ids``: the token ids it is about.
    """

    row: int
    invariant: str
    message: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an engine returned for one generated token.

    ``mask``: ids in any order; None: no row came. ``logprobs``: one a member, in the order of the mask; None: not
    recorded, which is a finding only with ``logprobs_expected``. ``count``: the stated size of the mask.
    ``token_logprob``: the log-probability of the sampled token, where it was returned by itself.
    """

    token: int
    mask: Sequence[int] | None
    logprobs: Sequence[float | None] | None = None
    logprobs_expected: bool = True
    count: int | None = None
    token_logprob: float | None = None


def judge(
    logits: Tensor | None,
    params: Sequence[RowParams],
    mask: Sequence[Sequence[int] | None],
    logprobs: Sequence[Sequence[float | None] | None] | None,
    token: Sequence[int],
    *,
    vocab_size: int,
    semantics: Name,
    dtype: Precision = "fp32",
    counts: Sequence[int] | None = None,
    token_logprobs: Sequence[float] | None = None,
) -> list[Finding]:
    """Every broken invariant of B rows, in the order of the rows; empty means consistent.

    logits: raw, float [B, V'] with V' >= vocab_size, or None: not known. mask: ids a row (``Ragged.rows``).
    logprobs: None where the engine returned none at all. dtype: what the engine computed in. Raises ValueError
    for parameters outside their ranges.
    """
    lengths = {len(params), len(mask), len(token), len(params) if logits is None else len(logits)}
    lengths |= {len(other) for other in (logprobs, counts, token_logprobs) if other is not None}
    assert len(lengths) == 1, f"arguments have different numbers of rows: {sorted(lengths)}"
    findings = []
    for index in range(len(params)):
        row = Row(
            token=token[index],
            mask=mask[index],
            logprobs=None if logprobs is None else logprobs[index],
            logprobs_expected=logprobs is not None,
            count=None if counts is None else counts[index],
            token_logprob=None if token_logprobs is None else token_logprobs[index],
        )
        raw = None if logits is None else logits[index]
        for invariant, message, ids in judge_row(raw, params[index], row, vocab_size, semantics, dtype):
            findings.append(Finding(row=index, invariant=invariant, message=message, ids=ids))
    return findings


_Found = tuple[str, str, tuple[int, ...]]


def judge_row(
    logits: Tensor | None,
    params: RowParams,
    row: Row,
    vocab_size: int,
    semantics: Name,
    dtype: Precision = "fp32",
) -> list[_Found]:
    """(invariant, message, ids) of every invariant that one row breaks. logits: raw [V'] or None."""
    kind = DTYPES[dtype]
    found = _form(row, vocab_size)
    if row.mask is None or any(invariant in _UNREADABLE for invariant, _, _ in found):
        return found
    found += _membership(row)
    paired = row.logprobs is not None and len(row.logprobs) == len(row.mask)
    positive = paired and not (not_positive := _positive(row, kind))
    if paired and not positive:
        found += not_positive
    model = None
    if logits is not None:
        model, faults = _model(logits, params, vocab_size, semantics, kind)
        found += faults
    if model is not None:
        found += _replay(model, row, params)
    if positive:
        not_one = _sum(row, kind, float(model.z.max()) if model else None)
        found += not_one
        found += _entry(row, kind)
        # Where the probabilities do not sum to one the ratio is known to be off: one finding says it.
        if model is not None and not not_one:
            found += _ratio(model, row, SEMANTICS[semantics], kind)
    return found


_UNREADABLE = ("ids-in-range", "ids-unique", "not-empty")


def _form(row: Row, vocab_size: int) -> list[_Found]:
    """What can be said without reading the values."""
    found: list[_Found] = []
    if row.mask is None:
        found.append(("row-present", f"no mask came with the sampled token {row.token}", (row.token,)))
    if row.logprobs is None and row.logprobs_expected:
        message = f"no log-probabilities came with the sampled token {row.token}"
        found.append(("row-present", message, (row.token,)))
    if not 0 <= row.token < vocab_size:
        message = f"the sampled id {row.token} is not in the vocabulary of {vocab_size}"
        found.append(("ids-in-range", message, (row.token,)))
    if row.mask is None:
        return found
    size = len(row.mask)
    if not size:
        found.append(("not-empty", f"the mask is empty, but token {row.token} was sampled", (row.token,)))
    outside = tuple(token for token in row.mask if not 0 <= token < vocab_size)
    if outside:
        found.append(
            ("ids-in-range", f"the mask holds {_ids(outside)}, the vocabulary has {vocab_size} ids", outside)
        )
    repeated = tuple(token for token, times in Counter(row.mask).items() if times > 1)
    if repeated:
        found.append(("ids-unique", f"the mask lists {_ids(repeated)} more than once", repeated))
    if row.count is not None and row.count != size:
        found.append(("count-is-population", f"the stated count is {row.count}, the mask has {size} ids", ()))
    if row.logprobs is not None and len(row.logprobs) != size:
        message = f"the mask has {size} ids, but {len(row.logprobs)} log-probabilities came with it"
        found.append(("count-is-population", message, ()))
    return found


def _membership(row: Row) -> list[_Found]:
    assert row.mask is not None
    if row.token in row.mask:
        return []
    message = f"the sampled token {row.token} is not among the {len(row.mask)} members of its mask"
    return [("token-in-support", message, (row.token,))]


def _positive(row: Row, kind: torch.dtype) -> list[_Found]:
    assert row.mask is not None
    assert row.logprobs is not None
    found: list[_Found] = []
    # One rounding of the log of the whole mass can lift a certain token above 0.
    limit = 4 * torch.finfo(kind).eps
    for token, value in zip(row.mask, row.logprobs, strict=True):
        if value is None or not math.isfinite(value) or value > limit:
            shown = "none" if value is None else f"{value:.6g}"
            message = f"id {token} is a member, but its log-probability is {shown}"
            found.append(("support-is-positive", message, (token,)))
    return found


def _sum(row: Row, kind: torch.dtype, top: float | None) -> list[_Found]:
    """The members' probabilities sum to 1, within the roundings of a log-softmax.

    Errors of the logits do not matter here: an engine's log-softmax of its own logits sums to 1. What is
    left: the sum of n terms, n u; the log of the sum; and, in each term, the differences and the stored value.
    """
    values = torch.tensor(row.logprobs, dtype=torch.float64)
    u = torch.finfo(kind).eps / 2
    largest = _USUAL_LOGIT if top is None else abs(top)
    each = values.exp() * (2 * values.abs() + (values - values.max()).abs() + 2 * largest + 6)
    bound = u * (float(each.sum()) + len(values) + float(values.max().abs()))
    total = float(values.exp().sum())
    if abs(total - 1) <= bound:
        return []
    return [
        (
            "logprobs-sum-to-one",
            f"the probabilities of the members sum to {total:.7g}, not 1 (within {bound:.1g})",
            (),
        )
    ]


def _entry(row: Row, kind: torch.dtype) -> list[_Found]:
    assert row.mask is not None
    assert row.logprobs is not None
    if row.token_logprob is None or row.token not in row.mask:
        return []
    entry = row.logprobs[list(row.mask).index(row.token)]
    assert entry is not None
    # The same number, stored twice.
    if abs(entry - row.token_logprob) <= 2 * torch.finfo(kind).eps * max(1.0, abs(entry)):
        return []
    message = (
        f"token {row.token} has log-probability {row.token_logprob:.6g}, its entry in the row is {entry:.6g}"
    )
    return [("token-logprob-is-entry", message, (row.token,))]


def _model(
    logits: Tensor, params: RowParams, vocab_size: int, semantics: Name, kind: torch.dtype
) -> tuple[Bounds | None, list[_Found]]:
    raw = logits[:vocab_size].double()
    one = Params.build([params], vocab_size=vocab_size, semantics=semantics)
    processed = process(raw[None], one)[0]
    fault = ""
    if bool(raw.isnan().any()) or bool((raw == torch.inf).any()):
        fault = FAULTS[1]
    elif not bool(processed.isfinite().any()):
        fault = FAULTS[2]
    elif abs(float(processed.max())) / (params.temperature or 1.0) > torch.finfo(kind).max:
        fault = "overflows: its largest logit over the temperature is infinite in the engine's precision"
    if fault:
        return None, [("logits-usable", f"the row of logits {fault}", ())]
    return bounds(raw, processed, params, SEMANTICS[semantics], kind), []


def _replay(model: Bounds, row: Row, params: RowParams) -> list[_Found]:
    """The recorded members against what the reference says of each token."""
    assert row.mask is not None
    keep = torch.zeros_like(model.z, dtype=torch.bool)
    keep[list(row.mask)] = True
    found: list[_Found] = []
    wrong = keep & ~model.may
    for name, invariant in (("top_k", "members-above-kth"), ("min_p", "min-p-ratio")):
        cut = model.cut_by.get(name)  # type: ignore[call-overload]
        if cut is not None and bool((here := wrong & cut).any()):
            found.append((invariant, _below(name, model, params, here), _list(here)))
            wrong = wrong & ~cut
    if bool(wrong.any()):
        cut = model.cut_by.get("top_p")
        if bool((wrong & ~model.z.isfinite()).any()):
            why = "forbidden to the sampler (allowed tokens, min_tokens, bad words or a logit of -inf)"
        elif cut is not None and bool((wrong & cut).any()):
            why = f"dropped by top_p {params.top_p:g}"
        else:
            why = "the probability is zero in the precision that the engine computed in"
        message = f"{_ids(_list(wrong))} must not be in the mask: {why}"
        found.append(("replay-same-support", message, _list(wrong)))
    missing = model.must & ~keep
    if bool(missing.any()):
        message = (
            f"{_ids(_list(missing))} must be in the mask and is not: the sampler could draw it; "
            f"members of the mask: {len(row.mask)}, tokens that must be kept: {int(model.must.sum())}"
        )
        found.append(("replay-same-support", message, _list(missing)))
    if not found:
        found += _ties(model, keep) or _order(model, keep)
    return found


def _below(name: str, model: Bounds, params: RowParams, wrong: Tensor) -> str:
    largest, at = torch.where(wrong, model.z, -torch.inf).max(0)
    if name == "top_k":
        k = params.top_k if params.temperature else 1
        kth = float(model.z.topk(k).values[-1])
        what = f"the {k}-th largest logit is {kth:.6g}, id {int(at)} has {float(largest):.6g}"
    else:
        ratio = math.exp(float(largest - model.z.max()))
        what = f"min_p is {params.min_p:g}, id {int(at)} has {ratio:.3g} times the largest probability"
    return f"{_ids(_list(wrong))} must not be in the mask: {what} (logits after penalties and temperature)"


def _ties(model: Bounds, keep: Tensor) -> list[_Found]:
    """The right number of every tie that a cut goes through."""
    count = torch.zeros(int(model.tie.max()) + 1, dtype=torch.int64).index_add_(0, model.tie, keep.long())[
        model.tie
    ]
    wrong = model.z.isfinite() & ((count < model.fewest) | (count > model.most))
    if not bool(wrong.any()):
        return []
    at = int(wrong.nonzero()[0])
    low, high, size = int(model.fewest[at]), int(model.most[at]), int(model.size[at])
    members = _list(model.tie == model.tie[at])
    due = f"{low}" if low == high else f"{low} to {high}"
    message = f"{due} of the {size} tied {_ids(members)} must be in the mask, it has {int(count[at])}"
    return [("replay-same-support", message, members)]


def _order(model: Bounds, keep: Tensor) -> list[_Found]:
    """No undecided token stays while a surely larger one goes."""
    gone = model.z.isfinite() & ~keep
    if not bool(gone.any()):
        return []
    largest, out = torch.where(gone, model.z - model.error, -torch.inf).max(0)
    smallest, member = torch.where(keep, model.z + model.error, torch.inf).min(0)
    if float(smallest) >= float(largest):
        return []
    ids = (int(out), int(member))
    return [
        (
            "replay-same-support",
            f"id {ids[0]} is not in the mask, but id {ids[1]} with a smaller logit is",
            ids,
        )
    ]


def _ratio(model: Bounds, row: Row, table: Semantics, kind: torch.dtype) -> list[_Found]:
    """The log-softmax of the reference over the recorded members equals the recorded one.

    Bound of an entry: the errors of its logit and of the largest one; the terms' errors and n u of the sum; one
    rounding of each number on the way, the largest being max + log sum where an engine adds these. An engine
    that works on probabilities rounds the tiny ones to a multiple of the smallest number of the dtype, twice.
    """
    assert row.mask is not None
    u = torch.finfo(kind).eps / 2
    ids = torch.tensor(list(row.mask), dtype=torch.int64)
    z, error = model.z[ids], model.error[ids]
    known = z.isfinite()
    if not bool(known.all()):
        return []
    expected = z - torch.logsumexp(z, 0)
    top, at = z.max(0)
    weight = expected.exp()
    sum_error = float((weight * (error + error[at] + u * (z - top).abs() + 4 * u)).sum()) + len(ids) * u
    bound = error + error[at] + sum_error + u * (2 * top.abs() + 2 * (z - top).abs() + 2 * expected.abs() + 2)
    if table.on_probabilities:
        share = torch.exp(z - torch.logsumexp(model.z, 0))
        bound = bound + torch.finfo(kind).tiny * torch.finfo(kind).eps / share
    off = torch.tensor(row.logprobs, dtype=torch.float64) - expected
    wrong = off.abs() > bound
    if not bool(wrong.any()):
        return []
    worst = int(torch.where(wrong, off.abs(), 0.0).argmax())
    recorded = row.logprobs[worst] if row.logprobs else 0.0
    message = (
        f"id {int(ids[worst])} has log-probability {recorded:.6g}, over the mask it is {float(expected[worst]):.6g} "
        f"(within {float(bound[worst]):.1g}): ratio {math.exp(min(50.0, -float(off[worst]))):.4g}"
    )
    return [("ratio-is-one", message, tuple(ids[wrong].tolist()))]


def _list(which: Tensor) -> tuple[int, ...]:
    return tuple(which.nonzero()[:, 0].tolist())


def _ids(ids: Sequence[int]) -> str:
    """``id 5``, or ``ids 5, 6, 7 and 20 more``."""
    shown = ", ".join(map(str, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return f"id {shown}" if len(ids) == 1 else f"ids {shown}"
