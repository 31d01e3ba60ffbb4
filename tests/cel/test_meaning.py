"""Unknown facts, rule sets, stored trees and traces."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_strategies import CONFIG, complete, expressions
from hypothesis import given, settings

from policy_eval import cel

UNKNOWN = yaml.safe_load((Path(__file__).parent / "cases" / "unknown.yaml").read_text(encoding="utf-8"))


def unknown(pointer: str) -> cel.Unknown:
    return cel.Unknown(frozenset([pointer]))


@pytest.mark.parametrize("case", UNKNOWN, ids=[case["text"] for case in UNKNOWN])
def test_partial_evaluation(case: dict[str, Any]) -> None:
    bindings = {
        "u": unknown("/u"),
        "v": unknown("/v"),
        "m": {"a": unknown("/m/a"), "b": 1},
        "l": [1, unknown("/l/1")],
    }
    program = cel.compile(case["text"])
    if case.get("error"):
        with pytest.raises(cel.Error):
            program.evaluate(bindings)
        return
    found = program.evaluate(bindings)
    if "unknown" in case:
        assert isinstance(found, cel.Unknown)
        assert sorted(found.pointers) == case["unknown"]
    else:
        assert found == case["value"]


def node(text: str) -> cel.Node:
    environment = {
        "config": CONFIG,
        "variables": cel.Record("variables", {"v": cel.Field(cel.DYN), "w": cel.Field(cel.DYN)}),
    }
    checked = cel.check_expression(text, environment)
    assert not checked.errors
    assert checked.node is not None
    return checked.node


def rule_set(rules: list[str], conditions: tuple[str, ...] = (), **variables: str) -> cel.RuleSet:
    return cel.RuleSet(
        roots={"config": CONFIG},
        variables=[(name, node(text)) for name, text in variables.items()],
        conditions=[node(text) for text in conditions],
        rules=[node(text) for text in rules],
    )


def outcomes(rules: cel.RuleSet, document: dict[str, Any]) -> cel.Outcomes:
    return rules.outcomes(complete(document, CONFIG, cel.Unknown))


def test_a_false_condition_wins_over_errors_and_unknowns() -> None:
    rules = rule_set(["config.flag"], ("config.must.flag", "config.value == 1", "!config.flag"))
    assert rules.first({"must": {}}) == -2
    assert rules.failures({"must": {}}) is None
    found = outcomes(rules, {"must": None})
    assert isinstance(found.conditions[0], cel.Error)
    assert isinstance(found.conditions[1], cel.Unknown)
    assert found.conditions[2] is False
    assert found.rules == ()


def test_rules_are_judged_in_order_and_each_on_its_own() -> None:
    rules = rule_set(
        [
            "config.flag",
            "config.value == 1",
            "config.numbers[9] == 1",
            "config.host.n == 3",
            "config.inner.mode",
        ]
    )
    with pytest.raises(cel.Undecided):
        rules.first({})
    found = outcomes(rules, {"inner": {"mode": "raw"}})
    assert found.rules[0] is True
    assert found.rules[1] == unknown("/value")
    assert found.rules[2].message == "the index `9` is outside the list of 3"
    assert (found.rules[2].start, found.rules[2].end) == (0, 17)
    assert found.rules[3] is True
    assert found.rules[4].message == "the expression must give true or false, not a string"
    assert rules.first({"flag": False}) == 0


def test_a_misspelt_key_is_not_a_default() -> None:
    rules = rule_set(["config.flag"])
    assert rules.first({}) == -1
    assert rules.first({"schema": "x"}) == -1
    with pytest.raises(cel.Undecided):
        rules.first({"flga": False})
    assert rules.first({"flag": False, "flga": 1}) == 0
    nullable = rule_set(["config.inner == null"])
    assert nullable.first({}) == -1
    for wrong in ({"innner": {}}, "", [], None, 1):
        with pytest.raises(cel.Undecided):
            nullable.first(wrong)


def test_variables_are_lazy_and_computed_once() -> None:
    rules = rule_set(
        ["config.flag || variables.w", "variables.v", "variables.v", "has(variables.v)"],
        v="config.numbers.all(x, x > 0)",
        w="config.numbers[99] == 1",
    )
    assert rules.first({"numbers": [1]}) == -1
    found = outcomes(rules, {"numbers": [1], "flag": False})
    assert found.rules[0].message == "variable `w`: the index `99` is outside the list of 1"
    assert found.rules[1:] == (True, True, True)
    limited = cel.RuleSet(
        roots={"config": CONFIG},
        variables=[("v", node("config.numbers.all(x, x > 0)"))],
        rules=[node("variables.v")] * 5,
        limits=cel.Limits(iterations=10),
    )
    assert limited.first({"numbers": [1] * 10}) == -1
    assert outcomes(limited, {"numbers": [1] * 10}).rules == (True,) * 5


def test_absorbed_errors_and_defaults_do_not_leave_generated_code() -> None:
    for text in (
        "config.env.missing == 'x' || config.flag",
        "config.value.flag == 1 || config.host.n == 3",
        "config.numbers.exists(x, x.y == 1 || x == 2)",
        "!(config.env.missing == 'x' && !config.flag)",
        "config.inner == null",
        "!has(config.env.missing)",
    ):
        assert rule_set([text]).first({}) == -1, text


def test_many_threads_may_use_one_rule_set() -> None:
    rules = rule_set(["config.env.a == 'x' || config.flag", "config.numbers.all(x, x < 9)"])
    documents = [
        {"flag": bool(at % 2), "env": {"a": "x"} if at % 3 else {}, "numbers": [at]} for at in range(200)
    ]
    single = [
        rules.failures(document) if document["flag"] or document["env"] else None for document in documents
    ]
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(lambda d: rules.failures(d) if d["flag"] or d["env"] else None, documents))
    assert many == single


@settings(max_examples=60, deadline=None)
@given(expressions)
def test_a_stored_tree_is_the_same_tree(text: str) -> None:
    found = cel.check_expression(text, {"config": CONFIG}).node
    assert found is not None
    assert cel.from_data(json.loads(json.dumps(cel.to_data(found))), text) == found


@pytest.mark.parametrize(
    "data",
    [
        None,
        1,
        [],
        ["Nope", 0, 1],
        ["Name", 0, 1],
        ["Name", 0, 1, 5, False],
        ["Name", "0", 1, "a", False],
        ["Select", 0, 1, "a", "b", False],
        ["Literal", 0, 1, {"pickle": "x"}],
        ["Literal", 0, 1, ["Name", 0, 1, "a", False]],
        ["Logic", 0, 1, "&&", {"all": [1]}],
        ["Call", 0, 1, "f", ["Name", 0, 1, "a", False], False],
        ["Macro", 0, 1, "all", ["Name", 0, 1, "a", False], {"all": [1]}, {"all": []}],
        {"all": []},
    ],
    ids=repr,
)
def test_a_damaged_tree_is_an_error(data: Any) -> None:
    with pytest.raises(cel.Error):
        cel.from_data(data, "a")


def lines(trace: cel.Trace, depth: int = 0) -> list[str]:
    mark = "*" if trace.decides else " "
    found = [f"{mark}{' ' * depth}{trace.text}: {trace.value}"]
    return found + [line for part in trace.parts for line in lines(part, depth + 1)]


def test_a_trace_says_what_decided() -> None:
    trace = cel.compile("c.a != null && !(c.b || size(c.l) > 2)").explain(
        {"c": {"a": 1, "b": False, "l": [1, 2, 3]}}
    )
    assert lines(trace) == [
        "*c.a != null && !(c.b || size(c.l) > 2): False",
        "  c.a != null: True",
        "   c.a: 1",
        "* !(c.b || size(c.l) > 2): False",
        "*  (c.b || size(c.l) > 2): True",
        "    c.b: False",
        "*   size(c.l) > 2: True",
        "*    size(c.l): 3",
        "*     c.l: [1, 2, 3]",
    ]
    assert [(one.text, one.value) for one in trace.deciding()] == [("c.l", [1, 2, 3]), ("size(c.l)", 3)]


def test_a_trace_of_a_macro_shows_the_element_that_decided() -> None:
    trace = cel.compile("l.all(x, x > 1 && x < 9)").explain({"l": [2, 1, 5]})
    assert [(one.text, one.value) for one in trace.deciding()] == [("l", [2, 1, 5]), ("x", 1)]
    assert trace.parts[1].parts[1].value is cel.NOT_EVALUATED


def test_a_trace_of_errors_and_unknowns() -> None:
    trace = cel.compile("c.z ? c.q : c.l").explain({"c": {"z": True}})
    assert [one.text for one in trace.deciding()] == ["c.z", "c.q"]
    assert isinstance(trace.value, cel.EvaluationError)
    trace = cel.compile("u || c").explain({"u": unknown("/u"), "c": False})
    assert [(one.text, one.value) for one in trace.deciding()] == [("u", unknown("/u"))]


def test_a_trace_is_bounded() -> None:
    trace = cel.compile(" || ".join(f"(x == {at})" for at in range(900))).explain({"x": -1})

    def count(one: cel.Trace) -> int:
        return 1 + sum(map(count, one.parts))

    assert count(trace) <= 500
    assert len(trace.text) <= 200
