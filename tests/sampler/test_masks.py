from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_eval.sampler import masks
from policy_eval.sampler.masks import Ragged


@st.composite
def dense(draw: st.DrawFn) -> torch.Tensor:
    rows, vocab = draw(st.integers(0, 4)), draw(st.integers(1, 70))
    bits = draw(st.lists(st.booleans(), min_size=rows * vocab, max_size=rows * vocab))
    return torch.tensor(bits, dtype=torch.bool).view(rows, vocab)


@settings(deadline=None)
@given(keep=dense())
def test_every_form_carries_the_same_sets(keep: torch.Tensor) -> None:
    vocab = keep.shape[1]
    ragged = masks.ragged_from_dense(keep)
    assert torch.equal(masks.dense_from_ragged(ragged, vocab), keep)
    padded = masks.padded_from_ragged(ragged)
    back = masks.ragged_from_padded(padded)
    assert torch.equal(back.ids, ragged.ids)
    assert torch.equal(back.offsets, ragged.offsets)
    bits = masks.bits_from_dense(keep)
    assert bits.dtype == torch.int32
    assert torch.equal(masks.dense_from_bits(bits, vocab), keep)
    listed = Ragged.of(ragged.rows())
    assert torch.equal(listed.ids, ragged.ids)
    assert torch.equal(listed.offsets, ragged.offsets)
    assert ragged.rows() == [row.nonzero()[:, 0].tolist() for row in keep]


def test_bit_31_is_the_sign() -> None:
    keep = torch.zeros(1, 33, dtype=torch.bool)
    keep[0, [0, 31, 32]] = True
    assert masks.bits_from_dense(keep).tolist() == [[1 - 2**31, 1]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: masks.dense_from_ragged(Ragged.of([[0], [5]]), 5), "row 1 holds id 5"),
        (lambda: masks.dense_from_ragged(Ragged.of([[0], [-2]]), 5), "row 1 holds id -2"),
        (lambda: masks.dense_from_ragged(Ragged.of([[0], [3, 3]]), 5), "row 1 lists an id twice"),
        (
            lambda: masks.ragged_from_padded(torch.tensor([[1, -1], [-1, 2]])),
            "row 1 has an id after its padding",
        ),
        (
            lambda: masks.dense_from_bits(torch.tensor([[0], [32]], dtype=torch.int32), 5),
            "row 1 has a bit set",
        ),
        (lambda: masks.dense_from_bits(torch.zeros(1, 2, dtype=torch.int32), 5), "2 words a row"),
        (lambda: Ragged(ids=torch.tensor([1]), offsets=torch.tensor([0, 2])), "offsets must rise"),
        (lambda: Ragged(ids=torch.tensor([1]), offsets=torch.tensor([0, 2, 1])), "offsets must rise"),
        (lambda: Ragged(ids=torch.tensor([[1]]), offsets=torch.tensor([0, 1])), "one-dimensional"),
    ],
)
def test_wrong_forms_name_the_row(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()  # type: ignore[operator]
