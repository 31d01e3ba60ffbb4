"""TOML: data by the standard library, places by a scan of the text it has accepted."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load.source import line_starts, locate_text, span_location
from policy_eval.normalize.item import Item

_MAX_TOML = 1024 * 1024
_MAX_DEPTH = 50
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def load_toml(text: str, file: str) -> Item:
    """The data of a TOML text with the place of each value; raises PolicyEvalError with the place of the fault."""
    if len(text) > _MAX_TOML:
        raise PolicyEvalError(
            Problem(message="a TOML file larger than 1 MiB", location=locate_text(file, text, 0))
        )
    try:
        value = tomllib.loads(text)
        plain = _plain(value, 0)
    except tomllib.TOMLDecodeError as error:
        raise PolicyEvalError(_problem(str(error), text, file)) from None
    except (RecursionError, ValueError):
        where = locate_text(file, text, 0)
        raise PolicyEvalError(Problem(message="a TOML file nested too deeply", location=where)) from None
    return Item(plain, "", TomlPlaces(text, file))


def _problem(message: str, text: str, file: str) -> Problem:
    found = _AT.search(message)
    at = len(text)
    if found and found.group(1):
        starts = line_starts(text)
        at = starts[min(int(found.group(1)), len(starts)) - 1] + int(found.group(2)) - 1
    shown = _AT.sub("", message)
    return Problem(
        message=f"invalid TOML: {shown[:1].lower()}{shown[1:]}",
        location=locate_text(file, text, min(at, len(text))),
    )


def _plain(value: Any, depth: int) -> Any:
    """Dates as text, everything else as JSON has it."""
    if depth > _MAX_DEPTH:
        raise ValueError
    if isinstance(value, dict):
        return {key: _plain(child, depth + 1) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child, depth + 1) for child in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if isinstance(value, (str, int, float)) else str(value)


class TomlPlaces:
    """Where the values of a TOML text are. The text is valid and not nested deeply."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        self._lines: list[int] = []
        self._spans: dict[str, tuple[int, int]] = {}
        self._keys: dict[str, tuple[int, int]] = {}

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place of the value (or key) at a JSON Pointer; the nearest enclosing one's where it has none.

        ``start`` and ``end`` narrow it to a part of a string that is written in one line without escapes.
        """
        if not self._lines:
            self._lines = line_starts(self._text)
            self._index()
        if key and pointer in self._keys:
            return span_location(self._file, self._text, self._lines, *self._keys[pointer], pointer)
        at = pointer
        while at and at not in self._spans:
            at = at.rpartition("/")[0]
        first, last = self._spans.get(at, (0, min(1, len(self._text))))
        raw = self._text[first:last]
        if start is not None and at == pointer and raw[:1] in ("'", '"') and "\\" not in raw:
            quote = 3 if raw.startswith(("'''", '"""')) else 1
            inner = quote + (1 if quote == 3 and raw[3:4] == "\n" else 0)
            length = max(last - first - inner - quote, 0)
            begin = min(start, length)
            stop = length if end is None else max(min(end, length), begin)
            first, last = first + inner + begin, first + inner + stop
        return span_location(self._file, self._text, self._lines, first, last, pointer)

    def _index(self) -> None:
        """Scan the text once: headers and `key = value` lines."""
        text, table = self._text, ""
        counts: dict[str, int] = {}
        at = _skip(text, 0)
        while at < len(text):
            before = at
            if text[at] == "[":
                double = text.startswith("[[", at)
                path, span, at = _key_path(text, at + 1 + double)
                table = self._table(path, span, counts, double)
                at = text.find("\n", at) if text.find("\n", at) >= 0 else len(text)
            else:
                at = self._pair(at, table)
            at = _skip(text, max(at, before + 1))

    def _table(self, path: list[str], span: tuple[int, int], counts: dict[str, int], double: bool) -> str:
        pointer = ""
        for number, part in enumerate(path):
            pointer += "/" + part
            if double and number == len(path) - 1:
                counts[pointer] = counts.get(pointer, -1) + 1
            if pointer in counts:
                pointer += f"/{counts[pointer]}"
        self._spans.setdefault(pointer, span)
        self._keys.setdefault(pointer, span)
        return pointer

    def _pair(self, at: int, pointer: str) -> int:
        """Take `key = value`; gives where it ends."""
        path, span, at = _key_path(self._text, at)
        for part in path:
            pointer += "/" + part
            self._keys.setdefault(pointer, span)
        equals = self._text.find("=", at)
        return self._value(_skip(self._text, (equals if equals >= 0 else at) + 1), pointer)

    def _value(self, at: int, pointer: str) -> int:
        text, start = self._text, at
        if string := _STRING.match(text, at):
            at = string.end()
        elif text.startswith("[", at):
            number, at = 0, _skip(text, at + 1)
            while at < len(text) and text[at] != "]":
                at = max(self._value(at, f"{pointer}/{number}"), at + 1)
                number, at = number + 1, _skip(text, at)
                at = _skip(text, at + 1) if text.startswith(",", at) else at
            at += 1
        elif text.startswith("{", at):
            at = _skip(text, at + 1)
            while at < len(text) and text[at] != "}":
                at = _skip(text, max(self._pair(at, pointer), at + 1))
                at = _skip(text, at + 1) if text.startswith(",", at) else at
            at += 1
        else:
            scalar = _SCALAR.match(text, at)
            at = start + len(scalar.group().rstrip()) if scalar else at
        self._spans.setdefault(pointer, (start, min(at, len(text))))
        return at


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _key_path(text: str, at: int) -> tuple[list[str], tuple[int, int], int]:
    """The steps of a dotted key (escaped as in a JSON Pointer), its span, and where it ends."""
    path: list[str] = []
    start = end = at
    while True:
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        found = _KEY.match(text, at)
        if not found:
            return path, (start, end), at
        start = found.start() if not path else start
        name, at = found.group(), found.end()
        if name[0] in "'\"":
            name = tomllib.loads(f"k = {name}")["k"]
        path.append(name.replace("~", "~0").replace("/", "~1"))
        end = at
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        if text[at : at + 1] != ".":
            return path, (start, end), at
        at += 1
