from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import by_sorting, supports

from policy_eval.sampler import pipeline
from policy_eval.sampler.draw import draw, gumbel, seeds
from policy_eval.sampler.params import Params, RowParams, row_params
from policy_eval.sampler.pipeline import process, run, support
from policy_eval.sampler.semantics import SEMANTICS, Name

NAMES = list(SEMANTICS)


def members(probs: list[float], semantics: Name, **params: float) -> set[int]:
    logits = torch.tensor([probs], dtype=torch.float64).log()
    rows = [RowParams(**params)]  # type: ignore[arg-type]
    found = run(logits, Params.build(rows, vocab_size=len(probs), semantics=semantics))
    return set(found.keep()[0].nonzero()[:, 0].tolist())


# From the field: probabilities, parameters, and the support under each semantics named.
FIELD = [
    ([0.4, 0.3, 0.2, 0.1], {"top_k": 2, "top_p": 0.5}, {"vllm": {0}, "hf": {0}, "sglang-torch": {0, 1}}),
    (
        [0.35, 0.25, 0.20, 0.05] + [0.03] * 5,
        {"top_k": 4, "top_p": 0.82},
        {"vllm": {0, 1, 2}, "hf": {0, 1, 2}, "sglang-torch": {0, 1, 2, 3}, "sglang-flashinfer": {0, 1, 2, 3}},
    ),
    ([0.5, 0.25, 0.25], {"top_p": 0.5}, {"vllm": {0}, "hf": {0}, "sglang-torch": {0, 1}}),
    ([0.4, 0.2, 0.2, 0.1, 0.1], {"top_k": 2, "top_p": 0.45}, {"sglang-flashinfer": {0, 1, 2}}),
    ([0.4, 0.2, 0.2, 0.1, 0.1], {"top_k": 2}, {"vllm": {0, 1, 2}, "hf": {0, 1, 2}, "sglang-torch": {0, 1}}),
    ([0.4, 0.3, 0.2, 0.1], {"min_p": 0.6}, {name: {0, 1} for name in NAMES}),
    ([0.4, 0.3, 0.2, 0.1], {"temperature": 0.0}, {"vllm": {0, 1, 2, 3}, "sglang-torch": {0}, "hf": {0}}),
    ([0.25] * 4, {"temperature": 0.0}, {"sglang-torch": {0}, "sglang-flashinfer": {0}, "hf": {0}}),
]


@pytest.mark.parametrize(("probs", "params", "expected"), FIELD)
def test_field_cases(probs: list[float], params: dict[str, float], expected: dict[Name, set[int]]) -> None:
    for semantics, kept in expected.items():
        assert members(probs, semantics, **params) == kept, semantics


levels = st.lists(st.integers(-6, 6), min_size=1, max_size=14)


