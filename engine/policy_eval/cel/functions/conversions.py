"""Conversions between the types: ``int(x)``, ``double(x)``, ``string(x)`` ... What does not fit is an error."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import from_utf8, function, utf8
from policy_eval.cel.functions.times import (
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from policy_eval.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Overload,
)
from policy_eval.cel.values import INT_MIN, SECOND, UINT_MAX, Timestamp, UInt, signed

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_LONGEST: Final = 1_000  # characters of a number; keeps Python's slow conversions of long digits out
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _show(text: str) -> str:
    return f"`{text[:40]}…`" if len(text) > 40 else f"`{text}`"


def _same(value: Any) -> Any:
    return value


def to_int(value: int) -> int:
    """An int of any kind as a signed one, or an error."""
    return signed(int(value))


def int_of_double(value: float) -> int:
    """Towards zero. As the specification has it, the two bounds themselves are out of range."""
    if INT_MIN < value < 2.0**63:
        return int(value)
    raise EvaluationError("the number does not fit into a signed 64-bit integer")


def int_of_string(text: str) -> int:
    """Decimal digits with a sign or without."""
    if len(text) > _LONGEST or not _INTEGER.fullmatch(text):
        raise EvaluationError(f"{_show(text)} is not an integer")
    return to_int(int(text))


def uint_of_int(value: int) -> UInt:
    """An int that is not negative."""
    return UInt(value)


def uint_of_double(value: float) -> UInt:
    """Towards zero."""
    if math.isfinite(value) and 0 <= value <= UINT_MAX:
        return UInt(int(value))
    raise EvaluationError("the number does not fit into an unsigned 64-bit integer")


def uint_of_string(text: str) -> UInt:
    """Decimal digits."""
    if len(text) > _LONGEST or not _UNSIGNED.fullmatch(text):
        raise EvaluationError(f"{_show(text)} is not an unsigned integer")
    return UInt(int(text))


def double_of_int(value: int) -> float:
    """The nearest double."""
    return float(to_int(value) if type(value) is int else value)


def double_of_string(text: str) -> float:
    """A decimal number, ``inf``, ``infinity`` or ``nan``."""
    if len(text) <= _LONGEST:
        if _DOUBLE.fullmatch(text):
            found = float(text)
            if math.isinf(found):
                raise EvaluationError(f"{_show(text)} does not fit into a double")
            return found
        if _SPECIAL.fullmatch(text):
            return float(text)
    raise EvaluationError(f"{_show(text)} is not a number")


def int_text(value: int) -> str:
    """Decimal digits."""
    return str(int(value) if type(value) is UInt else to_int(value))


def double_text(value: float) -> str:
    """The shortest text that gives the same double, as cel-go writes it: ``1.5``, ``1e+06``, ``NaN``, ``+Inf``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, power = _digits(repr(abs(value)))
    exponent = power - 1
    if digits == "0":
        return sign + "0"
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if power <= 0:
        return f"{sign}0.{'0' * -power}{digits}"
    if len(digits) <= power:
        return sign + digits.ljust(power, "0")
    return f"{sign}{digits[:power]}.{digits[power:]}"


def _digits(text: str) -> tuple[str, int]:
    """The significant digits of a positive number as Python writes it, and the place of the point among them."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = len(digits) - len(fraction) + int(exponent or 0)
    return digits.rstrip("0") or "0", power


def bool_of_string(text: str) -> bool:
    """``true``, ``t``, ``1``, ``false``, ``f``, ``0``, also in capitals."""
    found = _BOOLEANS.get(text)
    if found is None:
        raise EvaluationError(f"{_show(text)} is neither `true` nor `false`")
    return found


def bool_text(value: bool) -> str:
    """``true`` or ``false``."""
    return "true" if value else "false"


def timestamp_of_int(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return Timestamp(seconds * SECOND)


def int_of_timestamp(value: Timestamp) -> int:
    """Whole seconds since 1970."""
    return value.nanoseconds // SECOND


LIBRARY: Final[tuple[Overload, ...]] = (
    function("int", (INT,), INT, to_int),
    function("int", (UINT,), INT, to_int),
    function("int", (DOUBLE,), INT, int_of_double),
    function("int", (STRING,), INT, int_of_string),
    function("int", (TIMESTAMP,), INT, int_of_timestamp),
    function("uint", (UINT,), UINT, _same),
    function("uint", (INT,), UINT, uint_of_int),
    function("uint", (DOUBLE,), UINT, uint_of_double),
    function("uint", (STRING,), UINT, uint_of_string),
    function("double", (DOUBLE,), DOUBLE, _same),
    function("double", (INT,), DOUBLE, double_of_int),
    function("double", (UINT,), DOUBLE, double_of_int),
    function("double", (STRING,), DOUBLE, double_of_string),
    function("string", (STRING,), STRING, _same),
    function("string", (INT,), STRING, int_text),
    function("string", (UINT,), STRING, int_text),
    function("string", (DOUBLE,), STRING, double_text),
    function("string", (BOOL,), STRING, bool_text),
    function("string", (BYTES,), STRING, from_utf8),
    function("string", (TIMESTAMP,), STRING, timestamp_text),
    function("string", (DURATION,), STRING, duration_text),
    function("bytes", (BYTES,), BYTES, _same),
    function("bytes", (STRING,), BYTES, utf8),
    function("bool", (BOOL,), BOOL, _same),
    function("bool", (STRING,), BOOL, bool_of_string),
    function("timestamp", (TIMESTAMP,), TIMESTAMP, _same),
    function("timestamp", (STRING,), TIMESTAMP, parse_timestamp),
    function("timestamp", (INT,), TIMESTAMP, timestamp_of_int),
    function("duration", (DURATION,), DURATION, _same),
    function("duration", (STRING,), DURATION, parse_duration),
)
