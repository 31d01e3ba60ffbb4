"""The standard functions: conversions there and back, regular expressions, and that no arguments crash any function."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_eval import cel
from policy_eval.cel.dispatch import call
from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions import by_name
from policy_eval.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    ListType,
    OptionalType,
    Type,
)
from policy_eval.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
)

ints = st.sampled_from([INT_MIN, INT_MAX, 2**53 + 1, 63, 64]) | st.integers(INT_MIN, INT_MAX)
texts = st.text(max_size=8) | st.sampled_from(
    [
        "\ud800",
        "9" * 400,
        "%s %d %f %e %x %b",
        "%.99f",
        "%.",
        "(",
        "(?P<n>a)",
        "1h",
        "Local",
        "+23:59",
        "aGk=",
    ]
)


def refused(function: str, *args: Any) -> str:
    with pytest.raises(EvaluationError) as caught:
        call(function, False, list(args))
    return caught.value.message


# --- conversions --------------------------------------------------------------------------------------------


@given(ints, st.integers(0, UINT_MAX).map(UInt), st.floats(), st.text(), st.booleans())
def test_text_and_back(number: int, unsigned: UInt, double: float, text: str, truth: bool) -> None:
    for kind, value in (("int", number), ("uint", unsigned), ("double", double), ("bool", truth)):
        back = call(kind, False, [call("string", False, [value])])
        assert type(back) is type(value)
        assert back == value or (value != value and back != back)
    assert math.copysign(1, call("double", False, [call("string", False, [double])])) == math.copysign(
        1, double
    ) or math.isnan(double)
    assert call("string", False, [call("bytes", False, [text])]) == text


@given(st.floats(), st.sampled_from(["int", "uint"]))
def test_doubles_lose_their_fraction_or_are_refused(double: float, kind: str) -> None:
    low, high = (INT_MIN, INT_MAX) if kind == "int" else (-1, UINT_MAX)
    # As the specification has it, an int is never made of its own lower bound; nor is a uint of less than 0.
    if math.isfinite(double) and low < double <= high and not (kind == "uint" and double < 0):
        assert call(kind, False, [double]) == math.trunc(double)
    else:
        assert "does not fit" in refused(kind, double)


@pytest.mark.parametrize(
    ("double", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123.456, "123.456"),
        (-1e100, "-1e+100"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_doubles_as_text(double: float, text: str) -> None:
    assert call("string", False, [double]) == text


@pytest.mark.parametrize(
    ("function", "text"),
    [
        *(
            ("int", text)
            for text in ("", " 1", "1 ", "1.0", "0x1", "1_000", "٣", "--1", "9223372036854775808")
        ),
        *(("uint", text) for text in ("-1", "+1", "1u", "18446744073709551616", "9" * 5000)),
        *(
            ("double", text)
            for text in ("", ".", "1e", "1_0.0", "0x1p3", "٣", "infin", "1e999", "1 ", "9" * 5000)
        ),
        *(("bool", text) for text in ("", "yes", "tRUE", "2", " true")),
    ],
)
def test_texts_that_do_not_convert(function: str, text: str) -> None:
    assert len(refused(function, text)) < 120


def test_text_that_is_no_unicode() -> None:
    assert "half a surrogate pair" in refused("bytes", "\ud800")
    assert "not valid UTF-8" in refused("string", b"\xff")
    assert "half a surrogate pair" in refused("matches", "\ud800", "a")
    assert "half a surrogate pair" in refused("matches", "a", "\ud800")


def test_sizes_count_characters_and_bytes() -> None:
    assert call("size", False, ["é𝒳\x00"]) == 3
    assert call("size", False, ["é𝒳\x00".encode()]) == 7
    assert refused("size", None) == "`size` does not take (null)"


# --- regular expressions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("abc", "b", True),
        ("abc", "^b", False),
        ("abc", "^a.c$", True),
        ("a\nc", "a.c", False),
        ("a\nc", "(?s)a.c", True),
        ("ABC", "(?i)abc", True),
        ("", "", True),
        ("é", "^.$", True),
        ("𝒳", r"^\pL$", True),
        ("a\x00b", "a\x00b", True),
        ("a\x00b", "b$", True),
        ("abc\n", "abc$", False),
    ],
)
def test_matches(text: str, pattern: str, found: bool) -> None:
    assert call("matches", True, [text, pattern]) is found
    assert call("matches", False, [text, pattern]) is found


@pytest.mark.parametrize("pattern", ["(", "*", "a{2,1}", "[z-a]", "(?<!a)b", r"(a)\1", "a{1001}"])
def test_patterns_that_are_wrong_are_found_in_the_text_of_the_expression(pattern: str) -> None:
    assert "the regular expression is wrong" in refused("matches", "", pattern)
    text = f"x.matches(r'''{pattern}''')"
    checked = cel.check_expression(text, {"x": cel.STRING})
    assert len(checked.errors) == 1
    error = checked.errors[0]
    assert error.kind == "check"
    assert text[error.start : error.end] == f"r'''{pattern}'''"


def test_patterns_are_bounded() -> None:
    assert "has more than" in refused("matches", "", "a" * 5000)
    assert (
        refused("matches", "", r"(?i)" + "|".join([r"\pL{300}"] * 100)) == "a regular expression is too large"
    )


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    (r"s.matches(r'\w{1000}')", {"s": "ab" * 500_000}),
    (r"lists.range(90000).all(i, (s + string(i)).matches('^[^x]{900}|.'))", {"s": "ab" * 400}),
    (r"lists.range(90000).all(i, ('a' + string(i)).matches('(a?){1000}|' + string(i)))", {}),
    (r"lists.range(90000).all(i, !s.matches(r'\pL{20}|' + string(i)))", {"s": "ab"}),
]


@pytest.mark.parametrize(("text", "bindings"), HOSTILE)
def test_searches_are_paid_for(text: str, bindings: dict[str, Any]) -> None:
    start = time.perf_counter()
    with pytest.raises(cel.Error) as caught:
        cel.compile(text).evaluate(bindings)
    assert caught.value.kind == "limit"
    rules = cel.RuleSet(roots=dict.fromkeys(bindings, cel.DYN), rules=[cel.compile(text).node])
    with pytest.raises(cel.Undecided):
        rules.first(*bindings.values())
    assert time.perf_counter() - start < 30


# --- all functions ------------------------------------------------------------------------------------------

_KINDS: dict[Type, st.SearchStrategy[Any]] = {
    INT: ints,
    UINT: st.integers(0, UINT_MAX).map(UInt),
    DOUBLE: st.floats(),
    STRING: texts,
    BYTES: st.binary(max_size=5),
    BOOL: st.booleans(),
    TIMESTAMP: st.integers(TIME_MIN, TIME_MAX).map(Timestamp),
    DURATION: st.integers(INT_MIN, INT_MAX).map(Duration),
    TYPE: st.just(TypeValue("int")),
}


def cyclic() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


ANYTHING = st.recursive(
    st.none() | st.one_of(*_KINDS.values()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2) | inner.map(Optional.of)
    ),
    max_leaves=4,
) | st.sampled_from([NONE, 2**63, -(10**5000), [10**400], cyclic()])


def of_type(kind: Type) -> st.SearchStrategy[Any]:
    if isinstance(kind, ListType):
        return st.lists(of_type(kind.elem), max_size=3) | st.lists(ANYTHING, max_size=3) | st.just(cyclic())
    if isinstance(kind, OptionalType):
        return ANYTHING.map(Optional.of) | st.just(NONE)
    return _KINDS.get(kind, ANYTHING)


@pytest.mark.parametrize("name", sorted(by_name()))
@settings(max_examples=25)
@given(data=st.data())
def test_no_arguments_crash_a_function(name: str, data: st.DataObject) -> None:
    for overload in by_name()[name]:
        kinds = [ANYTHING if data.draw(st.integers(0, 9)) == 0 else of_type(kind) for kind in overload.args]
        args = [data.draw(kind) for kind in kinds]
        assert len(outcome(name, overload.member, args)) < 250


def outcome(function: str, member: bool, args: list[Any]) -> str:
    """The message when the arguments are refused."""
    try:
        call(function, member, args)
    except EvaluationError as error:
        return error.message
    return ""
