"""The math extension: ``math.greatest``, ``math.round``, ``math.bitAnd`` ... Semantics: cel-go's ``ext/math``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import function
from policy_eval.cel.types import BOOL, DOUBLE, DYN, INT, UINT, ListType, Overload, Type
from policy_eval.cel.values import INT_MAX, UINT_MAX, UInt, compare, describe, negate

_NUMBERS: Final = frozenset({int, UInt, float})


def _extreme(name: str, wanted: int) -> Callable[..., Any]:
    def of_list(values: list[Any]) -> Any:
        if not values:
            raise EvaluationError(f"`{name}` needs at least one number")
        for value in values:
            if type(value) not in _NUMBERS:
                raise EvaluationError(f"`{name}` needs numbers, not {describe(value)}")
        found = values[0]
        for value in values[1:]:
            if found != found:
                break
            if value != value or compare(value, found) == wanted:
                found = value
        return found

    return of_list


def _spread(of_list: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: of_list(list(values))


def _whole(round_: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding of Python as one of doubles: NaN, infinities and the sign of zero stay."""

    def call(value: float) -> float:
        return math.copysign(float(round_(value)), value) if math.isfinite(value) else value

    return call


def _round(value: float) -> int:
    """To the nearest, halves away from zero."""
    whole = math.trunc(value)
    return whole + (1 if value > 0 else -1) if abs(value - whole) >= 0.5 else whole


def _absolute(value: int) -> int:
    found: int = negate(value) if value < 0 else value
    return found


def _sign(value: float) -> float:
    return value if value != value or not value else math.copysign(1.0, value)


def _square_root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _signed(value: int) -> int:
    """The lower 64 bits as a signed integer."""
    value &= UINT_MAX
    return value - (UINT_MAX + 1) if value > INT_MAX else value


def _unsigned(value: int) -> UInt:
    return UInt(value & UINT_MAX)


def _shift(value: int, count: int, left: bool) -> int:
    if count < 0:
        raise EvaluationError(f"the shift `{count}` is negative")
    if count > 63:
        return 0
    value = int(value) & UINT_MAX  # to the right, zeros come in even where the number is negative
    return value << count if left else value >> count


def _per_kind(name: str, double: Callable[[float], Any] | None, int_: Any, uint: Any) -> list[Overload]:
    found = [function(name, (INT,), INT, int_), function(name, (UINT,), UINT, uint)]
    return found if double is None else [*found, function(name, (DOUBLE,), DOUBLE, double)]


def _bits(name: str, operate: Callable[[int, int], int]) -> list[Overload]:
    def of(kind: Type, finish: Callable[[int], int]) -> Overload:
        return function(name, (kind, kind), kind, lambda one, other: finish(operate(int(one), int(other))))

    return [of(INT, _signed), of(UINT, _unsigned)]


def _shifts(name: str, left: bool) -> list[Overload]:
    return [
        function(name, (INT, INT), INT, lambda value, count: _signed(_shift(value, count, left))),
        function(name, (UINT, INT), UINT, lambda value, count: _unsigned(_shift(value, count, left))),
    ]


_GREATEST: Final = _extreme("math.greatest", 1)
_LEAST: Final = _extreme("math.least", -1)

LIBRARY: Final[tuple[Overload, ...]] = (
    function("math.greatest", (ListType(),), DYN, _GREATEST),
    function("math.greatest", (DYN,), DYN, _spread(_GREATEST), variadic=True),
    function("math.least", (ListType(),), DYN, _LEAST),
    function("math.least", (DYN,), DYN, _spread(_LEAST), variadic=True),
    function("math.ceil", (DOUBLE,), DOUBLE, _whole(math.ceil)),
    function("math.floor", (DOUBLE,), DOUBLE, _whole(math.floor)),
    function("math.round", (DOUBLE,), DOUBLE, _whole(_round)),
    function("math.trunc", (DOUBLE,), DOUBLE, _whole(math.trunc)),
    *_per_kind("math.abs", abs, _absolute, lambda value: value),
    *_per_kind("math.sign", _sign, lambda value: (value > 0) - (value < 0), lambda value: UInt(value > 0)),
    function("math.sqrt", (DOUBLE,), DOUBLE, _square_root),
    function("math.sqrt", (INT,), DOUBLE, _square_root),
    function("math.sqrt", (UINT,), DOUBLE, _square_root),
    function("math.isNaN", (DOUBLE,), BOOL, math.isnan),
    function("math.isInf", (DOUBLE,), BOOL, math.isinf),
    function("math.isFinite", (DOUBLE,), BOOL, math.isfinite),
    *_bits("math.bitAnd", int.__and__),
    *_bits("math.bitOr", int.__or__),
    *_bits("math.bitXor", int.__xor__),
    function("math.bitNot", (INT,), INT, lambda value: _signed(~value)),
    function("math.bitNot", (UINT,), UINT, lambda value: _unsigned(~int(value))),
    *_shifts("math.bitShiftLeft", True),
    *_shifts("math.bitShiftRight", False),
)
