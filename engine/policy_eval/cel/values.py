"""CEL's values, and what its operators do with them.

Plain Python values are the values wherever that is exact: None, bool, int (64 bits, signed), float, str, bytes, list
and dict. The classes here are for the rest. All are immutable. Semantics: the CEL language definition (numbers of all
kinds are one number line for equality, order and keys; ``true`` is no number; NaN equals nothing).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.record import value_record

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
EXACT: Final = 2**53  # up to here every integer is a double
SECOND: Final = 1_000_000_000
# 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z, in nanoseconds since 1970
TIME_MIN: Final = -62_135_596_800 * SECOND
TIME_MAX: Final = 253_402_300_800 * SECOND - 1
_DEPTH: Final = 200


class UInt(int):
    """An unsigned 64-bit integer. Raises `EvaluationError` when the value is out of range."""

    __slots__ = ()

    def __new__(cls, value: int) -> UInt:
        """Check the range."""
        if not 0 <= value <= UINT_MAX:
            raise EvaluationError("the number does not fit into an unsigned 64-bit integer")
        return int.__new__(cls, value)

    def __repr__(self) -> str:
        return f"{int(self)}u"


@value_record
class Timestamp:
    """A point in time, in nanoseconds since 1970-01-01T00:00:00Z, of the years 1 to 9999.

    Raises `EvaluationError` when it is out of range.
    """

    nanoseconds: int

    def __post_init__(self) -> None:
        if not TIME_MIN <= self.nanoseconds <= TIME_MAX:
            raise EvaluationError("the timestamp is outside the years 1 to 9999")

    def __str__(self) -> str:
        from policy_eval.cel.functions.times import timestamp_text

        return timestamp_text(self)


@value_record
class Duration:
    """A span of time in nanoseconds, 64 bits, as cel-go has it (about 292 years).

    Raises `EvaluationError` when it is out of range.
    """

    nanoseconds: int

    def __post_init__(self) -> None:
        if not INT_MIN <= self.nanoseconds <= INT_MAX:
            raise EvaluationError("the duration is longer than 292 years")

    def __str__(self) -> str:
        from policy_eval.cel.functions.times import duration_text

        return duration_text(self)


@value_record
class TypeValue:
    """A type as a value: what ``type(x)`` gives, and ``int``."""

    name: str

    def __str__(self) -> str:
        return self.name


class _Nothing:
    """The class of what an empty optional holds."""

    __slots__ = ()


_NOTHING: Final = _Nothing()


@value_record
class Optional:
    """``optional.of(value)``, or `NONE`. ``value`` must only be read where ``has_value()``."""

    value: Any = _NOTHING

    @classmethod
    def of(cls, value: Any) -> Optional:
        """An optional that holds a value."""
        return cls(value)

    def has_value(self) -> bool:
        """Whether it holds a value."""
        return self.value is not _NOTHING


NONE: Final = Optional()


@value_record
class Unknown:
    """A value nobody knows. ``pointers`` (JSON Pointers) are the facts that it depends on."""

    pointers: frozenset[str]


class BoolKey:
    """A boolean as the key of a dict that also has the number that Python takes for the same key.

    Only the maps that expressions build (`make_map`) have such keys, and only where they need them.
    """

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        if type(other) is BoolKey:
            return other.value is self.value
        return other is self.value if type(other) is bool else NotImplemented

    def __repr__(self) -> str:
        return repr(self.value)


PHRASES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "an int",
    UInt: "a uint",
    float: "a double",
    str: "a string",
    bytes: "bytes",
    list: "a list",
    dict: "a map",
    Timestamp: "a timestamp",
    Duration: "a duration",
    TypeValue: "a type",
    Optional: "an optional",
}
_TYPES: Final[dict[type, TypeValue]] = {
    type(None): TypeValue("null_type"),
    bool: TypeValue("bool"),
    int: TypeValue("int"),
    UInt: TypeValue("uint"),
    float: TypeValue("double"),
    str: TypeValue("string"),
    bytes: TypeValue("bytes"),
    list: TypeValue("list"),
    dict: TypeValue("map"),
    Timestamp: TypeValue("google.protobuf.Timestamp"),
    Duration: TypeValue("google.protobuf.Duration"),
    TypeValue: TypeValue("type"),
    Optional: TypeValue("optional_type"),
}
_NUMBERS: Final = frozenset({int, float, UInt})
_SCALARS: Final = frozenset({type(None), bool, int, UInt, float, str, bytes, Timestamp, Duration, TypeValue})
_ORDERED: Final = frozenset({bool, str, bytes})


def describe(value: object) -> str:
    """What a value is, for a message: "a string", "a list"."""
    return PHRASES.get(type(value), "something that CEL does not have")


def type_of(value: Any) -> TypeValue:
    """The type of a value. Raises `EvaluationError` for what CEL has no type for."""
    found = _TYPES.get(type(value))
    if found is None:
        raise EvaluationError("a value is of a kind that CEL does not have")
    return found


def signed(value: int) -> int:
    """The int, if it has 64 bits, as those of CEL do. Raises `EvaluationError` when it has more."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("the number does not fit into a signed 64-bit integer")


