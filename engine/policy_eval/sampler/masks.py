"""The forms in which masks travel, and conversions both ways.

Dense bool rows [B, V] are the form the others are explained by. Bit masks pack 32 ids in an int32 word, the
lowest id in the lowest bit. Ragged (CSR) and padded rows list ids, which can say more than a set and so be
wrong: conversions from them raise ValueError for an id outside the vocabulary or listed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

PAD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Rows of different length: row b is ``ids[offsets[b]:offsets[b + 1]]``.

    ids: int64 [N]; offsets: int64 [B + 1], rising from 0 to N.
    """

    ids: Tensor
    offsets: Tensor

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or self.offsets.ndim != 1 or not len(self.offsets):
            raise ValueError("ids and offsets must be one-dimensional, with one offset more than rows")
        steps = self.offsets.diff()
        if int(self.offsets[0]) != 0 or int(self.offsets[-1]) != len(self.ids) or bool((steps < 0).any()):
            raise ValueError(f"offsets must rise from 0 to the number of ids, {len(self.ids)}")

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> Ragged:
        """Ragged rows from lists of ids."""
        offsets = torch.zeros(len(rows) + 1, dtype=torch.int64)
        offsets[1:] = torch.tensor([len(row) for row in rows], dtype=torch.int64).cumsum(0)
        return Ragged(
            ids=torch.tensor([token for row in rows for token in row], dtype=torch.int64), offsets=offsets
        )

    def rows(self) -> list[list[int]]:
        """The ids of each row, in their order."""
        ids, offsets = self.ids.tolist(), self.offsets.tolist()
        return [ids[start:end] for start, end in pairwise(offsets)]


def ragged_from_dense(keep: Tensor) -> Ragged:
    """Ids in rising order from bool rows [B, V]."""
    offsets = torch.zeros(keep.shape[0] + 1, dtype=torch.int64, device=keep.device)
    offsets[1:] = keep.sum(1).cumsum(0)
    return Ragged(ids=keep.nonzero()[:, 1], offsets=offsets)


def dense_from_ragged(mask: Ragged, vocab_size: int) -> Tensor:
    """Bool rows [B, vocab_size]; ValueError for an id outside the vocabulary or twice in a row."""
    row = _row_of_each(mask)
    _check_ids(mask.ids, row, vocab_size)
    keep = torch.zeros(len(mask.offsets) - 1, vocab_size, dtype=torch.bool, device=mask.ids.device)
    keep[row, mask.ids] = True
    if int(keep.sum()) != len(mask.ids):
        repeated = (keep.sum(1) != mask.offsets.diff()).nonzero()[0].item()
        raise ValueError(f"row {repeated} lists an id twice")
    return keep


def padded_from_ragged(mask: Ragged) -> Tensor:
    """Ids [B, widest row], filled up with -1 at the end of each row."""
    lengths = mask.offsets.diff()
    out = torch.full((len(lengths), _widest(lengths)), PAD, dtype=torch.int64, device=mask.ids.device)
    row = _row_of_each(mask)
    out[row, torch.arange(len(mask.ids), device=mask.ids.device) - mask.offsets[row]] = mask.ids
    return out


def ragged_from_padded(padded: Tensor) -> Ragged:
    """Ragged rows from ids [B, W] padded with -1; ValueError where an id follows the padding of its row."""
    real = padded != PAD
    if padded.shape[1] and bool((real[:, 1:] & ~real[:, :-1]).any()):
        row = (real[:, 1:] & ~real[:, :-1]).any(1).nonzero()[0].item()
        raise ValueError(f"row {row} has an id after its padding")
    offsets = torch.zeros(padded.shape[0] + 1, dtype=torch.int64, device=padded.device)
    offsets[1:] = real.sum(1).cumsum(0)
    return Ragged(ids=padded[real].to(torch.int64), offsets=offsets)


def bits_from_dense(keep: Tensor) -> Tensor:
    """Bit masks int32 [B, ceil(V / 32)] from bool rows [B, V]; bits at and above V are 0."""
    rows, vocab = keep.shape
    words = -(-vocab // 32)
    padded = torch.zeros(rows, words * 32, dtype=torch.int64, device=keep.device)
    padded[:, :vocab] = keep
    weights = torch.ones(32, dtype=torch.int64, device=keep.device) << torch.arange(32, device=keep.device)
    value = (padded.view(rows, words, 32) * weights).sum(2)
    # As two's complement: bit 31 is the sign of an int32.
    return torch.where(value >= 1 << 31, value - (1 << 32), value).to(torch.int32)


def dense_from_bits(bits: Tensor, vocab_size: int) -> Tensor:
    """Bool rows [B, vocab_size] from bit masks; ValueError for a bit set at or above the vocabulary."""
    rows, words = bits.shape
    if words != -(-vocab_size // 32):
        raise ValueError(f"{words} words a row, a vocabulary of {vocab_size} needs {-(-vocab_size // 32)}")
    shifts = torch.arange(32, device=bits.device)
    keep = ((bits.to(torch.int64)[:, :, None] >> shifts) & 1).bool().view(rows, words * 32)
    if bool(keep[:, vocab_size:].any()):
        row = keep[:, vocab_size:].any(1).nonzero()[0].item()
        raise ValueError(f"row {row} has a bit set at or above the vocabulary of {vocab_size}")
    return keep[:, :vocab_size]


def _widest(lengths: Tensor) -> int:
    return int(lengths.max()) if len(lengths) else 0


def _row_of_each(mask: Ragged) -> Tensor:
    lengths = mask.offsets.diff()
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)


def _check_ids(ids: Tensor, row: Tensor, vocab_size: int) -> None:
    outside = (ids < 0) | (ids >= vocab_size)
    if bool(outside.any()):
        at = int(outside.nonzero()[0])
        raise ValueError(f"row {row[at].item()} holds id {ids[at].item()}, the vocabulary has {vocab_size}")
