"""Generated code and walker never disagree."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cel_strategies import CONFIG, complete, documents, expressions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy_eval import cel

ROOTS = {"config": CONFIG}
NAMES = {
    **ROOTS,
    "variables": cel.Record("variables", {name: cel.Field(cel.DYN) for name in ("first", "second", "path")}),
}


def parse(text: str) -> cel.Node | None:
    checked = cel.check_expression(text, {**NAMES, "x": cel.DYN, "y": cel.DYN})
    return checked.node


def expected(outcomes: cel.Outcomes) -> tuple[Any, Any]:
    """What `first` and `failures` must say if they say anything; None: they must not."""
    if any(value is False for value in outcomes.conditions):
        return -2, None
    if not all(value is True for value in outcomes.conditions):
        return "undecided", "undecided"
    first: Any = -1
    for at, value in enumerate(outcomes.rules):
        if value is False:
            first = at
            break
        if value is not True:
            first = "undecided"
            break
    decided = all(type(value) is bool for value in outcomes.rules)
    failures = tuple(at for at, value in enumerate(outcomes.rules) if value is False)
    return first, failures if decided else "undecided"


@pytest.mark.filterwarnings("error::SyntaxWarning")
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rules=st.lists(expressions, min_size=1, max_size=3),
    conditions=st.lists(expressions, max_size=2),
    variables=st.tuples(expressions, expressions),
    found=st.lists(documents, min_size=1, max_size=3),
)
def test_generated_code_and_walker_agree(
    rules: list[str], conditions: list[str], variables: tuple[str, str], found: list[dict[str, Any]]
) -> None:
    named = [("path", "config.inner"), ("first", variables[0]), ("second", variables[1])]
    rule_set = cel.RuleSet(
        roots=ROOTS,
        variables=[(name, parse(text)) for name, text in named],
        conditions=[parse(text) for text in conditions],
        rules=[parse(text) for text in rules],
        limits=cel.Limits(iterations=40),
    )
    for document in found:
        before = copy.deepcopy(document)
        outcomes = rule_set.outcomes(complete(document, CONFIG, cel.Unknown))
        first, failures = expected(outcomes)
        for function, said in ((rule_set.first, first), (rule_set.failures, failures)):
            try:
                result = function(document)
            except cel.Undecided:
                continue
            assert result == said, (outcomes, document)
        assert repr(document) == repr(before)


def test_most_rules_are_decided_by_generated_code() -> None:
    """The agreement above would be hollow if the generated code always passed."""
    document = {
        "inner": {"flag": True, "mode": "raw", "items": [1], "count": 1, "any": {"a": 1}},
        "flag": True,
    }
    texts = [
        "config.flag",
        "config.inner.flag && config.inner.count == 1",
        "config.host.n > 2",
        "config.inner.items.all(x, x > 0)",
        "config.inner.any.b == 1 || config.flag",
        "config.numbers.map(x, x + 1)[0] == 2",
        "size(config.inner.mode) == 3 && config.inner.mode.startsWith('r')",
        "!has(config.env.a) && !('x' in config.env)",
        "config.inner.items == null ? false : config.inner.items.exists(x, x == 1)",
        "cel.bind(x, config.inner.count, x + x == 2)",
    ]
    for text in texts:
        rule_set = cel.RuleSet(roots=ROOTS, rules=[parse(text)])
        assert rule_set.first(document) == -1, text
        assert rule_set.failures(document) == (), text


@pytest.mark.parametrize("text", ["config.inner == {}", "config.inner in [1]", "size(config.host) == 0"])
def test_a_record_as_a_whole_is_left_to_the_walker(text: str) -> None:
    rule_set = cel.RuleSet(roots=ROOTS, rules=[parse(text)])
    with pytest.raises(cel.Undecided):
        rule_set.first({"inner": {}, "host": {}})
