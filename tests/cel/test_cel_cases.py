"""Expressions as data: exact errors of the parser, the checker and the evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_strategies import CONFIG

from policy_eval import cel

FOLDER = Path(__file__).parent / "cases"


def cases(name: str) -> list[Any]:
    found = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return [pytest.param(case, id=f"{at} {case['text'][:40]}") for at, case in enumerate(found)]


def shown(error: cel.Error) -> str:
    place = error.problems[0].location
    assert place is not None
    return f"{place.line}:{place.column}-{place.end_column} {error.message}"


@pytest.mark.parametrize("case", cases("syntax.yaml"))
def test_syntax(case: dict[str, Any]) -> None:
    with pytest.raises(cel.Error) as caught:
        cel.compile(case["text"])
    assert caught.value.kind == "syntax"
    assert shown(caught.value) == case["error"]
    assert caught.value.help == case.get("help")


@pytest.mark.parametrize("case", cases("check.yaml"))
def test_check(case: dict[str, Any]) -> None:
    errors = cel.check_expression(case["text"], {"config": CONFIG}, expect=cel.BOOL).errors
    assert [shown(error) for error in errors] == case["errors"]
    assert all(error.kind == "check" for error in errors)
    if "help" in case:
        assert errors[0].help == case["help"]


@pytest.mark.parametrize("case", cases("evaluate.yaml"))
def test_evaluate(case: dict[str, Any]) -> None:
    program = cel.compile(case["text"])
    if "value" in case:
        value = program.evaluate(case.get("bind", {}))
        assert (type(value), value) == (type(case["value"]), case["value"])
        return
    with pytest.raises(cel.Error) as caught:
        program.evaluate(case.get("bind", {}))
    assert caught.value.kind == "evaluation"
    if "error" in case:
        assert shown(caught.value) == case["error"]