@settings(max_examples=250, deadline=None)
@given(
    rows=st.lists(levels, min_size=1, max_size=4),
    k=st.lists(st.integers(0, 15), min_size=4, max_size=4),
    p=st.sampled_from([0.1, 0.3, 0.5, 0.77, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    semantics=st.sampled_from(NAMES),
)
def test_equals_the_plain_rules(
    rows: list[list[int]], k: list[int], p: float, min_p: float, semantics: Name
) -> None:
    width = max(map(len, rows))
    padded = [[float(x) for x in row] + [-math.inf] * (width - len(row)) for row in rows]
    params = [RowParams(top_k=k[i], top_p=p, min_p=min_p) for i in range(len(rows))]
    logits = torch.tensor(padded, dtype=torch.float64)
    found = run(logits, Params.build(params, vocab_size=width, semantics=semantics))
    for i, row in enumerate(padded):
        kept = set(found.keep()[i].nonzero()[:, 0].tolist())
        assert kept == supports(row, k[i], p, min_p, semantics)
        assert int(found.cut.size[i]) == len(kept)
        assert float(found.logprobs()[i].exp().sum()) == pytest.approx(1, abs=1e-12)
        assert set(found.logprobs()[i].isfinite().nonzero()[:, 0].tolist()) == kept


@settings(max_examples=60, deadline=None)
@given(data=st.data(), semantics=st.sampled_from(NAMES))
def test_a_row_is_the_same_in_any_batch(data: st.DataObject, semantics: Name) -> None:
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    logits = (torch.randn(6, 40, generator=generator) * 4).round()
    rows = [
        RowParams(
            top_k=data.draw(st.sampled_from([0, 1, 3, 20, 40])),
            top_p=data.draw(st.sampled_from([0.3, 0.9, 1.0])),
            min_p=data.draw(st.sampled_from([0.0, 0.1])),
            temperature=data.draw(st.sampled_from([0.0, 0.7, 1.0, 2.0])),
        )
        for _ in range(6)
    ]
    seed, position = seeds(6, generator), torch.arange(6)
    found = run(logits, Params.build(rows, vocab_size=40, semantics=semantics))
    tokens = draw(found.logprobs(), seed, position)
    for i, row in enumerate(rows):
        alone = run(logits[i : i + 1], Params.build([row], vocab_size=40, semantics=semantics))
        assert torch.equal(alone.keep()[0], found.keep()[i])
        assert torch.allclose(alone.logprobs()[0], found.logprobs()[i], atol=1e-6, rtol=0)
        assert int(draw(alone.logprobs(), seed[i : i + 1], position[i : i + 1])) == int(tokens[i])
        assert bool(found.keep()[i, tokens[i]])


@settings(max_examples=80, deadline=None)
@given(data=st.data(), semantics=st.sampled_from(NAMES))
def test_long_rows_equal_a_full_sort(data: st.DataObject, semantics: Name) -> None:
    """Every way through the pipeline, on rows long enough that only a part of them is looked at."""
    vocab = data.draw(st.sampled_from([700, 9_000, 20_011]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    logits = torch.randn(5, vocab, generator=generator) * data.draw(st.sampled_from([0.01, 1, 4, 30]))
    grid = data.draw(st.sampled_from([0.0, 0.03, 1.0]))
    if grid:
        logits = (logits / grid).round() * grid
    hidden = data.draw(st.sampled_from([0.0, 0.5, 0.999]))
    logits[torch.rand(5, vocab, generator=generator) < hidden] = -torch.inf
    logits[:, data.draw(st.integers(0, vocab - 1))] = 0.5
    rows = [
        RowParams(
            top_k=data.draw(st.sampled_from([0, 1, 2, 50, vocab // 8, vocab - 1, vocab, vocab + 1])),
            top_p=data.draw(st.sampled_from([0.01, 0.5, 0.95, 0.9999, 1.0])),
            min_p=data.draw(st.sampled_from([0.0, 0.0, 0.02])),
            temperature=data.draw(st.sampled_from([0.5, 1.0, 3.0])),
        )
        for _ in range(5)
    ]
    found = run(logits, Params.build(rows, vocab_size=vocab, semantics=semantics))
    keep, logprobs = found.keep(), found.logprobs()
    for i, row in enumerate(rows):
        z = logits[i].double() / row.temperature
        expected = by_sorting(z, row.top_k, row.top_p, row.min_p, semantics)
        assert torch.equal(keep[i], expected), (i, row)
        assert int(found.cut.size[i]) == int(expected.sum())
        normal = z.masked_fill(~expected, -torch.inf).log_softmax(0).float()
        assert torch.allclose(logprobs[i], normal, atol=1e-6, rtol=1e-6)
        listed = found.cut.ids[i]
        listed = listed[listed >= 0]
        assert bool(keep[i][listed].all())
        assert len(set(listed.tolist())) == len(listed)
        assert torch.equal(found.cut.ids_logprobs[i][: len(listed)], logprobs[i][listed])
        bounded = 0 < row.top_k < vocab
        assert len(listed) == (min(int(expected.sum()), found.cut.ids.shape[1]) if bounded else 0)
        assert bool(found.listed[i]) == (len(listed) == int(expected.sum()))


def test_no_rows_are_a_batch_too() -> None:
    found = run(torch.empty(0, 9), Params.build([], vocab_size=9, semantics="vllm"))
    assert found.keep().shape == found.logprobs().shape == (0, 9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    vocab=st.integers(1, 700),
    wide=st.integers(1, 60),
    scale=st.sampled_from([1, 4, 100]),
)
def test_the_largest_are_found_by_columns(seed: int, vocab: int, wide: int, scale: int) -> None:
    x = (torch.randn(3, vocab + 5, generator=torch.Generator().manual_seed(seed)) * scale).round()[:, :vocab]
    x[0, :: max(1, vocab // 3)] = -torch.inf
    wide = min(wide, vocab)
    with pytest.MonkeyPatch.context() as patch:
        # Short rows are otherwise looked at whole.
        patch.setattr(pipeline, "SMALL", 1)
        value, ids = pipeline._largest(x, wide)
    assert torch.equal(value, torch.topk(x, wide).values)
    assert torch.equal(x.gather(1, ids), value)
    assert all(len(set(row)) == wide for row in ids.tolist())


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = (torch.randn(9, 64, generator=torch.Generator().manual_seed(1)) * 3).round()
    rows = [RowParams(top_k=[0, 5, 64][i % 3], top_p=[0.9, 1.0][i % 2]) for i in range(9)]
    for semantics in NAMES:
        params = Params.build(rows, vocab_size=64, semantics=semantics)
        whole = run(logits, params)
        monkeypatch.setattr(pipeline, "CHUNK", 128)
        monkeypatch.setattr(pipeline, "CHUNK_DENSE", {"cpu": 64})
        parts = run(logits, params)
        monkeypatch.undo()
        assert torch.equal(whole.keep(), parts.keep())
        assert torch.equal(whole.logprobs(), parts.logprobs())


def test_a_flat_row_spills_its_tie_over_the_whole_vocabulary() -> None:
    flat = torch.zeros(1, 5000)
    for semantics, kept in {"vllm": 5000, "hf": 5000, "sglang-torch": 3, "sglang-flashinfer": 5000}.items():
        params = Params.build([RowParams(top_k=3)], vocab_size=5000, semantics=semantics)  # type: ignore[arg-type]
        found = run(flat, params)
        assert int(found.cut.size[0]) == int(found.keep().sum()) == kept
        assert found.keep()[0, :3].all()
    half = run(flat, Params.build([RowParams(top_k=3, top_p=0.5)], vocab_size=5000, semantics="vllm"))
    assert int(half.cut.size[0]) == int(half.keep().sum()) == 2500


@pytest.mark.parametrize(
    ("row", "params", "words"),
    [
        ([0.0, math.nan], {}, "row 1 holds NaN or +inf"),
        ([math.inf, 0.0], {"top_k": 1}, "row 1 holds NaN or +inf"),
        ([-math.inf, -math.inf], {"top_p": 0.5}, "row 1 has no token left"),
        ([0.0, 0.0], {"allowed": (0,), "blocked": (0,)}, "row 1 has no token left"),
        ([0.0, math.nan], {"top_p": 0.5}, "row 1 holds NaN or +inf"),
    ],
)
@pytest.mark.parametrize("semantics", NAMES)
def test_unusable_rows_are_named(
    row: list[float], params: dict[str, object], words: str, semantics: Name
) -> None:
    logits = torch.tensor([[1.0, 2.0], row])
    rows = [RowParams(), RowParams(**params)]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words.replace("+", r"\+")) as error:
        run(logits, Params.build(rows, vocab_size=2, semantics=semantics))
    assert "row 0" not in str(error.value)


def test_padding_never_comes_out() -> None:
    logits = torch.tensor([[-5.0, -6.0, -7.0, 0.0, 0.0]])
    found = run(logits, Params.build([RowParams(top_k=2)], vocab_size=3, semantics="vllm"))
    assert found.keep().tolist() == [[True, True, False]]


def test_edits_by_hand() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0, 4.0, 0.5]], dtype=torch.float64)
    row = RowParams(
        repetition_penalty=2.0,
        frequency_penalty=0.5,
        presence_penalty=0.25,
        logit_bias={0: 1.0, 4: -100.0},
        blocked=(3,),
        prompt=(1,),
        output=(0, 0, 2),
    )
    vllm = process(logits, Params.build([row], vocab_size=5, semantics="vllm"))
    assert vllm.tolist() == [[3.0 / 2 - 1.25, -4.0, 0.5 - 0.75, -math.inf, -99.5]]
    sglang = process(logits, Params.build([row], vocab_size=5, semantics="sglang-torch"))
    assert sglang.tolist() == [[0.75 / 2 + 1, -2.0, 0.25 / 2, -math.inf, -99.5]]
    assert logits.tolist() == [[2.0, -2.0, 1.0, 4.0, 0.5]]


def test_row_params_reads_history() -> None:
    sampling = {
        "temperature": 1,
        "top_k": -1,
        "min_tokens": 2,
        "stop_token_ids": [7],
        "bad_words_token_ids": [[1, 2], [9]],
        "logit_bias": {"3": 1},
    }
    assert row_params(sampling, [5], [1]).blocked == (7, 2, 9)
    assert row_params(sampling, [5], [1, 4]).blocked == (9,)
    assert row_params(sampling, [5], [1]).logit_bias == {3: 1.0}


@pytest.mark.parametrize(
    "row",
    [
        RowParams(temperature=-1),
        RowParams(temperature=math.nan),
        RowParams(top_p=0),
        RowParams(min_p=2),
        RowParams(repetition_penalty=0),
        RowParams(allowed=(9,)),
        RowParams(blocked=(-1,)),
        RowParams(logit_bias={0: math.inf}),
    ],
)
def test_values_outside_their_range_name_the_row(row: RowParams) -> None:
    with pytest.raises(ValueError, match="row 1"):
        Params.build([RowParams(), row], vocab_size=4, semantics="hf")


def test_half_precision_and_inputs_stay() -> None:
    logits = torch.randn(2, 50).to(torch.bfloat16)
    before = logits.clone()
    rows = [RowParams(top_k=5, blocked=(1,)), RowParams(top_p=0.5)]
    found = run(logits, Params.build(rows, vocab_size=50, semantics="hf"))
    assert found.logprobs().dtype == torch.float32
    assert torch.equal(before, logits)


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    rows = 20_000
    tokens = draw(probs.log().expand(rows, 4), torch.full((rows,), 7), torch.arange(rows))
    share = torch.bincount(tokens, minlength=4) / rows
    assert torch.allclose(share, probs.float(), atol=0.015)
    assert share[3] == 0


def test_noise_is_pinned() -> None:
    """The same numbers on every machine and device: a change would make recorded proofs unrepeatable."""
    noise = gumbel(torch.tensor([1, 2])[:, None], torch.tensor([0, 5])[:, None], torch.tensor([0, 151_935]))
    assert torch.allclose(noise, torch.tensor(NOISE, dtype=torch.float64), atol=1e-12, rtol=0)


NOISE = [[0.20972790796594143, 1.0089447459673535], [-0.1845075293732874, -0.27678191018863657]]


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: the same results on CUDA are unmeasured"
)
def test_cuda_gives_the_same() -> None:
    logits = (torch.randn(32, 5000, generator=torch.Generator().manual_seed(0)) * 4).round()
    rows = [
        RowParams(top_k=[0, 20, 300][i % 3], top_p=[0.9, 1.0][i % 2], min_p=0.01 * (i % 2)) for i in range(32)
    ]
    seed, position = torch.arange(32), torch.arange(32)
    for semantics in NAMES:
        cpu = run(logits, Params.build(rows, vocab_size=5000, semantics=semantics))
        params = Params.build(rows, vocab_size=5000, semantics=semantics, device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        try:
            gpu = support(process(logits.cuda(), params), params)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.equal(cpu.keep(), gpu.keep().cpu())
        tokens = draw(gpu.logprobs(), seed.cuda(), position.cuda())
        assert torch.equal(draw(cpu.logprobs(), seed, position), tokens.cpu())
