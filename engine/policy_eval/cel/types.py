"""The types the checker knows, and what a function looks like to checker and evaluator.

A type is a small frozen object. Values at run time are plain Python (`values.py`); types exist before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from policy_eval.record import record, value_record


@value_record
class Type:
    """A type without parts: ``int``, ``string``, ``dyn`` ... ``str(type)`` is its CEL name."""

    name: str

    def __str__(self) -> str:
        return self.name


DYN: Final = Type("dyn")
NULL: Final = Type("null_type")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
DURATION: Final = Type("google.protobuf.Duration")
TYPE: Final = Type("type")


class ListType(Type):
    """``list(elem)``."""

    __slots__ = ("elem",)
    elem: Type

    def __init__(self, elem: Type = DYN) -> None:
        Type.__init__(self, f"list({elem})")
        object.__setattr__(self, "elem", elem)


class MapType(Type):
    """``map(key, value)``: an open map, whose absent keys are errors, as CEL has it."""

    __slots__ = ("key", "value")
    key: Type
    value: Type

    def __init__(self, key: Type = DYN, value: Type = DYN) -> None:
        Type.__init__(self, f"map({key}, {value})")
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "value", value)


class OptionalType(Type):
    """``optional_type(of)``: what `.?`, `[?]` and ``optional.of`` give."""

    __slots__ = ("of",)
    of: Type

    def __init__(self, of: Type = DYN) -> None:
        Type.__init__(self, f"optional_type({of})")
        object.__setattr__(self, "of", of)


class Nullable(Type):
    """``of`` or null, as a fact of a document can be."""

    __slots__ = ("of",)
    of: Type

    def __init__(self, of: Type) -> None:
        Type.__init__(self, f"{of} or null")
        object.__setattr__(self, "of", of)


class TypeParam(Type):
    """A type parameter of an overload: the same name means the same type (``list(A)``, ``A``)."""

    __slots__ = ()


class _Missing:
    """The class of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@value_record
class Field:
    """One field of a `Record`.

    ``default`` (plain data, never changed) holds where the field is absent; `MISSING`: absent is unknown.
    ``enum``: the only strings it may be, so that a comparison with any other is a mistake to report.
    """

    type: Type
    default: Any = MISSING
    enum: tuple[str, ...] | None = None


class Record(Type):
    """A closed mapping with known fields: a field it does not list is a mistake, found by the checker.

    ``also`` are keys that a mapping of this kind may have though no expression can read them. Two records are
    the same type when their names are equal.
    """

    __slots__ = ("fields", "known")
    fields: Mapping[str, Field]
    known: frozenset[str]

    def __init__(self, name: str, fields: Mapping[str, Field], also: Iterable[str] = ()) -> None:
        Type.__init__(self, name)
        object.__setattr__(self, "fields", dict(fields))
        object.__setattr__(self, "known", frozenset(fields).union(also))


@record
class Overload:
    """One form of a function: ``name(args)``, or ``args[0].name(args[1:])`` when ``member``.

    ``name`` may be qualified (``math.greatest``). ``variadic``: the last argument may repeat. ``call`` gets
    evaluated values of exactly these types, never an error or an unknown, and raises
    `errors.EvaluationError`.
    """

    name: str
    member: bool = False
    args: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    variadic: bool = False
