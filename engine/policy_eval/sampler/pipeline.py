"""Logits -> processed logits -> support and log-probabilities, for a batch of rows with parameters of their own.

    from policy_eval.sampler.params import Params, RowParams
    from policy_eval.sampler.pipeline import run
    params = Params.build([RowParams(top_k=50, top_p=0.95)] * 16, vocab_size=151_936, semantics="vllm")
    found = run(logits, params)
    found.cut.ids, found.cut.ids_logprobs      # members and log-probabilities, [16, 51]
    found.keep(), found.logprobs()             # the same as [16, V]

Rows limited by top_k never see a full sort: one read finds the candidates, and every filter is a count of how
many of them stay. Calculations on candidates are float64 whatever the logits are. On a GPU nothing waits for
the device; errors of the data are collected as ``Support.fault`` and raised by one check at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy
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

# Rows up to this length are searched directly.
SMALL = 1 << 13

# How many of the largest logits of a row with a top_p only are looked at first on a CPU.
NUCLEUS = 1024


# Rows of a batch: all of a stretch, or some by their indexes, int64 [b].
Rows = slice | Tensor


class Cut(NamedTuple):
    """Where each of B rows was cut, and its members where they are few. One tensor a field, B long.

    A support is a prefix of the falling order of the processed logits, lowest ids first among equals: the tokens
    above ``cut`` and, of those equal to it, the ``ties`` with the lowest ids. ``cut``, ``largest`` (the largest
    logit): dtype of the logits. ``ties``, ``size`` (members): int64. ``log_mass``: float64, the log of the
    members' mass relative to the largest: a member has log-probability
    ``x / temperature - largest / temperature - log_mass``.
    ``ids``: int64 [B, W], the members of a row with a top_k in falling order of logit, then -1; ``ids_logprobs``:
    [B, W] in the dtype of the logits, their log-probabilities, then -inf. W is the largest top_k + 1, or 0.
    Rows without top_k list nothing, a row with more than W members (a tie) lists W of them.
    Of a row with a fault (``Support.fault``) only ``largest`` means something.
    """

    cut: Tensor
    ties: Tensor
    size: Tensor
    largest: Tensor
    log_mass: Tensor
    ids: Tensor
    ids_logprobs: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the filters left of each of B rows: the cut of each, from which the dense forms are made when asked for.

    ``processed``: [B, V], not copied: the dense forms read it. ``temperature``: float64 [B]. ``cut``: see ``Cut``.
    """

    processed: Tensor
    temperature: Tensor
    cut: Cut

    @property
    def fault(self) -> Tensor:
        """int64 [B]: 0 or a key of FAULTS. torch orders NaN above everything, so the largest logit tells."""
        largest = self.cut.largest
        return torch.where(largest < torch.inf, torch.where(largest > -torch.inf, 0, 2), 1)

    @property
    def listed(self) -> Tensor:
        """bool [B]: rows of which ``cut.ids`` holds every member."""
        return (self.cut.ids >= 0).sum(1) == self.cut.size

    def keep(self) -> Tensor:
        """The members as bool [B, V]. Never waits for a GPU."""
        out = torch.zeros(self.processed.shape, dtype=torch.bool, device=self.processed.device)
        return self._fill(out, torch.ones_like(self.cut.ids, dtype=torch.bool), self._keep)

    def logprobs(self) -> Tensor:
        """Log-softmax over the support, -inf outside: [B, V] in the dtype of ``processed``. Never waits for a GPU."""
        out = torch.full_like(self.processed, -torch.inf, memory_format=torch.contiguous_format)
        return self._fill(out, self.cut.ids_logprobs, self._logprobs)

    def _fill(self, out: Tensor, listed: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Rows from their lists where these are whole, the others from a look at all of their logits.

        out: [B, V] as outside the support; listed: [B, W] values of ``cut.ids``; work: indexes of rows to rows.
        """
        rest = torch.arange(len(out), device=out.device)
        # To choose rows is free on a CPU; on a GPU it would wait for the device, so there every row is looked at.
        if out.device.type == "cpu" and self.cut.ids.shape[1]:
            few, rest = self.listed.nonzero()[:, 0], (~self.listed).nonzero()[:, 0]
            ids = self.cut.ids[few]
            # Places beyond the list repeat the first member.
            at = torch.where(ids < 0, 0, torch.arange(ids.shape[1]))
            out[few[:, None], ids.gather(1, at)] = listed[few].gather(1, at)
        step = max(1, CHUNK_DENSE[out.device.type] // max(1, out.shape[1]))
        for start in range(0, len(rest), step):
            part = rest[start : start + step]
            out[part] = work(part)
        return out

    def _keep(self, rows: Tensor) -> Tensor:
        x, cut, ties = self.processed[rows], self.cut.cut[rows, None], self.cut.ties[rows, None]
        tie = x == cut
        if x.device.type == "cpu" and bool((tie.sum(1, keepdim=True) <= ties).all()):
            return x >= cut
        return (x > cut) | (tie & (tie.cumsum(1, dtype=torch.int32) <= ties))

    def _logprobs(self, rows: Tensor) -> Tensor:
        temperature = self.temperature[rows, None]
        z = self.processed[rows] / temperature
        z.sub_(self.cut.largest[rows, None] / temperature).sub_(self.cut.log_mass[rows, None])
        return z.masked_fill_(~self._keep(rows), -torch.inf).to(self.processed.dtype)


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
    dense = CHUNK_DENSE[processed.device.type]
    groups = (
        (params.bounded, _bounded, CHUNK),
        (params.nuclei, _nucleus, dense),
        (params.open_, _open, dense),
    )
    parts = []
    for group, work, size in groups:
        step = max(1, size // vocab)
        whole = len(group) == rows
        for start in range(0, len(group), step):
            # Consecutive rows are a view, other selections a copy of the chunk.
            part = slice(start, start + step) if whole else group[start : start + step]
            parts.append(work(processed[part], params, part))
    parts = parts or [_open(processed, params, slice(0))]
    cut = parts[0] if len(parts) == 1 else Cut(*(torch.cat(column) for column in zip(*parts, strict=True)))
    if params.order is not None:
        cut = Cut(*(column[params.order] for column in cut))
    return Support(processed=processed, temperature=params.temperature, cut=cut)


def _bounded(x: Tensor, params: Params, rows: Rows) -> Cut:
    """Rows with a top_k: candidates by topk, one more than needed to see a tie beyond the cut."""
    table, k, temperature = params.semantics, params.top_k[rows], params.temperature[rows, None]
    value, ids = _largest(x, params.width)
    extra = None
    # A look at the values is free on a CPU; on a GPU it would wait for the device, so there every row is treated
    # as one with ties.
    look = x.device.type == "cpu"
    if not look or bool((value[:, 1:] == value[:, :-1]).any()):
        ids = _lowest_ids_first(value, ids, x.shape[1])
        kth = value.gather(1, k[:, None] - 1)
        reach = (value >= kth).sum(1)
        # Where the candidates end in the tie, the rest of it can be anywhere in the row.
        spilled = (reach == params.width) & (params.width < x.shape[1]) & (kth[:, 0] > -torch.inf)
        dense = spilled.nonzero()[:, 0] if look else torch.arange(len(x), device=x.device)
        if len(dense):
            found = _whole_tie(x[dense], kth[dense], value[dense], ids[dense])
            reach, ids = reach.index_put((dense,), found[0]), ids.index_put((dense,), found[1])
        if table.top_k_ties and (not look or bool((reach > k).any())):
            extra = torch.where(params.greedy[rows], 0, reach - k)
    z = value / temperature
    total = None
    if "top_p" in params.filters and (table.joint or table.joint_without_min_p):
        total = _mass(x, temperature, z[:, :1])
        if not table.joint:
            total = torch.where(params.min_p[rows] == 0, total, torch.nan)
    return _cut(value, z, ids, k, extra, total, params, rows)


def _nucleus(x: Tensor, params: Params, rows: Rows) -> Cut:
    """Rows with a top_p but no top_k: the largest few where these are sure to hold the nucleus, else a sort."""
    vocab = x.shape[1]
    temperature = params.temperature[rows, None]
    top = x.amax(1, keepdim=True) / temperature
    least = None
    if params.filters[:1] == ("min_p",):
        least = top + params.min_p[rows, None].log()
    total = _mass(x, temperature, top, least)
    whole = params.top_k[rows]
    wide = min(NUCLEUS, vocab) if x.device.type == "cpu" else vocab
    while wide < vocab:
        value, _ = _largest(x, wide)
        cut = _cut(value, value / temperature, None, whole, None, total, params, rows)
        if bool((value[:, -1] < cut.cut).all()):
            return cut
        wide = wide * 8 if wide * 16 <= vocab else vocab
    value, _ = torch.sort(x, dim=-1, descending=True)
    return _cut(value, value / temperature, None, whole, None, total, params, rows)


def _open(x: Tensor, params: Params, rows: Rows) -> Cut:
    """Rows with neither: a threshold at most, so one dense pass."""
    temperature = params.temperature[rows, None]
    largest = x.amax(1)
    top = largest[:, None] / temperature
    z = x / temperature
    keep = (z >= top + params.min_p[rows, None].log()) & (z > -torch.inf)
    mass = z.sub_(top).exp_().masked_fill_(~keep, 0.0).sum(1)
    return Cut(
        torch.where(keep, x, torch.inf).amin(1),
        torch.full((len(x),), x.shape[1], device=x.device),
        keep.sum(1),
        largest,
        mass.log(),
        *_nothing(x, params),
    )


def _nothing(x: Tensor, params: Params) -> tuple[Tensor, Tensor]:
    """The lists of rows that list nothing."""
    shape = (len(x), params.width)
    return torch.full(shape, -1, device=x.device), torch.full(
        shape, -torch.inf, dtype=x.dtype, device=x.device
    )


def _cut(
    value: Tensor,
    z: Tensor,
    ids: Tensor | None,
    k: Tensor,
    extra: Tensor | None,
    total: Tensor | None,
    params: Params,
    rows: Rows,
) -> Cut:
    """The cut through rows of candidates in falling order.

    value, z, ids: [b, K] logits, scaled logits and ids to list, None: no list; k, extra, total: see ``_count``;
    rows: [b] in the batch.
    """
    size, at, log_mass = _count(z, k, extra, total, params, rows)
    cut = value.gather(1, at)
    logprobs = None
    if ids is None:
        ids, logprobs = _nothing(value, params)
    else:
        beyond = torch.arange(z.shape[1], device=z.device) >= size[:, None]
        ids = ids.masked_fill(beyond, -1)
        logprobs = (z - z[:, :1]).sub_(log_mass[:, None]).masked_fill_(beyond, -torch.inf).to(value.dtype)
    return Cut(cut[:, 0], size - (value > cut).sum(1), size, value[:, 0], log_mass, ids, logprobs)


def _largest(x: Tensor, wide: int, order: bool = True) -> tuple[Tensor, Tensor]:
    """The ``wide`` largest of each row of x [b, V] and their ids, both [b, wide], falling if ``order``.

    The vocabulary is laid out as ``depth`` rows of columns. All of the largest lie in the ``wide`` columns with
    the largest maxima, so after one read for the maxima only those columns are looked at. The columns are found
    among the maxima in the same way.
    """
    rows, vocab = x.shape
    # The cost is a choice among vocab / depth columns and then among wide * depth candidates.
    depth = 1 << int(math.log2(math.sqrt(vocab / wide)))
    if depth < 4 or vocab < SMALL or x.stride(1) != 1:
        return _choose(x, wide, order)
    columns = vocab // depth
    even = depth * columns
    grid = x[:, :even].view(rows, depth, columns)
    _, chosen = _largest(grid.amax(1), wide, order=False)
    near = grid.gather(2, chosen[:, None, :].expand(rows, depth, wide)).view(rows, -1)
    if even < vocab:
        near = torch.cat([near, x[:, even:]], dim=1)
    value, at = _choose(near, wide, order)
    row = at // wide
    ids = chosen.gather(1, at - row * wide) + row * columns
    if even < vocab:
        ids = torch.where(at < depth * wide, ids, at + (even - depth * wide))
    return value, ids


def _choose(x: Tensor, wide: int, order: bool) -> tuple[Tensor, Tensor]:
    """``_largest`` by looking at everything."""
    if x.device.type != "cpu":
        return torch.topk(x, wide, dim=-1, sorted=order)
    # On a CPU numpy's choice takes a fraction of the time of torch's. Both put NaN above everything.
    at = torch.from_numpy(numpy.argpartition(x.numpy(force=True), -wide, axis=1)[:, -wide:])
    value = x.gather(1, at)
    if order:
        falling = torch.from_numpy(value.numpy(force=True).argsort(1)).flip(1)
        value, at = value.gather(1, falling), at.gather(1, falling)
    return value, at


def _lowest_ids_first(value: Tensor, ids: Tensor, vocab: int) -> Tensor:
    """The ids of falling values, both [b, K], put in rising order where values tie."""
    group = torch.zeros_like(ids)
    group[:, 1:] = (value[:, 1:] != value[:, :-1]).cumsum(1)
    group *= vocab
    return (group + ids).sort(dim=-1).values - group


def _whole_tie(x: Tensor, kth: Tensor, value: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """How many tokens of rows x [b, V] reach the k-th logit, kth [b, 1], wherever they are: int64 [b].

    And ids [b, K], the candidates', with the lowest ids of the tie in the places of its members.
    """
    seen = (x == kth).cumsum(1, dtype=torch.int32)
    above = (value > kth).sum(1, keepdim=True)
    rank = (torch.arange(1, value.shape[1] + 1, device=x.device) - above).clamp_(min=1)
    tied = torch.searchsorted(seen, rank.int()).clamp_(max=x.shape[1] - 1)
    return above[:, 0] + seen[:, -1], torch.where(value == kth, tied, ids)


def _mass(x: Tensor, temperature: Tensor, top: Tensor, least: Tensor | None = None) -> Tensor:
    """The mass of whole rows x [b, V] relative to their largest scaled logit, top [b, 1]: float64 [b].

    least: [b, 1], scaled logits below it do not count.
    """
    step = max(1, CHUNK_DENSE[x.device.type] // x.shape[1])
    sums = []
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        z = x[part] / temperature[part]
        below = None if least is None else z < least[part]
        z.sub_(top[part]).exp_()
        sums.append((z if below is None else z.masked_fill_(below, 0.0)).sum(1))
    return torch.cat(sums)


def _count(
    z: Tensor, k: Tensor, extra: Tensor | None, total: Tensor | None, params: Params, rows: Rows
) -> tuple[Tensor, Tensor, Tensor]:
    """How many tokens stay, [b] int64, the place of the last one among the candidates, [b, 1] int64, and the log
    of their mass relative to the first, [b] float64.

    z: [b, K] scaled logits in falling order; k: [b]; extra: [b] tokens beyond position k that tie with the k-th,
    anywhere in the row, None: none; total: [b] the mass that top_p refers to, relative to the first token, NaN
    or None: of what the filters before it left. Every filter keeps a prefix of the falling order, so each one is
    a count; tokens beyond position k are ``extra`` copies of the k-th.
    """
    table = params.semantics
    top = z[:, :1]
    inside = (torch.arange(z.shape[1], device=z.device) < k[:, None]) & (z > -torch.inf)
    mass = torch.exp(z - top) * inside
    through = mass.cumsum(1)
    count = held = inside.sum(1)
    left_mass = through[:, -1]
    if extra is not None:
        extra = torch.where(held == k, extra, 0)
        last, each = z.gather(1, _place(held)), mass.gather(1, _place(held))[:, 0]
        count, left_mass = held + extra, left_mass + extra * each

    def mass_of(count: Tensor) -> tuple[Tensor, Tensor]:
        at = _place(count if extra is None else torch.minimum(count, held))
        prefix = through.gather(1, at)[:, 0]
        return at, prefix if extra is None else prefix + (count - held).clamp(min=0) * each

    for name in params.filters:
        if name == "min_p":
            threshold = top + params.min_p[rows, None].log()
            left = ((z >= threshold) & inside).sum(1)
            if extra is not None:
                left = left + torch.where(last >= threshold, extra[:, None], 0)[:, 0]
            count = torch.minimum(count, left)
            left_mass = mass_of(count)[1]
        elif name == "top_p":
            need = left_mass if total is None else torch.where(total.isnan(), left_mass, total)
            need = params.top_p[rows] * need
            before = through - mass
            reached = before <= need[:, None] if table.top_p_equal else before < need[:, None]
            left = (reached & inside).sum(1)
            if extra is not None:
                tail = (need - through[:, -1]) / each
                tail = torch.floor(tail) + 1 if table.top_p_equal else torch.ceil(tail)
                tail = torch.minimum(tail.nan_to_num(0, posinf=torch.inf).clamp(min=0), extra.double())
                left = left + tail.long()
            if table.top_p_ties:
                lowest = z.gather(1, _place(torch.minimum(left, held)))
                grown = ((z >= lowest) & inside).sum(1)
                if extra is not None:
                    grown = grown + torch.where(lowest == last, extra[:, None], 0)[:, 0]
                left = torch.maximum(left, grown)
            count = torch.minimum(count, left)
    count = count.clamp(min=1)
    at, left_mass = mass_of(count)
    return count, at, left_mass.log()


def _place(count: Tensor) -> Tensor:
    """The place of the last of ``count`` [b] candidates, the first of none: [b, 1]."""
    return count.clamp(min=1)[:, None] - 1
