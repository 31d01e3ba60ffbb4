"""Sums in shell scripts: `$((GPUS / 2))` with whole numbers and known variables."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(\d{1,15})|\$?\{?([A-Za-z_]\w*)\}?|([-+*/%()]))")
_WHOLE = re.compile(r"[+-]?\d{1,15}\Z")
_MAX_TOKENS = 100
_LIMIT = 2**63


def arithmetic(text: str, lookup: Callable[[str], str | None]) -> int | None:
    """What a sum of whole numbers comes to, as bash counts; None where it is anything else.

    ``lookup`` gives a variable's text, None where it is not known.
    """
    tokens: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found or len(tokens) >= _MAX_TOKENS:
            return None
        number, name, operator = found.groups()
        if name:
            number = lookup(name) or ""
            if not _WHOLE.match(number) or re.match(r"[+-]?0\d", number):
                return None
        elif number and re.match(r"0\d", number):
            return None
        tokens.append(number or operator)
        at = found.end()
    try:
        value, rest = _sum(tokens)
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return value if not rest and abs(value) < _LIMIT else None


def _sum(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in ("+", "-"):
        other, rest = _product(tokens[1:])
        value, tokens = (value + other if tokens[0] == "+" else value - other), rest
    return value, tokens


def _product(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _factor(tokens)
    while tokens and tokens[0] in ("*", "/", "%"):
        other, rest = _factor(tokens[1:])
        if tokens[0] == "*":
            value *= other
        else:
            # Towards zero, as C divides.
            whole = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
            value = whole if tokens[0] == "/" else value - whole * other
        tokens = rest
    return value, tokens


def _factor(tokens: list[str]) -> tuple[int, list[str]]:
    if tokens[0] in ("-", "+"):
        value, rest = _factor(tokens[1:])
        return (-value if tokens[0] == "-" else value), rest
    if tokens[0] == "(":
        value, rest = _sum(tokens[1:])
        if rest[0] != ")":
            raise ValueError
        return value, rest[1:]
    return int(tokens[0]), tokens[1:]
