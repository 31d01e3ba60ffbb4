"""``in`` over long lists: bounded in time, and the same by both evaluators."""

from __future__ import annotations

import time
from typing import Any

import pytest

from policy_eval import cel
from policy_eval.cel import types

MANY = list(range(30_000))
LIST: list[Any] = [*range(990), True, "a", 2.5, None, [1]]


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ("'x'", False),
        ("'a'", True),
        ("-1", False),
        ("1", True),
        ("2.5", True),
        ("989.0", True),
        ("true", True),
    ],
)
def test_members_are_told_alike(left: str, found: bool) -> None:
    text = f"{left} in l"
    assert cel.compile(text).evaluate({"l": LIST}) is found
    roots = {"l": types.DYN}
    checked = cel.check_expression(text, roots, expect=types.BOOL)
    assert checked.node is not None
    try:
        assert cel.RuleSet(roots=roots, rules=[checked.node]).first(LIST) == (-1 if found else 0)
    except cel.Undecided:
        assert left == "true"


def test_true_is_not_one() -> None:
    assert cel.compile("1 in l").evaluate({"l": [True, "1"]}) is False
    assert cel.compile("true in l").evaluate({"l": [1, 1.0]}) is False
    assert cel.compile("1 in l").evaluate({"l": [True, 1]}) is True


@pytest.mark.parametrize("left", ["'x'", "-1", "1.5", "[i]", "null", "i == -1"])
def test_a_long_look_in_a_long_list_ends(left: str) -> None:
    start = time.process_time()
    try:
        assert cel.compile(f"L.all(i, !({left} in l))").evaluate({"L": MANY, "l": LIST[:990]}) is True
    except cel.Error as error:
        assert error.kind == "limit"  # noqa: PT017 (either outcome is right; a hang is not)
    assert time.process_time() - start < 20
