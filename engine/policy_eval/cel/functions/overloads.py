"""Helpers to write down the forms of functions, and the bounds that all libraries keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.cel.limits import DEFAULT
from policy_eval.cel.types import Overload, Type


def function(
    name: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any], *, variadic: bool = False
) -> Overload:
    """``name(args)``."""
    return Overload(name=name, args=args, result=result, call=call, variadic=variadic)


def method(name: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """``args[0].name(args[1:])``."""
    return Overload(name=name, member=True, args=args, result=result, call=call)


def both(
    name: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any]
) -> tuple[Overload, Overload]:
    """A function that may be written either way."""
    return function(name, args, result, call), method(name, args, result, call)


def bounded(size: int) -> None:
    """Refuse to build a value of more than `limits.DEFAULT`'s ``size`` characters, bytes or elements."""
    if size > DEFAULT.size:
        raise LimitExceeded(f"a value has more than {DEFAULT.size} characters or elements")


def utf8(text: str) -> bytes:
    """The text as UTF-8. Raises `EvaluationError` for half a surrogate pair, which JSON can smuggle in."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EvaluationError("the string holds half a surrogate pair, which is not a character") from error


def from_utf8(data: bytes) -> str:
    """UTF-8 as text. Raises `EvaluationError` for invalid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("the bytes are not valid UTF-8") from error
