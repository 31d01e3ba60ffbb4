"""How types relate: which may be equal, which fits where another is wanted, what holds either, and their words."""

from __future__ import annotations

from collections.abc import Mapping

from policy_eval.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    ListType,
    MapType,
    Nullable,
    OptionalType,
    Overload,
    Record,
    Type,
    TypeParam,
)

NUMBERS = (INT, UINT, DOUBLE)
_PHRASES = {
    DYN: "anything",
    NULL: "null",
    BOOL: "true or false",
    INT: "an int",
    UINT: "a uint",
    DOUBLE: "a double",
    STRING: "a string",
    BYTES: "bytes",
    TIMESTAMP: "a timestamp",
    DURATION: "a duration",
    TYPE: "a type",
}


def phrase(kind: Type) -> str:
    """A type in words: "a string", "a list of int"."""
    if isinstance(kind, ListType):
        return "a list" if kind.elem == DYN else f"a list of {kind.elem}"
    if isinstance(kind, (MapType, Record)):
        return "a map"
    if isinstance(kind, OptionalType):
        return "an optional"
    if isinstance(kind, Nullable):
        return f"{phrase(kind.of)} or null"
    return _PHRASES.get(kind, str(kind))


def plain(kind: Type) -> Type:
    """The type without its "or null"."""
    return kind.of if isinstance(kind, Nullable) else kind


def assignable(found: Type, wanted: Type) -> bool:
    """Whether a value of one type may be where another is wanted; null is left to the evaluation."""
    found = plain(found)
    return DYN in (found, wanted) or found == wanted or _shape(found, wanted)


def _shape(one: Type, other: Type) -> bool:
    """Whether two composite types could hold the same value."""
    if isinstance(one, ListType) and isinstance(other, ListType):
        return comparable(one.elem, other.elem)
    if isinstance(one, (MapType, Record)) and isinstance(other, (MapType, Record)):
        if isinstance(one, MapType) and isinstance(other, MapType):
            return comparable(one.key, other.key) and comparable(one.value, other.value)
        return True
    if isinstance(one, OptionalType) and isinstance(other, OptionalType):
        return comparable(one.of, other.of)
    return False


def comparable(one: Type, other: Type) -> bool:
    """Whether values of the two types can be equal."""
    if NULL in (one, other):
        both = (one, other)
        return one == other or DYN in both or any(isinstance(kind, Nullable) for kind in both)
    one, other = plain(one), plain(other)
    if DYN in (one, other) or one == other or isinstance(one, TypeParam) or isinstance(other, TypeParam):
        return True
    return (one in NUMBERS and other in NUMBERS) or _shape(one, other)


def join(one: Type, other: Type) -> Type:
    """The type of a value that is of either type."""
    if one == other:
        return one
    if NULL in (one, other):
        found = other if one == NULL else one
        return found if isinstance(found, Nullable) or found == DYN else Nullable(found)
    if isinstance(one, Nullable) or isinstance(other, Nullable):
        found = join(plain(one), plain(other))
        return DYN if found == DYN else Nullable(found)
    if isinstance(one, ListType) and isinstance(other, ListType):
        return ListType(join(one.elem, other.elem))
    if isinstance(one, MapType) and isinstance(other, MapType):
        return MapType(join(one.key, other.key), join(one.value, other.value))
    if isinstance(one, OptionalType) and isinstance(other, OptionalType):
        return OptionalType(join(one.of, other.of))
    return DYN


def apply(overload: Overload, args: list[Type]) -> Type | None:
    """The result type of an overload for the arguments; None when it does not take them."""
    wanted = list(overload.args)
    if overload.variadic and len(args) > len(wanted):
        wanted += wanted[-1:] * (len(args) - len(wanted))
    if len(wanted) != len(args):
        return None
    bound: dict[str, Type] = {}
    if not all(_unify(want, arg, bound) for want, arg in zip(wanted, args, strict=True)):
        return None
    return _substitute(overload.result, bound)


def _unify(wanted: Type, found: Type, bound: dict[str, Type]) -> bool:
    if isinstance(wanted, TypeParam):
        known = bound.get(wanted.name, found)
        bound[wanted.name] = join(known, found)
        return comparable(known, found)
    found = plain(found)
    if DYN in (found, wanted):
        return True
    if isinstance(wanted, ListType) and isinstance(found, ListType):
        return _unify(wanted.elem, found.elem, bound)
    if isinstance(wanted, MapType) and isinstance(found, MapType):
        return _unify(wanted.key, found.key, bound) and _unify(wanted.value, found.value, bound)
    if isinstance(wanted, OptionalType) and isinstance(found, OptionalType):
        return _unify(wanted.of, found.of, bound)
    if isinstance(wanted, MapType) and isinstance(found, Record):
        return True
    return wanted == found


def _substitute(kind: Type, bound: Mapping[str, Type]) -> Type:
    if isinstance(kind, TypeParam):
        return bound.get(kind.name, DYN)
    if isinstance(kind, ListType):
        return ListType(_substitute(kind.elem, bound))
    if isinstance(kind, MapType):
        return MapType(_substitute(kind.key, bound), _substitute(kind.value, bound))
    if isinstance(kind, OptionalType):
        return OptionalType(_substitute(kind.of, bound))
    return kind
