"""``"%s is %d".format([...])`` of the strings extension. Semantics: cel-go's ``ext/formatting``."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.conversions import bool_text, double_of_int, double_text, int_text
from policy_eval.cel.functions.overloads import bounded, from_utf8, method, utf8
from policy_eval.cel.types import STRING, ListType, Overload
from policy_eval.cel.values import Duration, Timestamp, TypeValue, UInt, describe, entries, too_deep

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]+))?([\s\S])?)")
_PRECISION: Final = 100
_DEPTH: Final = 100


def format_text(text: str, args: list[Any]) -> str:
    """The text with its clauses (``%s %d %f %e %b %o %x %X``, ``%.3f``) replaced by the arguments, in order."""
    found: list[str] = []
    size = last = used = 0
    for match in _CLAUSE.finditer(text):
        found.append(text[last : match.start()])
        last = match.end()
        if match[1]:
            found.append("%")
        else:
            if used >= len(args):
                raise EvaluationError(f"the format has more clauses than the {len(args)} arguments")
            found.append(_clause(match[3], match[2], args[used]))
            used += 1
        size += len(found[-1]) + len(found[-2])
        bounded(size)
    found.append(text[last:])
    bounded(size + len(found[-1]))
    return "".join(found)


def _clause(verb: str | None, precision: str | None, value: Any) -> str:
    if verb is None:
        raise EvaluationError("the format ends in an unfinished `%`")
    if verb in ("f", "e"):
        return _fixed(verb, precision, value)
    if verb not in _VERBS:
        raise EvaluationError(f"`%{verb}` is not a clause of a format")
    if precision is not None and verb != "s" and verb != "d":
        raise EvaluationError(f"`%{verb}` takes no precision")
    if verb == "s":
        return _plain(value, 0)
    if verb == "d":
        return _decimal(value)
    return _based(verb, value)


_VERBS: Final = frozenset("sdboxX")


def _refuse(verb: str, value: Any) -> EvaluationError:
    return EvaluationError(f"`%{verb}` does not take {describe(value)}")


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None


def _fixed(verb: str, precision: str | None, value: Any) -> str:
    if type(value) not in (float, int, UInt):
        raise _refuse(verb, value)
    digits = 6 if precision is None else int(precision[:4])
    if digits > _PRECISION:
        raise EvaluationError(f"a precision is {_PRECISION} at most")
    number = value if type(value) is float else double_of_int(value)
    return _special(number) or format(number, f".{digits}{verb}")


def _decimal(value: Any) -> str:
    if type(value) in (int, UInt):
        return int_text(value)
    if type(value) is not float:
        raise _refuse("d", value)
    return _special(value) or _digits(value)


def _digits(value: float) -> str:
    from decimal import Decimal

    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _based(verb: str, value: Any) -> str:
    kind = type(value)
    if kind in (int, UInt) or (verb == "b" and kind is bool):
        number = int(value)
        return ("-" if number < 0 else "") + format(abs(number), verb)
    if verb in ("x", "X") and kind in (str, bytes):
        text = (utf8(value) if kind is str else value).hex()
        return text.upper() if verb == "X" else text
    raise _refuse(verb, value)


def _plain(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind in (list, dict):
        if depth >= _DEPTH:
            raise too_deep()
        return _list(value, depth + 1) if kind is list else _map(value, depth + 1)
    if kind is float:
        return _special(value) or double_text(value)
    if value is None:
        return "null"
    if kind is bool:
        return bool_text(value)
    if kind in (int, UInt):
        return int_text(value)
    if kind is bytes:
        return from_utf8(value)
    if kind in (Timestamp, Duration, TypeValue):
        return str(value)
    raise _refuse("s", value)


def _list(value: list[Any], depth: int) -> str:
    size, parts = 0, []
    for item in value:
        parts.append(_plain(item, depth))
        size += len(parts[-1]) + 2
        bounded(size)
    return f"[{', '.join(parts)}]"


def _map(value: dict[Any, Any], depth: int) -> str:
    size, parts = 0, []
    for key, item in entries(value):
        parts.append((_plain(key, depth), _plain(item, depth)))
        size += len(parts[-1][0]) + len(parts[-1][1]) + 4
        bounded(size)
    return "{" + ", ".join(f"{key}: {item}" for key, item in sorted(parts)) + "}"


LIBRARY: Final[tuple[Overload, ...]] = (method("format", (STRING, ListType()), STRING, format_text),)
