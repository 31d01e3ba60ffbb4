"""Logits -> processed logits -> support and log-probabilities, for a batch of rows with parameters of their own.

    from policy_eval.sampler.params import Params, RowParams
    from policy_eval.sampler.pipeline import run
    params = Params.build([RowParams(top_k=50, top_p=0.95)] * 16, vocab_size=151_936, semantics="vllm")
    support = run(logits, params)      # support.keep [16, V] bool, support.logprobs [16, V]

Rows limited by top_k never see a full sort: one read finds the candidates, and every filter is a count of how
many of them stay. Calculations on candidates are float64 whatever the logits are. On a GPU nothing waits for
the device; errors of the data are collected as ``Support.fault`` and raised by one check at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from policy_eval.sampler.params import Params

FAULTS = {
    1: "holds NaN or +inf",
    2: "has no token left: every logit is -inf after the edits",
}

# Rows of at most this many logits together are worked on at a time; bounds the temporaries. Rows with a top_k
# need little beside the logits, the others several float64 numbers a logit. A GPU needs larger pieces to be busy.
CHUNK = 1 << 25
CHUNK_DENSE = {"cpu": 1 << 18, "cuda": 1 << 24}


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the filters left of each of B rows.

    ``keep``: bool [B, V]. ``logprobs``: [B, V] in the dtype of the logits (float32 for half precisions), log-softmax
    over the support, -inf outside. ``count``: int64 [B], members of each row. ``fault``: int64 [B], 0 or a key of
    FAULTS; other fields of a row with a fault mean nothing.
    """

    keep: Tensor
    logprobs: Tensor
    count: Tensor
    fault: Tensor


def run(logits: Tensor, params: Params) -> Support:
    """``process`` and ``support``, then raise for rows that cannot be sampled.

    logits: [B, V'] float32, float64, bfloat16 or float16; V' >= params.vocab_size (the rest is padding). Raises
    ValueError naming each row that holds NaN or +inf or has no token left. This waits for the device once.
    """
    found = support(process(logits, params), params)
    raise_faults(found)
    return found


def raise_faults(found: Support) -> None:
    """Raise ValueError naming the rows with a fault, if any. Waits for the device."""
    faults = found.fault.tolist()
    bad = [f"row {row} {FAULTS[fault]}" for row, fault in enumerate(faults) if fault]
    if bad:
        raise ValueError("; ".join(bad[:10]) + (f" (and {len(bad) - 10} more)" if len(bad) > 10 else ""))


def process(logits: Tensor, params: Params) -> Tensor:
    """Logits after padding removal, allowed and blocked tokens, bias and penalties, before the temperature.

    logits: [B, V']; returns [B, V] in the same dtype (float32 for half precisions); the same memory where no
    row has an edit. The input is never changed. Order of the edits: ``Semantics.edits``.
    """
    rows, vocab = params.rows, params.vocab_size
    assert logits.ndim == 2, f"logits must be [rows, vocabulary], found {tuple(logits.shape)}"
    assert logits.shape[0] == rows, f"{logits.shape[0]} rows of logits, {rows} of parameters"
    assert logits.shape[1] >= vocab, f"{logits.shape[1]} logits a row, the vocabulary has {vocab}"
    assert logits.is_floating_point(), f"logits must be floating point, found {logits.dtype}"
    x = logits[:, :vocab]
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.float()
    edits = (params.bias, params.repetition, params.additive, params.blocked, params.allowed_rows)
    if all(edit is None for edit in edits):
        return x
    x = x.contiguous().clone() if x.data_ptr() == logits.data_ptr() else x.contiguous()
    flat = x.view(-1)
    if params.allowed_rows is not None and params.allowed is not None:
        kept = flat[params.allowed]
        x[params.allowed_rows] = -torch.inf
        flat[params.allowed] = kept
    if params.blocked is not None:
        flat[params.blocked] = -torch.inf
    for edit in params.semantics.edits:
        pairs = getattr(params, edit)
        if pairs is None:
            continue
        at, value = pairs
        old = flat[at].double()
        if edit == "bias":
            new = old + value
        elif edit == "additive":
            new = old - value
        else:
            new = torch.where(old > 0, old / value, old * value)
        flat[at] = new.to(x.dtype)
    return x


