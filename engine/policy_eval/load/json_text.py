"""Strict JSON (RFC 8259): no duplicate keys, no NaN or Infinity, bounded depth and size, a place for each value."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.load.source import MAX_DEPTH, MAX_VALUES, Node, Source, locate_text

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD = re.compile(r"[A-Za-z_0-9.+-]+|.", re.DOTALL)
_MAX_DIGITS = 400


def load_json(text: str, file: str) -> Source:
    """Data and places of a JSON text; raises PolicyEvalError with the place of the first fault."""
    if not _fits(text):
        return Source(file, text, (root := _parse(text, file)).value, lambda: root)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_short
        )
    except (ValueError, RecursionError):
        # The standard decoder says yes or no quickly; the slow parser says where.
        root = _parse(text, file)
        return Source(file, text, root.value, lambda: root)
    return Source(file, text, value, lambda: _parse(text, file))


def _fits(text: str) -> bool:
    """Whether a text is certainly within the limits on depth and size, and free of escaped surrogates."""
    opened = text.count("[") + text.count("{")
    return opened <= MAX_DEPTH and text.count(",") + opened < MAX_VALUES and "\\u" not in text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _short(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError("too many digits")
    return int(text)


class _Fault(Exception):
    def __init__(self, at: int, end: int, message: str, advice: str | None = None) -> None:
        self.at, self.end, self.message, self.advice = at, end, message, advice


def _parse(text: str, file: str) -> Node:
    try:
        return _values(text)
    except _Fault as fault:
        where = locate_text(file, text, fault.at, max(fault.end, fault.at + 1))
        raise PolicyEvalError(Problem(message=fault.message, location=where, help=fault.advice)) from None


def _values(text: str) -> Node:
    """Parse without recursion: a stack of open containers, each with the key that waits for its value."""
    stack: list[tuple[Node, str]] = []
    count = 0
    at = _skip(text, 0)
    while True:
        count += 1
        if count > MAX_VALUES:
            raise _Fault(at, at, f"more than {MAX_VALUES:,} values", "check that this is the file you meant")
        node = _value(text, at)
        at = _skip(text, node.end)
        if node.children is not None:
            if len(stack) >= MAX_DEPTH:
                raise _Fault(node.start, node.start, f"nested deeper than {MAX_DEPTH} levels")
            closing = "]" if isinstance(node.children, list) else "}"
            if text[at : at + 1] != closing:
                key = ""
                if closing == "}":
                    key, at = _key(text, at, node)
                stack.append((node, key))
                continue
            node.end = at + 1
            at = _skip(text, at + 1)
        while stack:
            parent, key = stack[-1]
            _attach(parent, key, node)
            closing = "]" if isinstance(parent.children, list) else "}"
            char = text[at : at + 1]
            if char == ",":
                at = _skip(text, at + 1)
                if closing == "}":
                    key, at = _key(text, at, parent)
                    stack[-1] = (parent, key)
                elif text[at : at + 1] == "]":
                    raise _Fault(at, at, "expected a value after `,`, found `]`", "remove the comma")
                break
            if char != closing:
                raise _unexpected(text, at, f"`,` or `{closing}`")
            stack.pop()
            parent.end = at + 1
            at = _skip(text, at + 1)
            node = parent
        else:
            if at < len(text):
                raise _unexpected(text, at, "the end of the file")
            return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> Node:
    char = text[at : at + 1]
    if char == "{":
        node = Node({}, at, at + 1)
        node.children = {}
        return node
    if char == "[":
        node = Node([], at, at + 1)
        node.children = []
        return node
    if char == '"':
        decoded, end = _string(text, at)
        return Node(decoded, at, end, '"')
    for word, constant in (("true", True), ("false", False), ("null", None)):
        if text.startswith(word, at) and (found := _WORD.match(text, at)) and found.group() == word:
            return Node(constant, at, at + len(word))
    number = _NUMBER.match(text, at)
    word_found = _WORD.match(text, at)
    if number is None or word_found is None or word_found.end() > number.end():
        raise _unexpected(text, at, "a value")
    literal = number.group()
    if len(literal) > _MAX_DIGITS:
        raise _Fault(at, number.end(), f"a number of more than {_MAX_DIGITS} digits")
    if literal.lstrip("-").isdigit():
        return Node(int(literal), at, number.end())
    if not math.isfinite(float(literal)):
        raise _Fault(at, number.end(), f"number out of range: `{literal[:40]}`")
    return Node(float(literal), at, number.end())


def _string(text: str, at: int) -> tuple[str, int]:
    found = _STRING.match(text, at)
    if found is None:
        raise _bad_string(text, at)
    decoded = json.loads(found.group())
    try:
        decoded.encode()
    except UnicodeEncodeError:
        raise _Fault(at, found.end(), "half of a surrogate pair in a string") from None
    return decoded, found.end()


def _bad_string(text: str, at: int) -> _Fault:
    """Find the first character a string may not hold, for a text that the string pattern did not match."""
    position = at + 1
    while position < len(text):
        char = text[position]
        if char < " ":
            if char == "\n":
                return _Fault(at, position, "string is not closed", 'close it with `"` on the same line')
            shown = f"\\u{ord(char):04x}"
            return _Fault(position, position, f"control character in a string; write it as `{shown}`")
        if char == '"':
            break
        if char == "\\":
            escape = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})').match(text, position)
            if escape is None:
                return _Fault(position, position + 2, f"unknown escape `{text[position : position + 2]}`")
            position = escape.end()
            continue
        position += 1
    return _Fault(at, at + 1, "string is not closed", 'close it with `"` on the same line')


def _key(text: str, at: int, node: Node) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        fault = _unexpected(text, at, "a key in double quotes")
        if text[at : at + 1] == "}":
            fault.advice = "remove the comma before it"
        raise fault
    key, end = _string(text, at)
    if key in node.keys:
        raise _Fault(
            at, end, f"duplicate key `{key[:80]}`", "keep one of the two; parsers differ on which wins"
        )
    node.keys[key] = (at, end)
    at = _skip(text, end)
    if text[at : at + 1] != ":":
        raise _unexpected(text, at, "`:`")
    return key, _skip(text, at + 1)


def _attach(parent: Node, key: str, node: Node) -> None:
    if isinstance(parent.children, dict):
        parent.children[key] = node
        parent.value[key] = node.value
    elif isinstance(parent.children, list):
        parent.children.append(node)
        parent.value.append(node.value)


def _unexpected(text: str, at: int, expected: str) -> _Fault:
    found = _WORD.match(text, at)
    if found is None:
        return _Fault(
            len(text.rstrip()), len(text.rstrip()) + 1, f"expected {expected}, found the end of the file"
        )
    word = found.group()
    advice = None
    if word in ("NaN", "Infinity", "-Infinity"):
        advice = "JSON has no such number"
    elif word in ("True", "False", "None"):
        advice = "write `" + {"True": "true", "False": "false", "None": "null"}[word] + "`"
    elif word in ("'", "`"):
        advice = "strings take double quotes"
    shown = word[:40] if word.isprintable() else f"\\u{ord(word[0]):04x}"
    return _Fault(at, found.end(), f"expected {expected}, found `{shown}`", advice)
