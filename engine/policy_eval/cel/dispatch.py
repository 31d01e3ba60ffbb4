"""From a function's name and the kinds of its arguments to the overload that takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions import by_name
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
    Type,
    TypeParam,
)
from policy_eval.cel.values import PHRASES, Duration, Optional, Timestamp, TypeValue, UInt, describe, signed

_CLASSES: dict[Type, type] = {
    NULL: type(None),
    BOOL: bool,
    INT: int,
    UINT: UInt,
    DOUBLE: float,
    STRING: str,
    BYTES: bytes,
    TIMESTAMP: Timestamp,
    DURATION: Duration,
    TYPE: TypeValue,
}


def call(function: str, member: bool, args: list[Any]) -> Any:
    """The value of a function. Raises `EvaluationError` when no overload takes the arguments, or its own."""
    for arg in args:
        if type(arg) is int:
            signed(arg)
    found = _find(function, member, tuple(map(type, args)))
    if found is None:
        raise EvaluationError(_mismatch(function, member, args))
    return found(*args)


@lru_cache(maxsize=4096)
def _find(function: str, member: bool, kinds: tuple[type, ...]) -> Callable[..., Any] | None:
    if not all(kind in PHRASES for kind in kinds):
        return None
    for overload in by_name().get(function, ()):
        if overload.member == member and _takes(overload, kinds):
            found: Callable[..., Any] = overload.call
            return found
    return None


def _takes(overload: Overload, kinds: tuple[type, ...]) -> bool:
    wanted = list(overload.args)
    if overload.variadic and len(kinds) > len(wanted):
        wanted += wanted[-1:] * (len(kinds) - len(wanted))
    return len(wanted) == len(kinds) and all(map(_accepts, wanted, kinds))


def _accepts(wanted: Type, kind: type) -> bool:
    if wanted == DYN or type(wanted) is TypeParam:
        return True
    if type(wanted) is ListType:
        return kind is list
    if type(wanted) is MapType:
        return kind is dict
    if type(wanted) is OptionalType:
        return kind is Optional
    if type(wanted) is Nullable:
        return kind is type(None) or _accepts(wanted.of, kind)
    return _CLASSES[wanted] is kind


def _mismatch(function: str, member: bool, args: list[Any]) -> str:
    if function not in by_name():
        return f"there is no function `{function}`"
    if member:
        given = ", ".join(map(describe, args[1:]))
        return f"`.{function}({given})` does not exist for {describe(args[0])}"
    return f"`{function}` does not take ({', '.join(map(describe, args))})"