def support(processed: Tensor, params: Params) -> Support:
    """The support of each row of processed logits [B, V] (float32 or float64), see ``Support``.

    Among tokens that tie at a cut which does not keep all of them, the lowest ids stay (an engine may choose
    others: ``judge`` allows any). Never waits for a GPU; faults are reported in ``Support.fault``.
    """
    rows, vocab = processed.shape
    assert (rows, vocab) == (params.rows, params.vocab_size)
    device = processed.device
    out = Support(
        keep=torch.zeros(rows, vocab, dtype=torch.bool, device=device),
        logprobs=torch.full((rows, vocab), -torch.inf, dtype=processed.dtype, device=device),
        count=torch.zeros(rows, dtype=torch.int64, device=device),
        fault=torch.zeros(rows, dtype=torch.int64, device=device),
    )
    dense = CHUNK_DENSE[device.type]
    groups = (
        (params.bounded, _bounded, CHUNK),
        (params.sorted_, _sorted, dense),
        (params.open_, _open, dense),
    )
    for group, work, size in groups:
        step = max(1, size // vocab)
        whole = len(group) == rows
        for start in range(0, len(group), step):
            part = group[start : start + step]
            # Consecutive rows are a view, other selections a copy of the chunk.
            work(processed[start : start + step] if whole else processed[part], params, part, out)
    return out


def _bounded(x: Tensor, params: Params, rows: Tensor, out: Support) -> None:
    """Rows with a top_k: candidates by topk, one more than needed to see a tie beyond the cut."""
    k = params.top_k[rows]
    wide = min(params.max_top_k + 1, x.shape[1])
    value, ids = _lowest_ids_first(*_largest(x, wide))
    kth = value.gather(1, k[:, None] - 1)
    inside = torch.arange(wide, device=x.device) < k[:, None]
    extra = ((value == kth) & ~inside & kth.isfinite()).sum(1)
    # Where the candidates end in the tie, the rest of it can be anywhere in the row. A look at the values is
    # free on a CPU; on a GPU it would wait for the device, so there every row takes the dense way.
    spilled = (value[:, -1:] == kth).squeeze(1) & (wide < x.shape[1]) & kth.isfinite().squeeze(1)
    dense = spilled.nonzero()[:, 0] if x.device.type == "cpu" else torch.arange(len(x), device=x.device)
    if len(dense):
        ties = (x[dense] == kth[dense]).sum(1) - ((value == kth) & inside)[dense].sum(1)
        extra = extra.index_put((dense,), torch.where(kth[dense, 0].isfinite(), ties, 0))
    _finish(x, value, ids, extra, dense, params, rows, out)


def _sorted(x: Tensor, params: Params, rows: Tensor, out: Support) -> None:
    """Rows with a top_p but no top_k: only these are sorted."""
    value, ids = torch.sort(x, dim=-1, descending=True, stable=True)
    _finish(x, value, ids, torch.zeros_like(rows), rows[:0], params, rows, out)


def _open(x: Tensor, params: Params, rows: Tensor, out: Support) -> None:
    """Rows with neither: a threshold at most, so one dense pass."""
    top = x.amax(-1)
    temperature = params.temperature[rows]
    z = x.double() / temperature[:, None]
    z0 = top.double() / temperature
    keep = z.isfinite() & (z >= (z0 + params.min_p[rows].log())[:, None])
    z = (z - z0[:, None]).masked_fill(~keep, -torch.inf)
    out.keep[rows] = keep
    out.logprobs[rows] = (z - z.exp().sum(1, keepdim=True).log()).to(x.dtype)
    out.count[rows] = keep.sum(1)
    out.fault[rows] = _fault(top)


def _fault(top: Tensor) -> Tensor:
    """The key of FAULTS of each row [b], from its largest logit: torch orders NaN above everything."""
    broken = top.isnan() | (top == torch.inf)
    return torch.where(broken, 1, torch.where(top == -torch.inf, 2, 0))


def _largest(x: Tensor, wide: int) -> tuple[Tensor, Tensor]:
    """The ``wide`` largest of each row of x [b, V] and their ids, both [b, wide], as torch.topk finds them.

    The vocabulary is laid out as ``depth`` rows of columns. All of the largest lie in the ``wide`` columns with
    the largest maxima, so after one read for the maxima only those columns are looked at.
    """
    rows, vocab = x.shape
    # The cost is a choice among vocab / depth columns and then among wide * depth candidates.
    depth = 1 << int(math.log2(math.sqrt(vocab / wide)))
    if depth < 4 or x.stride(1) != 1:
        return torch.topk(x, wide, dim=-1)
    columns = vocab // depth
    grid = x[:, : depth * columns].view(rows, depth, columns)
    chosen = (
        torch.topk(grid.amax(1), wide, dim=-1, sorted=False).indices[:, None, :].expand(rows, depth, wide)
    )
    ids = chosen + torch.arange(depth, device=x.device)[:, None] * columns
    rest = torch.arange(depth * columns, vocab, device=x.device).expand(rows, -1)
    ids = torch.cat([ids.reshape(rows, -1), rest], dim=1)
    value, at = torch.topk(x.gather(1, ids), wide, dim=-1)
    return value, ids.gather(1, at)


def _lowest_ids_first(value: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Candidates [b, K] with falling values, and rising ids where values tie."""
    ids, order = ids.sort(dim=-1)
    value, order = value.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return value, ids.gather(1, order)


def _finish(
    x: Tensor,
    value: Tensor,
    ids: Tensor,
    extra: Tensor,
    dense: Tensor,
    params: Params,
    rows: Tensor,
    out: Support,
) -> None:
    """Count what each filter leaves and write the rows.

    x: [b, V]; value, ids: [b, K] candidates; extra: [b] tokens beyond position k that tie with the k-th,
    anywhere in the row; dense: the rows of x whose ties may lie outside the candidates; rows: [b] in the batch.
    """
    vocab = x.shape[1]
    temperature = params.temperature[rows, None]
    z = value.double() / temperature
    full = None
    if params.semantics.joint or params.semantics.joint_without_min_p:
        full = _full_mass(x, temperature, z[:, :1])
    if not params.semantics.top_k_ties:
        extra = torch.zeros_like(extra)
    extra = torch.where(params.greedy[rows], 0, extra)
    k = params.top_k[rows]
    count, log_mass = _count(z, k, extra, full, params, rows)
    kept = torch.arange(z.shape[1], device=x.device) < count[:, None]
    logprob = (z - z[:, :1] - log_mass[:, None]).masked_fill(~kept, -torch.inf).to(x.dtype)
    flat = (rows[:, None] * vocab + ids).view(-1)
    out.keep.view(-1)[flat] = kept.view(-1)
    out.logprobs.view(-1)[flat] = logprob.view(-1)
    out.count[rows] = count
    out.fault[rows] = _fault(value[:, 0])
    if len(dense):
        x, value, temperature, count = x[dense], value[dense], temperature[dense], count[dense]
        cut = value.gather(1, torch.minimum(count, k[dense]).clamp(min=1)[:, None] - 1)
        tie = x == cut
        needed = count[:, None] - (x > cut).sum(1, keepdim=True)
        keep = (x > cut) | (tie & (tie.cumsum(1) <= needed))
        logprob = x.double() / temperature - z[dense, :1] - log_mass[dense, None]
        out.keep[rows[dense]] = keep
        out.logprobs[rows[dense]] = logprob.masked_fill(~keep, -torch.inf).to(x.dtype)


def _full_mass(x: Tensor, temperature: Tensor, top: Tensor) -> Tensor:
    """The mass of whole rows x [b, V] relative to their largest scaled logit: float64 [b]."""
    step = max(1, CHUNK_DENSE[x.device.type] // x.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(x), step)]
    return torch.cat([(x[part].double() / temperature[part]).sub_(top[part]).exp_().sum(1) for part in parts])


def _count(
    z: Tensor, k: Tensor, extra: Tensor, full: Tensor | None, params: Params, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """How many tokens stay, [b] int64, and the log of their mass relative to the first, [b] float64.

    z: [b, K] scaled logits in falling order; k, extra: [b], see ``_finish``; full: [b] the mass of the whole
    row relative to the first token. Every filter keeps a prefix of the falling order, so each one is a count; tokens
    beyond position k are ``extra`` copies of the k-th.
    """
    table = params.semantics
    top_p, min_p = params.top_p[rows], params.min_p[rows]
    position = torch.arange(z.shape[1], device=z.device)
    inside = (position < k[:, None]) & z.isfinite()
    held = inside.sum(1)
    last = z.gather(1, (held.clamp(min=1) - 1)[:, None])
    extra = torch.where(held == k, extra, 0)
    mass = torch.where(inside, torch.exp(z - z[:, :1]), 0.0)
    through = mass.cumsum(1)
    before = through - mass
    held_mass = through[:, -1]
    each = torch.exp(last - z[:, :1]).squeeze(1)

    def mass_of(count: Tensor) -> Tensor:
        prefix = through.gather(1, torch.minimum(count, held).clamp(min=1)[:, None] - 1).squeeze(1)
        return prefix + (count - held).clamp(min=0) * each

    count = held + extra
    for name in table.filters:
        if name == "min_p":
            threshold = z[:, :1] + min_p.log()[:, None]
            left = ((z >= threshold) & inside).sum(1)
            count = torch.minimum(count, left + torch.where(last >= threshold, extra[:, None], 0).squeeze(1))
        elif name == "top_p":
            total = mass_of(count)
            if full is not None:
                total = torch.where(min_p == 0, full, total) if table.joint_without_min_p else full
            need = top_p * total
            if table.top_p_equal:
                left = ((before <= need[:, None]) & inside).sum(1)
                tail = torch.floor((need - held_mass) / each) + 1
            else:
                left = ((before < need[:, None]) & inside).sum(1)
                tail = torch.ceil((need - held_mass) / each)
            tail = torch.minimum(tail.nan_to_num(0).clamp(min=0), extra.double()).long()
            left = (left + tail).clamp(min=1)
            if table.top_p_ties:
                end = z.gather(1, torch.minimum(left, held).clamp(min=1)[:, None] - 1)
                grown = ((z == end) & inside).sum(1) + ((z > end) & inside).sum(1)
                left = torch.maximum(left, grown + torch.where(end == last, extra[:, None], 0).squeeze(1))
            count = torch.minimum(count, torch.where(top_p < 1, left, count))
    count = torch.where(z[:, 0].isfinite(), count.clamp(min=1), 0)
    return count, mass_of(count).log()
