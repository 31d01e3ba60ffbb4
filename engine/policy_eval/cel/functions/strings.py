"""The strings extension. Positions count characters (code points). Semantics: cel-go's ``ext/strings``."""

from __future__ import annotations

import string
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import bounded, function, method
from policy_eval.cel.types import INT, STRING, ListType, Overload
from policy_eval.cel.values import describe

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
# Unicode's white space; Python's own `str.strip` also takes the separators U+001C to U+001F.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_ESCAPES: Final = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)


def _inside(text: str, *positions: int) -> None:
    for at in positions:
        if not 0 <= at <= len(text):
            raise EvaluationError(f"the index `{at}` is outside the string of {len(text)} characters")


def char_at(text: str, at: int) -> str:
    """The character at a position; the empty string just after the last one."""
    _inside(text, at)
    return text[at : at + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """Where ``part`` first begins, from ``start`` on; -1 where it does not."""
    _inside(text, start)
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    """Where ``part`` last begins, not after ``start``; -1 where it does not."""
    if start is None:
        start = len(text)
    _inside(text, start)
    head = text[: start + len(part)]
    # From behind: unlike `str.rfind`, `str.find` takes linear time for every text.
    found = head[::-1].find(part[::-1])
    return len(head) - found - len(part) if found >= 0 else -1


def lower_ascii(text: str) -> str:
    """ASCII letters in lower case, all else as it was."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """ASCII letters in upper case, all else as it was."""
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """``new`` for each ``old``, or only for the first ``limit`` ones."""
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    bounded(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts between separators, ``limit`` at most; an empty separator gives the characters."""
    if limit == 0:
        return []
    if separator:
        bounded(text.count(separator))
        return text.split(separator, limit - 1 if limit > 0 else -1)
    bounded(len(text))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    """The characters from ``start`` up to, without, ``end``."""
    if end is None:
        end = len(text)
    _inside(text, start, end)
    if start > end:
        raise EvaluationError(f"the start `{start}` is after the end `{end}`")
    return text[start:end]


def trim(text: str) -> str:
    """Without white space at both ends."""
    return text.strip(_SPACE)


def join(parts: list[Any], separator: str = "") -> str:
    """The strings of a list in one, with ``separator`` between them."""
    size = 0
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"`join` needs a list of strings; it has {describe(part)}")
        size += len(part) + len(separator)
    bounded(size)
    return separator.join(parts)


def reverse(text: str) -> str:
    """The characters from the last to the first."""
    return text[::-1]


def quote(text: str) -> str:
    """The string as a literal between double quotes."""
    return f'"{text.translate(_ESCAPES)}"'


LIBRARY: Final[tuple[Overload, ...]] = (
    method("charAt", (STRING, INT), STRING, char_at),
    method("indexOf", (STRING, STRING), INT, index_of),
    method("indexOf", (STRING, STRING, INT), INT, index_of),
    method("lastIndexOf", (STRING, STRING), INT, last_index_of),
    method("lastIndexOf", (STRING, STRING, INT), INT, last_index_of),
    method("lowerAscii", (STRING,), STRING, lower_ascii),
    method("upperAscii", (STRING,), STRING, upper_ascii),
    method("replace", (STRING, STRING, STRING), STRING, replace),
    method("replace", (STRING, STRING, STRING, INT), STRING, replace),
    method("split", (STRING, STRING), ListType(STRING), split),
    method("split", (STRING, STRING, INT), ListType(STRING), split),
    method("substring", (STRING, INT), STRING, substring),
    method("substring", (STRING, INT, INT), STRING, substring),
    method("trim", (STRING,), STRING, trim),
    method("join", (ListType(STRING),), STRING, join),
    method("join", (ListType(STRING), STRING), STRING, join),
    method("reverse", (STRING,), STRING, reverse),
    function("strings.quote", (STRING,), STRING, quote),
)
