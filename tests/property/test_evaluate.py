"""Laws of the evaluator over random documents."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from documents import any_documents, valid_documents
from hypothesis import given, settings

from policy_eval import Evaluator, PolicyEvalError
from policy_eval.model import OUTCOMES
from policy_eval.schema import quick_check, schema_problems

EVALUATOR = Evaluator.load()
ORDER = [rule.id for policy in EVALUATOR.policies for rule in policy.rules]


@given(any_documents())
@settings(max_examples=300, deadline=None)
def test_it_neither_raises_nor_changes_the_document(document: Any) -> None:
    before = copy.deepcopy(document)
    report = EVALUATOR.evaluate(document)
    assert document == before
    assert report.outcome in OUTCOMES
    assert schema_problems(report.to_dict(), "report", None, "report") == []
    valid = quick_check("config")(document)
    assert valid or report.outcome == "error"


@given(valid_documents())
@settings(max_examples=300, deadline=None)
def test_findings_and_passes_keep_the_order_of_the_policy(document: dict[str, Any]) -> None:
    judged = EVALUATOR.evaluate(document).documents[0]
    rules = [finding.rule for finding in judged.findings if finding.rule in ORDER]
    assert rules == sorted(rules, key=ORDER.index)
    assert list(judged.passed) == sorted(judged.passed, key=ORDER.index)
    assert not set(judged.passed) & {finding.rule for finding in judged.findings}


@given(valid_documents())
@settings(max_examples=200, deadline=None)
def test_the_order_of_keys_means_nothing(document: dict[str, Any]) -> None:
    turned = json.loads(json.dumps(document), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert EVALUATOR.evaluate(turned) == EVALUATOR.evaluate(document)


@given(valid_documents())
@settings(max_examples=300, deadline=None)
def test_first_finds_what_all_finds_first(document: dict[str, Any]) -> None:
    everything = EVALUATOR.evaluate(document)
    first = EVALUATOR.evaluate(document, first=True)
    assert first.outcome == everything.outcome
    failed = [
        finding
        for finding in everything.findings
        if finding.outcome == "failed" and finding.severity == "error"
    ]
    if failed and everything.documents[0].version is not None:
        assert first.findings[-1] == failed[0]
    try:
        quick = EVALUATOR.first_failure(document)
    except PolicyEvalError:
        assert everything.outcome == "error"
    else:
        assert (quick is None) == (everything.outcome in ("approved", "not applicable"))


CYCLE: dict[str, Any] = {}
CYCLE["env"] = CYCLE
DEEP: dict[str, Any] = {}
_at = DEEP
for _ in range(10_000):
    _at["a"] = {}
    _at = _at["a"]
ASKING = {
    "schema": "policy-eval/config/v1",
    "engine": {"name": "vllm", "version": "0.32.0"},
    "model_config": {
        "return_sampling_mask": True,
        "is_diffusion": False,
        "logprobs_mode": "processed_logprobs",
    },
    "use_v2_model_runner": True,
}


@pytest.mark.parametrize(
    "change",
    [
        CYCLE,
        {"env": DEEP},
        {"trainer": DEEP},
        {"sampling_params": {"temperature": float("nan")}},
        {"sampling_params": {"temperature": float("inf")}},
        {1: 2},
        {None: 2},
        {(1,): 2},
        {"use_v2_model_runner": 1},
        {"use_v2_model_runner": b"1"},
        {"env": {"A": {1, 2}}},
        {"engine": []},
        {"engine": {"name": {}, "version": "0.32.0"}},
        {"engine": {"name": "vllm", "version": []}},
        {"engine": {"name": "vllm", "version": "0.32.0\n"}},
        {"engine": {"name": "vllm", "version": "0." * 5000 + "1"}},
        {"model_config": {"return_sampling_masks": True}},
        {"unknown": ["/use_v2_model_runer"]},
        {"unknown": [""]},
        {"unknown": ["/engine/name"]},
    ],
    ids=lambda change: repr(list(change))[:40],
)
def test_what_no_json_file_could_hold_is_an_error_too(change: dict[Any, Any]) -> None:
    assert EVALUATOR.evaluate(ASKING).outcome == "approved"
    report = EVALUATOR.evaluate({**ASKING, **change})
    assert report.outcome == "error"
    assert report.documents[0].problems[0].message
    assert EVALUATOR.evaluate({**ASKING, **change}, first=True).outcome == "error"


@pytest.mark.parametrize("document", [None, 3, "x", [], {}, [ASKING]])
def test_what_is_no_document_is_an_error(document: Any) -> None:
    assert EVALUATOR.evaluate(document).outcome == "error"
    with pytest.raises(PolicyEvalError):
        EVALUATOR.first_failure(document)
