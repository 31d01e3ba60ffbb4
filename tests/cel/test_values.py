"""Laws of CEL's values: equality, order, keys and arithmetic; each is checked against an independent statement."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy_eval.cel import values
from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, Duration, Optional, Timestamp, UInt

_EDGES = [0, 1, 2, 2**31, 2**53 - 1, 2**53, 2**53 + 1, INT_MAX - 1, INT_MAX]
ints = st.sampled_from([*_EDGES, *(-edge for edge in _EDGES), INT_MIN]) | st.integers(INT_MIN, INT_MAX)
uints = (st.sampled_from([*_EDGES, UINT_MAX]) | st.integers(0, UINT_MAX)).map(UInt)
doubles = st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**53, 2.0**63, 2.0**64, math.inf, math.nan]) | st.floats()
numbers = ints | uints | doubles
times = st.integers(values.TIME_MIN, values.TIME_MAX).map(Timestamp)
durations = st.integers(INT_MIN, INT_MAX).map(Duration)
texts = st.text(max_size=5)
keys = st.booleans() | st.integers(-2, 2) | st.integers(0, 2).map(UInt) | texts
scalars = st.none() | st.booleans() | numbers | texts | st.binary(max_size=5) | times | durations
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(keys, inner), max_size=3, unique_by=lambda pair: repr(pair[0])[:1]).map(dict)
        | inner.map(Optional.of)
        | st.just(NONE)
    ),
    max_leaves=8,
)


def cyclic() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, list):
        return any(map(has_nan, value))
    if isinstance(value, Optional):
        return value.has_value() and has_nan(value.value)
    return isinstance(value, float) and math.isnan(value)


# --- equality and order -------------------------------------------------------------------------------------


@given(anything)
def test_a_value_equals_itself_unless_nan_is_in_it(value: Any) -> None:
    assert values.equal(value, value) is not has_nan(value)


@given(anything, anything)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    assert values.equal(left, right) is values.equal(right, left)


@given(numbers, numbers)
def test_numbers_are_one_line(left: Any, right: Any) -> None:
    """Against exact fractions, where no double meets an integer that is none."""
    order = values.compare(left, right)
    if has_nan([left, right]):
        assert order is None
        assert values.equal(left, right) is False
        return
    if (type(left) is float) != (type(right) is float):
        left, right = float(left), float(right)
    if math.isinf(left) or math.isinf(right):
        expected = (left > right) - (left < right)
    else:
        difference = Fraction(left) - Fraction(right)
        expected = (difference > 0) - (difference < 0)
    assert order == expected
    assert values.equal(left, right) is (expected == 0)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (True, 1, False),
        (False, 0, False),
        (True, 1.0, False),
        (1, UInt(1), True),
        (1, 1.0, True),
        (UInt(1), 1.0, True),
        (2**53 + 1, 2.0**53, True),
        (2**53 + 1, 2**53, False),
        (0.0, -0.0, True),
        (math.nan, math.nan, False),
        (None, False, False),
        (None, None, True),
        ("1", 1, False),
        ("a", b"a", False),
        ([1], [1.0], True),
        ([True], [1], False),
        ([1, 2], [1], False),
        ({"a": 1}, {"a": UInt(1)}, True),
        ({"a": 1}, {"a": True}, False),
        ({1: "a"}, {UInt(1): "a"}, True),
        ({1: "a"}, {True: "a"}, False),
        ({"a": None}, {"b": None}, False),
        ([], {}, False),
        (Optional.of(1), Optional.of(1.0), True),
        (Optional.of(None), NONE, False),
        (NONE, NONE, True),
        (Timestamp(1), Timestamp(1), True),
        (Timestamp(1), Duration(1), False),
        (values.TypeValue("int"), values.TypeValue("int"), True),
    ],
)
def test_equality(left: Any, right: Any, equal: bool) -> None:
    assert values.equal(left, right) is equal
    assert values.equal(right, left) is equal


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        ("a", 1),
        ("a", b"a"),
        (None, None),
        ([1], [2]),
        ({}, {}),
        (Timestamp(0), Duration(0)),
        (NONE, NONE),
    ],
)
def test_values_without_an_order(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match="have no common order"):
        values.compare(left, right)


def test_strings_are_ordered_by_code_points() -> None:
    assert values.compare("\uffff", "\U00010000") == -1  # UTF-16 would have it the other way round


@pytest.mark.parametrize("wrap", [lambda inner: inner, Optional.of, lambda inner: {"a": inner}])
@pytest.mark.parametrize("make", [cyclic, lambda: deep(10_000)], ids=["cyclic", "deep"])
def test_values_without_end_are_errors(make: Callable[[], Any], wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(LimitExceeded, match="nested more than"):
        values.equal(wrap(make()), wrap(make()))


@pytest.mark.parametrize("value", [object(), (1,), {1}, 1j, bytearray(b"a")])
def test_foreign_values_are_errors(value: Any) -> None:
    with pytest.raises(EvaluationError, match="of a kind that CEL does not have"):
        values.equal(value, 1)
    with pytest.raises(EvaluationError, match="of a kind that CEL does not have"):
        values.equal([1, value], [1, value])
    with pytest.raises(EvaluationError, match="of a kind that CEL does not have"):
        values.type_of(value)


# --- maps and lists -----------------------------------------------------------------------------------------


@given(st.lists(keys, max_size=6))
def test_a_map_finds_exactly_the_keys_that_are_equal(given_keys: list[Any]) -> None:
    twice = any(
        values.equal(one, other) for at, one in enumerate(given_keys) for other in given_keys[at + 1 :]
    )
    pairs = [(key, at) for at, key in enumerate(given_keys)]
    if twice:
        with pytest.raises(EvaluationError, match="twice"):
            values.make_map(pairs)
        return
    made = values.make_map(pairs)
    assert len(made) == len(pairs)
    assert sorted(map(repr, values.entries(made))) == sorted(map(repr, pairs))
    for probe in [None, True, False, "", "a", *range(-3, 4), UInt(0), UInt(1), 0.0, 1.0, 1.5, math.nan, -0.0]:
        expected = [at for key, at in pairs if values.equal(key, probe)]
        assert values.lookup(made, probe, None, strict=False) == (expected[0] if expected else None)
    assert values.equal(made, values.make_map(reversed(pairs)))


@pytest.mark.parametrize("key", [None, 1.0, b"a", [1], {}, Timestamp(0), NONE])
def test_what_cannot_be_a_key(key: Any) -> None:
    with pytest.raises(EvaluationError, match="cannot be the key of a map"):
        values.make_map([(key, 1)])


def test_a_dict_of_python_keeps_booleans_and_numbers_apart() -> None:
    assert values.lookup({True: "yes"}, 1, "none") == "none"
    assert values.lookup({True: "yes"}, True, "none") == "yes"
    assert values.lookup({1: "one"}, True, "none") == "none"
    assert values.lookup({1: "one"}, UInt(1), "none") == "one"


@pytest.mark.parametrize(
    ("key", "at"), [(1, 1), (UInt(1), 1), (1.0, 1), (-1, -1), (1.5, None), (math.nan, None)]
)
def test_list_index(key: Any, at: int | None) -> None:
    assert values.list_index(key) == at


@pytest.mark.parametrize("key", [True, "1", None, [1]])
def test_what_cannot_be_an_index(key: Any) -> None:
    with pytest.raises(EvaluationError, match="a list is indexed by an int, not by"):
        values.list_index(key)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**5000], ids=["high", "low", "huge"])
def test_integers_of_python_that_are_too_large(number: int) -> None:
    for use in (
        lambda: values.list_index(number),
        lambda: values.lookup({}, number, None),
        lambda: values.make_map([(number, 1), (number, 1)]),
        lambda: values.add(number, 1 if number > 0 else -1),
    ):
        with pytest.raises(EvaluationError, match="does not fit into a signed 64-bit integer"):
            use()
    assert values.equal(number, number)
    assert not values.equal(number, 1.5)
    assert values.compare(number, 1.5) == (1 if number > 0 else -1)


# --- arithmetic ---------------------------------------------------------------------------------------------


@given(ints, ints)
def test_int_arithmetic_is_exact_or_an_error(left: int, right: int) -> None:
    exact = {
        values.add: left + right,
        values.subtract: left - right,
        values.multiply: left * right,
    }
    if right:
        exact[values.divide] = math.trunc(Fraction(left, right))
        exact[values.modulo] = left - right * math.trunc(Fraction(left, right))
    for operate, expected in exact.items():
        # As in Go and C, the remainder fails where the quotient does.
        quotient = left == INT_MIN and right == -1 and operate is values.modulo
        if INT_MIN <= expected <= INT_MAX and not quotient:
            assert operate(left, right) == expected
            assert type(operate(left, right)) is int
        else:
            with pytest.raises(EvaluationError, match="does not fit"):
                operate(left, right)


@given(uints, uints)
def test_uint_arithmetic_is_exact_or_an_error(left: UInt, right: UInt) -> None:
    one, other = int(left), int(right)
    exact = {values.add: one + other, values.subtract: one - other, values.multiply: one * other}
    if other:
        exact |= {values.divide: one // other, values.modulo: one % other}
    for operate, expected in exact.items():
        if 0 <= expected <= UINT_MAX:
            assert operate(left, right) == expected
            assert type(operate(left, right)) is UInt
        else:
            with pytest.raises(EvaluationError, match="does not fit"):
                operate(left, right)


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [
        (1.0, 0.0, math.inf),
        (-1.0, 0.0, -math.inf),
        (1.0, -0.0, -math.inf),
        (-1.0, -0.0, math.inf),
        (math.inf, 0.0, math.inf),
        (0.0, 0.0, math.nan),
        (math.nan, 0.0, math.nan),
        (1e308, 1e-308, math.inf),
    ],
)
def test_double_division_never_fails(left: float, right: float, quotient: float) -> None:
    assert str(values.divide(left, right)) == str(quotient)


@pytest.mark.parametrize("zero", [0, UInt(0)])
def test_division_by_zero(zero: Any) -> None:
    with pytest.raises(EvaluationError, match="division by zero"):
        values.divide(type(zero)(1), zero)
    with pytest.raises(EvaluationError, match="modulus by zero"):
        values.modulo(type(zero)(1), zero)


def refusal(operate: Callable[[Any, Any], Any], left: Any, right: Any) -> str:
    try:
        operate(left, right)
    except EvaluationError as error:
        return error.message
    return ""


@given(anything, anything)
def test_operators_take_what_they_take_and_refuse_the_rest(left: Any, right: Any) -> None:
    for operate in (
        values.add,
        values.subtract,
        values.multiply,
        values.divide,
        values.modulo,
        values.compare,
    ):
        told = refusal(operate, left, right)
        assert len(told) < 200
        assert not any(word in told.split() for word in ("str", "dict", "float", "NoneType"))


@given(times, durations)
def test_times_and_durations(time: Timestamp, duration: Duration) -> None:
    later = time.nanoseconds + duration.nanoseconds
    if values.TIME_MIN <= later <= values.TIME_MAX:
        assert values.add(time, duration) == values.add(duration, time) == Timestamp(later)
        assert values.subtract(Timestamp(later), time) == duration
        assert values.subtract(Timestamp(later), duration) == time
    else:
        with pytest.raises(EvaluationError, match="outside the years 1 to 9999"):
            values.add(time, duration)


def test_durations_are_bounded() -> None:
    with pytest.raises(EvaluationError, match="longer than 292 years"):
        values.add(Duration(INT_MAX), Duration(1))
    with pytest.raises(EvaluationError, match="longer than 292 years"):
        values.subtract(Timestamp(values.TIME_MAX), Timestamp(values.TIME_MIN))


@pytest.mark.parametrize("value", [-1, UINT_MAX + 1])
def test_uints_are_bounded(value: int) -> None:
    with pytest.raises(EvaluationError, match="unsigned 64-bit"):
        UInt(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [(INT_MIN, "does not fit"), (UInt(1), "not a uint"), ("a", "not a string"), (True, "not true or false")],
)
def test_what_cannot_be_negated(value: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        values.negate(value)
