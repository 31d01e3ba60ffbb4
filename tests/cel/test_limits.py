"""Hostile expressions and documents: each ends quickly, in a clean error."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_eval import cel


def cycle() -> Any:
    found: dict[str, Any] = {}
    found["self"] = found
    found["list"] = [found]
    return found


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def bomb() -> Any:
    found: Any = "x"
    for _ in range(60):
        found = [found, found]
    return found


LIMITED = [
    "1" + " + 1" * 6000,
    "a" + ".b" * 5000,
    "(" * 300 + "1" + ")" * 300,
    "[" * 300 + "]" * 300,
    "!" * 5000 + "true",
    "-" * 5000 + "x",
    "x" + "[0]" * 1000,
    "true ? 1 : " * 1000 + "2",
    "x" * 20_000,
    "f(" * 300 + ")" * 300,
    "x.map(y, " * 80 + "1" + ")" * 80,
    "{1: " * 200 + "1" + "}" * 200,
    "[" + "1, " * 15_000 + "1]",
    "[" + "1," * 8_100 + "1" + "]" + " // " + "x" * 100,
]


@pytest.mark.parametrize("text", LIMITED, ids=lambda text: text[:12])
def test_expressions_over_a_limit(text: str) -> None:
    start = time.perf_counter()
    try:
        cel.compile(text).evaluate({"x": 1, "a": 1})
    except cel.Error as error:
        assert error.kind in ("limit", "evaluation")  # noqa: PT017
    assert time.perf_counter() - start < 15


@pytest.mark.parametrize(
    "text",
    [
        "'" + "\\n" * 5000,
        '"' + "\\u0041" * 2000,
        "'''" + "\\'" * 4000,
        'b"' + "\\x41" * 3000,
        "r'" + "\\" * 5000,
        "'" * 4999,
        '"' * 9998 + "'",
        "`" * 999,
        "/" * 5000 + "\n",
        "{" * 50 + "'",
        "\x00",
        "\ud800",
        "'\ud800' == 1 +",
        "é",
        "a.`" + "b" * 100,
        "0x" + "f" * 10_000,
        "1" * 10_000,
        "1e" + "9" * 10_000,
        "." * 10_000,
        "a?" * 4000,
        "a." * 4000,
        "a,b",
        "cel.bind(1, 2, 3)",
        "cel.block(1, 2)",
        "cel.index()",
        "cel.iterVar('a', 0)",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_texts_that_are_no_expressions(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(cel.Error) as caught:
        cel.compile(text).evaluate({})
    assert caught.value.problems[0].location is not None
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("l.all(a, l.all(b, l.all(c, true)))", "limit"),
        ("l.map(a, l.map(b, l.map(c, c)))", "limit"),
        ("l.map(a, l).map(b, b.map(c, l.map(d, d)))", "limit"),
        ("l.exists_one(a, l.exists_one(b, l.exists_one(c, true)))", "limit"),
        ("l.all(a, [s, s, s, s].map(b, b + b + b + b).size() > 0)", "limit"),
        ("s + s + s + s + s + s + s + s + s + s + s + s", "limit"),
        ("l.all(a, l.all(b, s == t))", "limit"),
        ("l.all(a, l.all(b, !s.contains('zzz')))", "limit"),
        ("l.all(a, l.all(b, big == other))", "limit"),
        ("cyclic == same", "limit"),
        ("cyclic.self.self == 1 || [cyclic] == [same]", "limit"),
        ("cyclic in [same]", "limit"),
        ("deep == deeper", "limit"),
        ("[deep, 1] == [deeper, 1]", "limit"),
        ("bomb == boom", "limit"),
        ("false || l.all(a, l.all(b, l.all(c, true))) || true", "limit"),
    ],
)
def test_evaluations_over_a_limit(text: str, kind: str) -> None:
    bindings = {
        "l": list(range(100)),
        "s": "a" * 200_000 + "b",
        "t": "a" * 200_000 + "b",
        "big": [list(range(100)) for _ in range(100)],
        "other": [list(range(100)) for _ in range(100)],
        "cyclic": cycle(),
        "same": cycle(),
        "deep": deep(10_000),
        "deeper": deep(10_000),
        "bomb": bomb(),
        "boom": bomb(),
    }
    start = time.perf_counter()
    with pytest.raises(cel.Error) as caught:
        cel.compile(text).evaluate(bindings)
    assert caught.value.kind == kind
    assert time.perf_counter() - start < 20


def test_a_cyclic_document_may_be_used_where_it_ends() -> None:
    assert (
        cel.compile("has(d.self.self.self) && size(d) == 2 && 'self' in d").evaluate({"d": cycle()}) is True
    )


def test_limits_can_be_set() -> None:
    small = cel.Limits(length=20, nesting=5, nodes=8, iterations=3)
    for text, message in (
        ("'aaaaaaaaaaaaaaaaaaaaaaa'", "the expression has 25 characters, more than the limit of 20"),
        ("------1", "the expression is nested more than 5 deep"),
        ("[1,1,1,1,1,1,1,1]", "the expression has 9 parts, more than the limit of 8"),
    ):
        with pytest.raises(cel.Error) as caught:
            cel.compile(text, limits=small)
        assert (caught.value.kind, caught.value.message) == ("limit", message)
    with pytest.raises(cel.Error) as caught:
        cel.compile("l.all(x, true)", limits=small).evaluate({"l": [1, 2, 3, 4]})
    assert caught.value.message == "the evaluation takes more than 3 steps"
    assert cel.compile("l.all(x, true)", limits=small).evaluate({"l": [1, 2, 3]}) is True


def test_long_chains_are_not_deep() -> None:
    assert cel.compile(" && ".join(["true"] * 1500)).evaluate({}) is True
    assert cel.compile(" || ".join(["false"] * 1500)).evaluate({}) is False


def test_nothing_of_the_interpreter_changes_and_little_is_imported() -> None:
    code = """
import sys
before = sys.getrecursionlimit()
from policy_eval import cel
heavy = {"lark", "celpy", "re2", "numpy", "torch", "yaml", "jsonschema"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert cel.compile("1 + 1 == 2").evaluate({}) is True
assert sys.getrecursionlimit() == before
assert "celpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="abx.?:[](){}'\"\\`!&|=<>+-*/%,01u \n", max_size=40))
def test_any_text_compiles_or_is_an_error(text: str) -> None:
    try:
        program = cel.compile(text)
    except cel.Error as error:
        assert error.kind in ("syntax", "limit")  # noqa: PT017
        return
    try:
        program.evaluate({"a": 1, "b": [1], "x": {"a": True}})
    except cel.Error as error:
        assert error.kind in ("evaluation", "limit")  # noqa: PT017
