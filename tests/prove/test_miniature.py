"""The engine in miniature: right where engines are right, and wrong in the way that each feature makes them wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the sampler needs torch")

from policy_eval.prove.evidence import DRAWN, gather, recorded  # noqa: E402
from policy_eval.sampler.miniature.behaviour import Behaviour  # noqa: E402
from policy_eval.sampler.miniature.cases import SAMPLING, TOKENS, Case, cases  # noqa: E402
from policy_eval.sampler.miniature.engine import run  # noqa: E402
from policy_eval.sampler.miniature.model import SHAPES, VOCABULARY, logits, start  # noqa: E402
from policy_eval.sampler.recording import parse_request  # noqa: E402
from policy_eval.sampler.rollout import judge_request  # noqa: E402
from policy_eval.schema import schema_problems  # noqa: E402

EXPECTED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "behaviours.json").read_text())


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["name"])
def test_each_behaviour_shows_what_it_is_known_for(case: dict[str, Any]) -> None:
    evidence = gather(Behaviour(**case["behaviour"]), seeds=1, judged_seeds=1)
    shown = {
        "missing": evidence.missing > 0,
        "misaligned": evidence.misaligned > 0,
        "outside": evidence.outside > 0,
        "sum": evidence.sum_off > 1e-4,
        "ratio": abs(evidence.ratio_mean - 1) > 1e-4 if evidence.ratios else False,
        "kl": evidence.kl > 1e-6 or evidence.kl_infinite > 0,
        "refused": evidence.refused > 0,
    }
    assert [name for name, found in shown.items() if found] == case["shows"]
    assert evidence.consistent is (not case["shows"])
    assert set(case.get("invariants", ())) <= set(evidence.findings)


@pytest.mark.parametrize("speculation", ["none", "fixed", "adaptive"])
def test_tokens_have_the_distribution_that_the_truth_says(speculation: Any) -> None:
    # The first token of many texts with equal logits: speculation must not change how often each id comes.
    shape = SHAPES.index("flat")
    some = [Case(shape="flat", sampling=SAMPLING[2], seed=seed, tokens=2) for seed in range(1, 500)]
    sampling = dict(SAMPLING[2], allowed_token_ids=[3, 9, 20, 41], logit_bias={"3": 1.0, "9": 2.0})
    some = [Case(shape=one.shape, sampling=sampling, seed=one.seed, tokens=2) for one in some]
    done = run(Behaviour(speculation=speculation), some)
    assert shape == SHAPES.index("flat")
    for position in range(2):
        counts = Counter(request.token_ids[position] for request in done.requests)
        truth = done.truth[0, position]
        assert set(counts) == {int(token) for token in truth.nonzero()[:, 0]}
        chi = sum(
            (count - len(some) * float(truth[token])) ** 2 / (len(some) * float(truth[token]))
            for token, count in counts.items()
        )
        # Three degrees of freedom; one in ten thousand is above.
        assert chi < 21.1


def test_a_run_repeats_and_leaves_the_caller_alone() -> None:
    state = torch.random.get_rng_state()
    behaviour = Behaviour(speculation="fixed")
    assert run(behaviour, cases(1)[:10]).requests == run(behaviour, cases(1)[:10]).requests
    assert bool((torch.random.get_rng_state() == state).all())


def test_logits_have_their_shapes() -> None:
    rows = {name: logits(start(torch.arange(5)), torch.full((5,), at)) for at, name in enumerate(SHAPES)}
    assert all(row.shape == (5, VOCABULARY) and row.dtype == torch.float32 for row in rows.values())
    assert len(rows["flat"].unique()) == 1
    assert (rows["one"].isfinite().sum(1) == 1).all()
    assert (rows["few"].isfinite().sum(1) == 5).all()
    assert all(len(row.unique()) < VOCABULARY / 2 for row in rows["ties"])
    assert (rows["spike"].softmax(1).amax(1) > 0.99).all()
    assert (rows["tiny"].softmax(1).amax(1) < 0.02).all()
    assert (rows["huge"].softmax(1).amax(1) > 0.99).all()
    assert not torch.equal(rows["plain"][0], rows["plain"][1])


@pytest.mark.parametrize(
    "name", [case["name"] for case in EXPECTED if "temperature" not in case["behaviour"]]
)
def test_rollouts_are_recordings_that_the_judge_reads(name: str) -> None:
    behaviour = next(case["behaviour"] for case in EXPECTED if case["name"] == name)
    done = run(Behaviour(**behaviour), cases(1)[:10])
    for request, raw in zip(done.requests, done.logits, strict=True):
        line = json.dumps(recorded(request))
        if "Infinity" not in line:
            assert schema_problems(json.loads(line), "rollout", None, "line") == []
        read = parse_request(line, "file", 1)
        assert len(read.token_ids) == TOKENS
        assert judge_request(read, raw, "vllm") == judge_request(request, raw, "vllm")


def test_only_the_truth_shows_greedy_requests() -> None:
    evidence = gather(Behaviour(temperature=0.0, checks_requests=False), seeds=1, judged_seeds=1)
    assert set(evidence.findings) == {DRAWN}
    assert evidence.broken is not None
    assert evidence.broken.invariant == DRAWN


def test_without_a_top_k_masks_can_be_as_large_as_the_vocabulary() -> None:
    evidence = gather(Behaviour(top_k=0, checks_requests=False), seeds=1, judged_seeds=1)
    assert evidence.consistent
    assert max(evidence.sizes) == VOCABULARY
