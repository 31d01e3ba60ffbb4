"""Per-row sampling parameters: plain values on the host, and the tensors the pipeline reads.

All planning that depends on the values (which rows have a top_k, the largest one, which ids are edited)
happens here, on the host, so that the pipeline itself never waits for a device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from policy_eval.sampler.semantics import SEMANTICS, Filter, Name, Semantics

# Below it logits overflow; engines treat such a temperature as 0 or replace it.
LEAST_TEMPERATURE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class RowParams:
    """Sampling parameters of one row (one token of one request).

    ``top_k`` 0 or less: no limit. ``allowed`` None: all tokens. ``blocked``: ids that may not come now (stop
    tokens before min_tokens, last tokens of bad words). ``prompt`` and ``output``: the ids before this token.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    allowed: tuple[int, ...] | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    blocked: tuple[int, ...] = ()
    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()

    @property
    def edits(self) -> bool:
        """Whether anything but temperature and the filters changes a logit."""
        penalties = (self.repetition_penalty, self.frequency_penalty, self.presence_penalty)
        return bool(
            self.allowed is not None or self.logit_bias or self.blocked or penalties != (1.0, 0.0, 0.0)
        )


def row_params(sampling: Mapping[str, Any], prompt: Sequence[int], output: Sequence[int]) -> RowParams:
    """Parameters of the token that follows ``prompt`` and ``output``, from vLLM's names of sampling parameters.

    Reads temperature, top_k, top_p, min_p, the penalties, allowed_token_ids, logit_bias (keys may be
    strings), min_tokens with stop_token_ids, and bad_words_token_ids (a list of id sequences). Other keys
    (seed, max_tokens) do not change a support and are ignored. Values are taken as they are: check first.
    Ids that no penalty reads are left out, so that the rows of a long request do not each carry all of it.
    """
    blocked: list[int] = []
    if len(output) < int(sampling.get("min_tokens") or 0):
        blocked += [int(token) for token in sampling.get("stop_token_ids") or ()]
    for word in sampling.get("bad_words_token_ids") or ():
        head = tuple(word[:-1])
        # A bad word is matched within the generated tokens only, as vLLM does.
        if not head or tuple(output[-len(head) :]) == head:
            blocked.append(int(word[-1]))
    allowed = sampling.get("allowed_token_ids")
    bias = sampling.get("logit_bias") or {}

    def number(key: str, default: float) -> float:
        return float(default if sampling.get(key) is None else sampling[key])

    repetition = number("repetition_penalty", 1.0)
    frequency, presence = number("frequency_penalty", 0.0), number("presence_penalty", 0.0)
    return RowParams(
        temperature=number("temperature", 1.0),
        top_k=int(sampling.get("top_k") or 0),
        top_p=number("top_p", 1.0),
        min_p=number("min_p", 0.0),
        repetition_penalty=repetition,
        frequency_penalty=frequency,
        presence_penalty=presence,
        allowed=None if allowed is None else tuple(int(token) for token in allowed),
        logit_bias={int(token): float(value) for token, value in bias.items()},
        blocked=tuple(blocked),
        prompt=tuple(prompt) if repetition != 1.0 else (),
        output=tuple(output) if (repetition, frequency, presence) != (1.0, 0.0, 0.0) else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Parameters of B rows as tensors on one device. Make it with ``Params.build``.

    ``temperature``, ``top_p``, ``min_p``: float64 [B]; ``top_p`` is infinite where it is 1, so that no rounding
    cuts anything there. ``top_k``: int64 [B], ``vocab_size`` where there is no limit. ``greedy``: bool [B], rows
    whose temperature was 0 (``temperature`` is 1 there).
    Rows by what they need, int64 indexes: ``bounded`` have a top_k; ``nuclei`` have a top_p but no top_k;
    ``open_`` have neither. ``order`` puts the rows of these three, one after the other, in the order of the batch;
    None where they are. ``width``: the largest top_k + 1; 0 where no row has one.
    ``filters``: those of the semantics' that some row uses, top_k (a part of every row) left out.
    Edits are (flat index ``row * vocab_size + id``, float64 value) pairs; None where no row has one.
    """

    semantics: Semantics
    rows: int
    vocab_size: int
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    greedy: Tensor
    bounded: Tensor
    nuclei: Tensor
    open_: Tensor
    order: Tensor | None
    width: int
    filters: tuple[Filter, ...]
    allowed_rows: Tensor | None
    allowed: Tensor | None
    blocked: Tensor | None
    bias: tuple[Tensor, Tensor] | None
    repetition: tuple[Tensor, Tensor] | None
    additive: tuple[Tensor, Tensor] | None

    @staticmethod
    def build(
        rows: Sequence[RowParams], *, vocab_size: int, semantics: Name, device: str | torch.device = "cpu"
    ) -> Params:
        """Tensors for B rows. ``vocab_size`` is the tokenizer's size V: ids at or above it never come out.

        Raises ValueError, naming the row and the parameter, for a value outside its range or an id outside
        [0, V).
        """
        if semantics not in SEMANTICS:
            raise ValueError(f"unknown semantics `{semantics}`; there are {', '.join(SEMANTICS)}")
        table = SEMANTICS[semantics]
        for index, row in enumerate(rows):
            _check(index, row, vocab_size)
        effective = [_effective(row, table) for row in rows]
        limits = [row.top_k if 0 < row.top_k < vocab_size else vocab_size for row in effective]
        bounded = [index for index, limit in enumerate(limits) if limit < vocab_size]
        rest = [index for index, limit in enumerate(limits) if limit >= vocab_size]
        nuclei = [index for index in rest if effective[index].top_p < 1]
        open_ = [index for index in rest if effective[index].top_p >= 1]
        place = {index: at for at, index in enumerate(bounded + nuclei + open_)}
        order = [place[index] for index in range(len(rows))]
        used = {
            "min_p": any(row.min_p > 0 for row in effective),
            "top_p": any(row.top_p < 1 for row in effective),
        }
        bias: dict[int, float] = {}
        repetition: dict[int, float] = {}
        additive: dict[int, float] = {}
        allowed_rows, allowed, blocked = [], [], []
        for index, row in enumerate(effective):
            start = index * vocab_size
            if row.allowed is not None:
                allowed_rows.append(index)
                allowed += [start + token for token in sorted(set(row.allowed))]
            blocked += [start + token for token in row.blocked]
            bias |= {start + token: value for token, value in row.logit_bias.items()}
            if row.repetition_penalty != 1.0:
                seen = set(row.output) | (set(row.prompt) if table.repetition_sees_prompt else set())
                repetition |= dict.fromkeys((start + token for token in seen), row.repetition_penalty)
            if row.frequency_penalty or row.presence_penalty:
                for token, count in Counter(row.output).items():
                    additive[start + token] = row.frequency_penalty * count + row.presence_penalty

        def reals(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float64, device=device)

        def ids(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        def pairs(entries: Mapping[int, float]) -> tuple[Tensor, Tensor] | None:
            return (ids(list(entries)), reals(list(entries.values()))) if entries else None

        return Params(
            semantics=table,
            rows=len(rows),
            vocab_size=vocab_size,
            temperature=reals([row.temperature for row in effective]),
            top_k=ids(limits),
            top_p=reals([row.top_p if row.top_p < 1 else math.inf for row in effective]),
            min_p=reals([row.min_p for row in effective]),
            greedy=torch.tensor([row.temperature == 0 for row in rows], dtype=torch.bool, device=device),
            bounded=ids(bounded),
            nuclei=ids(nuclei),
            open_=ids(open_),
            order=None if order == sorted(order) else ids(order),
            width=1 + max((limits[index] for index in bounded), default=-1),
            filters=tuple(name for name in table.filters if used.get(name)),
            allowed_rows=ids(allowed_rows) if allowed_rows else None,
            allowed=ids(allowed) if allowed_rows else None,
            blocked=ids(blocked) if blocked else None,
            bias=pairs(bias),
            repetition=pairs(repetition),
            additive=pairs(additive),
        )


def _effective(row: RowParams, table: Semantics) -> RowParams:
    """The parameters that the filters see: at temperature 0 the engine replaces them."""
    if row.temperature != 0:
        return row
    return replace(row, temperature=1.0, top_k=1 if table.greedy == "one" else 0, top_p=1.0, min_p=0.0)


_RANGES = (
    ("temperature", 0.0, 1e6, "0 or more"),
    ("min_p", 0.0, 1.0, "between 0 and 1"),
    ("repetition_penalty", 1e-6, 1e6, "above 0"),
    ("frequency_penalty", -1e6, 1e6, "a finite number"),
    ("presence_penalty", -1e6, 1e6, "a finite number"),
)


def _check(index: int, row: RowParams, vocab_size: int) -> None:
    for name, low, high, words in _RANGES:
        if not low <= getattr(row, name) <= high:
            raise ValueError(f"row {index}: {name} is {getattr(row, name)}, must be {words}")
    if 0 < row.temperature < LEAST_TEMPERATURE:
        raise ValueError(
            f"row {index}: temperature is {row.temperature}, must be 0 or at least {LEAST_TEMPERATURE}"
        )
    if not 0 < row.top_p <= 1:
        raise ValueError(f"row {index}: top_p is {row.top_p}, must be above 0 and at most 1")
    groups = (row.allowed or (), row.logit_bias, row.blocked, row.prompt, row.output)
    for name, ids in zip(("allowed", "logit_bias", "blocked", "prompt", "output"), groups, strict=True):
        if ids and not 0 <= min(ids) <= max(ids) < vocab_size:
            token = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"row {index}: {name} holds id {token}, the vocabulary has {vocab_size}")
    for token, value in row.logit_bias.items():
        if not abs(value) <= 1e6:
            raise ValueError(f"row {index}: logit_bias of id {token} is {value}, must be a finite number")