def too_deep() -> LimitExceeded:
    """The error for a value that is nested too deep, as one that contains itself is."""
    return LimitExceeded(f"a value is nested more than {_DEPTH} deep, or contains itself")


# --- equality and order -------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """``left == right``: false, never an error, for values of different kinds.

    Raises `LimitExceeded` for values more than 200 deep, `EvaluationError` for those that CEL does not have.
    """
    one, other = type(left), type(right)
    if one in _SCALARS and other in _SCALARS:
        if one is other:
            return bool(left == right)
        return one in _NUMBERS and other in _NUMBERS and _same_number(left, right)
    return _equal(left, right, 0)


def _same_number(left: Any, right: Any) -> bool:
    """Whether numbers of two kinds are equal: next to a double, the other one is a double too (cel-go, cel-cpp)."""
    if left == right:
        return True
    if type(left) is float:
        left, right = right, left
    return type(right) is float and abs(left) > EXACT and _as_double(left) == right


def _as_double(value: int) -> Any:
    # Larger integers are no values of CEL; they are compared exactly, as Python's doubles may not hold them.
    return float(value) if INT_MIN <= value <= UINT_MAX else value


def _equal(left: Any, right: Any, depth: int) -> bool:
    one, other = type(left), type(right)
    if one in _SCALARS and other in _SCALARS:
        if one is other:
            return bool(left == right)
        return one in _NUMBERS and other in _NUMBERS and _same_number(left, right)
    if one not in PHRASES or other not in PHRASES:
        raise EvaluationError("a value is of a kind that CEL does not have")
    if one is not other:
        return False
    if depth > _DEPTH:
        raise too_deep()
    depth += 1
    if one is list:
        if len(left) != len(right):
            return False
        for at, item in enumerate(left):
            other = type(item)
            if other is type(right[at]) and other in _SCALARS:
                if item != right[at]:
                    return False
            elif not _equal(item, right[at], depth):
                return False
        return True
    if one is Optional:
        if left.has_value() and right.has_value():
            return _equal(left.value, right.value, depth)
        return bool(left.has_value() == right.has_value())
    if len(left) != len(right):
        return False
    for key, value in left.items():
        found = lookup(right, key.value if type(key) is BoolKey else key, _NOTHING, strict=False)
        if found is _NOTHING or not _equal(value, found, depth):
            return False
    return True


def compare(left: Any, right: Any) -> int | None:
    """-1, 0 or 1 as ``left`` is less than, equal to or greater than ``right``; None where NaN is among them.

    Raises `EvaluationError` for values that have no common order.
    """
    one, other = type(left), type(right)
    if one in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:
            return None
        if one is float and other is not float:
            right = _as_double(right)
        elif other is float and one is not float:
            left = _as_double(left)
    elif one is not other or one not in _ORDERED:
        if one is other and one in (Timestamp, Duration):
            left, right = left.nanoseconds, right.nanoseconds
        else:
            raise EvaluationError(f"{describe(left)} and {describe(right)} have no common order")
    return int(left > right) - int(left < right)


# --- maps and lists -----------------------------------------------------------------------------------------


class _Probe:
    """A key that finds, in one step, the entry of a dict whose key is equal *in CEL*: ``1`` must not find ``True``."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if type(other) is BoolKey:
            other = other.value
        return (type(other) is bool) == (type(self.key) is bool) and bool(self.key == other)


def plain_member(left: Any, right: list[Any]) -> bool | None:
    """Whether a string or a small number is in a list, at Python's own speed; None where that cannot tell.

    Python takes true for 1, so what it finds is looked at again.
    """
    kind = type(left)
    if not (kind is str or ((kind is int or kind is float) and -EXACT < left < EXACT)):
        return None
    if left not in right:
        return False
    return True if equal(left, right[right.index(left)]) else None


def lookup(of: dict[Any, Any], key: Any, default: Any, strict: bool = True) -> Any:
    """The value of a key in a map, or ``default``. Equal numbers are the same key: 1, 1u and 1.0.

    Raises `EvaluationError` when ``strict`` and the key is of a kind that no map has.
    """
    kind = type(key)
    if kind is str:
        return of.get(key, default)
    if kind in _NUMBERS or kind is bool:
        if strict and kind is int:
            signed(key)
        if key == 0 or key == 1:
            return of.get(_Probe(key), default)
        return of.get(key, default) if key == key else default
    if strict:
        raise EvaluationError(f"{describe(key)} cannot be the key of a map")
    return default


