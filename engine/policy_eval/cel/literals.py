"""Literal tokens to values, by the rules of the CEL language definition."""

from __future__ import annotations

import re
from typing import Any

from policy_eval.cel.errors import EvaluationError

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))"
)


def number(kind: str, text: str) -> Any:
    """The value of an INT_LIT, UINT_LIT or FLOAT_LIT token; `EvaluationError` when it is out of range."""
    if kind == "FLOAT_LIT":
        found = float(text)
        if found in (float("inf"), float("-inf")):
            raise EvaluationError(f"`{text[:20]}` does not fit into a double")
        return found
    unsigned = kind == "UINT_LIT"
    digits = text[:-1] if unsigned else text
    if len(digits) > 40:
        raise EvaluationError(f"`{text[:20]}…` does not fit into 64 bits")
    value = int(digits, 16 if "x" in digits else 10)
    if unsigned:
        if not 0 <= value < 2**64:
            raise EvaluationError(f"`{text}` is not an unsigned 64-bit integer")
        from policy_eval.cel.values import UInt

        return UInt(value)
    if not -(2**63) <= value < 2**63:
        raise EvaluationError(f"`{text}` is not a signed 64-bit integer")
    return value


def string(text: str) -> str:
    """The value of a STRING_LIT or MLSTRING_LIT token. `EvaluationError` on an escape CEL does not have."""
    raw, body = _body(text)
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body if raw or "\\" not in body else _ESCAPE.sub(_character, body)


def byte_string(text: str) -> bytes:
    """The value of a BYTES_LIT token: `\\x` and octal escapes are bytes, the rest is encoded as UTF-8."""
    raw, body = _body(text[1:])
    if raw or "\\" not in body:
        return _encode(body)
    found, last = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        found += _encode(body[last : match.start()])
        last = match.end()
        two, four, eight, octal, _ = match.groups()
        if four or eight:
            raise EvaluationError(f"`{match.group()}` is not an escape of bytes")
        if two or octal:
            found.append(int(two, 16) if two else int(octal, 8))
        else:
            found += _encode(_character(match))
    return bytes(found + _encode(body[last:]))


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EvaluationError("the text holds half a surrogate pair") from error


def _body(text: str) -> tuple[bool, str]:
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return raw, text[quotes:-quotes]


def _character(match: re.Match[str]) -> str:
    two, four, eight, octal, other = match.groups()
    if other is not None:
        if other not in _SIMPLE:
            raise EvaluationError(f"`{match.group()}` is not an escape")
        return _SIMPLE[other]
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise EvaluationError(f"`{match.group()}` is not a character")
    return chr(code)
