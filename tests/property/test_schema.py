"""Laws of the schema layer: the quick test never says yes where the JSON Schema says no."""

from __future__ import annotations

import copy
from typing import Any

from documents import any_documents, valid_documents
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from policy_eval.schema import complete, config_type, load_schema, quick_check, schema_problems

VALIDATOR = Draft202012Validator(load_schema("config"))


def _valid(value: Any) -> bool:
    return bool(VALIDATOR.is_valid(value))


@given(any_documents())
@settings(max_examples=400, deadline=None)
def test_a_quick_yes_is_a_yes(document: Any) -> None:
    if quick_check("config")(document):
        assert _valid(document)


@given(valid_documents())
@settings(max_examples=200, deadline=None)
def test_valid_documents_pass_the_quick_test(document: dict[str, Any]) -> None:
    assert _valid(document)
    assert quick_check("config")(document)
    assert schema_problems(document, "config", None, "document") == []


@given(any_documents())
@settings(max_examples=200, deadline=None)
def test_what_the_schema_refuses_is_said(document: Any) -> None:
    problems = schema_problems(document, "config", None, "document")
    assert bool(problems) == (not _valid(document))
    assert all(problem.message and problem.location for problem in problems)


@given(valid_documents())
@settings(max_examples=100, deadline=None)
def test_a_completed_document_states_every_fact_and_leaves_the_original_alone(
    document: dict[str, Any],
) -> None:
    before = copy.deepcopy(document)
    full = complete(document, lambda pointer: ("unknown", pointer))
    assert document == before
    assert full.keys() == config_type().fields.keys()