def list_index(key: Any) -> int | None:
    """The position that ``list[key]`` means, not yet checked against the list: ``1``, ``1u`` and ``1.0`` are the same.

    None for a fraction. Raises `EvaluationError` when the key is no number.
    """
    kind = type(key)
    if kind is int:
        return signed(key)
    if kind is UInt:
        return int(key)
    if kind is float:
        return int(key) if key.is_integer() else None
    raise EvaluationError(f"a list is indexed by an int, not by {describe(key)}")


def entries(of: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The keys and values of a map."""
    return [(key.value if type(key) is BoolKey else key, value) for key, value in of.items()]


def make_map(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The map with these entries. Raises `EvaluationError` for a key twice, or a key of a kind that no map has."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        kind = type(key)
        if kind is not str and kind not in (int, bool, UInt):
            raise EvaluationError(f"{describe(key)} cannot be the key of a map")
        if kind is int:
            signed(key)
        if key not in found:
            found[key] = value
        elif kind is str or lookup(found, key, _NOTHING) is not _NOTHING:
            text = repr(key) if kind is not str or len(key) <= 60 else repr(key[:60]) + "…"
            raise EvaluationError(f"the map has the key `{text}` twice")
        elif kind is bool:
            found[BoolKey(key)] = value
        else:
            found[BoolKey(bool(key))] = found.pop(bool(key))
            found[key] = value
    return found


# --- arithmetic ---------------------------------------------------------------------------------------------


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("the result does not fit into a signed 64-bit integer")


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return int.__new__(UInt, value)
    raise EvaluationError("the result does not fit into an unsigned 64-bit integer")


def _mismatch(op: str, left: Any, right: Any) -> EvaluationError:
    return EvaluationError(f"`{op}` does not take {describe(left)} and {describe(right)}")


def negate(of: Any) -> Any:
    """``-of``."""
    if type(of) is int:
        return _int(-of)
    if type(of) is float:
        return -of
    raise EvaluationError(f"`-` needs a number that can be negative, not {describe(of)}")


def add(left: Any, right: Any) -> Any:
    """``left + right``: numbers of one kind, texts, bytes, lists, times and durations."""
    one, other = type(left), type(right)
    if one is other:
        if one is int:
            return _int(left + right)
        if one is float or one is str or one is bytes or one is list:
            return left + right
        if one is UInt:
            return _uint(int(left) + int(right))
        if one is Duration:
            return Duration(left.nanoseconds + right.nanoseconds)
    if (one is Timestamp and other is Duration) or (one is Duration and other is Timestamp):
        return Timestamp(left.nanoseconds + right.nanoseconds)
    raise _mismatch("+", left, right)


def subtract(left: Any, right: Any) -> Any:
    """``left - right``: numbers of one kind, times and durations."""
    one, other = type(left), type(right)
    if one is other:
        if one is int:
            return _int(left - right)
        if one is float:
            return left - right
        if one is UInt:
            return _uint(int(left) - int(right))
        if one is Duration or one is Timestamp:
            return Duration(left.nanoseconds - right.nanoseconds)
    if one is Timestamp and other is Duration:
        return Timestamp(left.nanoseconds - right.nanoseconds)
    raise _mismatch("-", left, right)


def multiply(left: Any, right: Any) -> Any:
    """``left * right``: numbers of one kind."""
    one = type(left)
    if one is type(right):
        if one is int:
            return _int(left * right)
        if one is float:
            return left * right
        if one is UInt:
            return _uint(int(left) * int(right))
    raise _mismatch("*", left, right)


def divide(left: Any, right: Any) -> Any:
    """``left / right``: numbers of one kind; integers towards zero, doubles to infinity or NaN over zero."""
    one = type(left)
    if one is not type(right) or one not in _NUMBERS:
        raise _mismatch("/", left, right)
    if one is float:
        return _float_divide(left, right)
    if not right:
        raise EvaluationError("division by zero")
    if one is UInt:
        return _uint(int(left) // int(right))
    found = abs(left) // abs(right)
    return _int(found if (left < 0) == (right < 0) else -found)


def _float_divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left != left or not left:
        return float("nan")
    negative = (left < 0) != (str(right)[0] == "-")
    return float("-inf") if negative else float("inf")


def modulo(left: Any, right: Any) -> Any:
    """``left % right``: integers of one kind, with the sign of ``left``."""
    one = type(left)
    if one is not type(right) or one not in (int, UInt):
        raise _mismatch("%", left, right)
    if not right:
        raise EvaluationError("modulus by zero")
    if one is UInt:
        return _uint(int(left) % int(right))
    if left == INT_MIN and right == -1:
        raise EvaluationError("the result does not fit into a signed 64-bit integer")
    found = abs(left) % abs(right)
    return -found if left < 0 else found
