"""The standard library without conversions and times: sizes, parts of strings, regular expressions, types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.cel.functions.overloads import both, function, method, utf8
from policy_eval.cel.limits import DEFAULT
from policy_eval.cel.types import BOOL, BYTES, DYN, INT, STRING, TYPE, ListType, MapType, Overload
from policy_eval.cel.values import type_of

_MEMORY: Final = 2 << 20  # of one compiled pattern, in bytes; the time to compile grows with it


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern (RE2's syntax, time linear in the text) matches some part of the text."""
    utf8(text)
    return compiled(pattern).search(text) is not None


def search_steps(text: str, pattern: str) -> int:
    """What a search counts for: at worst, RE2 follows each state of the pattern through each character."""
    steps: int = len(text) * compiled(pattern).programsize // 20_000
    return steps


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The pattern, compiled. Raises `LimitExceeded` when it is too large, `EvaluationError` when it is wrong."""
    if len(pattern) > DEFAULT.regex:
        raise LimitExceeded(f"a regular expression has more than {DEFAULT.regex} characters")
    utf8(pattern)
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = _reason(error)
        if "too large" in text:
            raise LimitExceeded("a regular expression is too large") from error
        raise EvaluationError(f"the regular expression is wrong: {text}") from error


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


LIBRARY: Final[tuple[Overload, ...]] = (
    *both("size", (STRING,), INT, len),
    *both("size", (BYTES,), INT, len),
    *both("size", (ListType(),), INT, len),
    *both("size", (MapType(),), INT, len),
    method("contains", (STRING, STRING), BOOL, str.__contains__),
    method("startsWith", (STRING, STRING), BOOL, str.startswith),
    method("endsWith", (STRING, STRING), BOOL, str.endswith),
    *both("matches", (STRING, STRING), BOOL, matches),
    function("type", (DYN,), TYPE, type_of),
    function("dyn", (DYN,), DYN, lambda value: value),
)
