"""Laws of the evaluator over random documents."""

from __future__ import annotations

import copy
import json
from typing import Any

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
