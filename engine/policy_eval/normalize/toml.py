"""TOML: data by the standard library, places by tree-sitter's grammar."""

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
_KEYS = ("bare_key", "quoted_key", "dotted_key")


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
    """Where the values of a TOML text are."""

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
            quote += 1 if quote == 3 and raw[3:4] == "\n" else 0
            length = last - first - quote - (3 if quote >= 3 else 1)
            stop = length if end is None else min(end, length)
            first, last = first + quote + min(start, length), first + quote + max(stop, min(start, length))
        return span_location(self._file, self._text, self._lines, first, last, pointer)

    def _index(self) -> None:
        import tree_sitter
        import tree_sitter_toml

        data = self._text.encode("utf-8", "replace")
        self._bytes: list[int] | None = None
        if len(data) != len(self._text):
            self._bytes = [
                index
                for index, char in enumerate(self._text)
                for _ in range(len(char.encode("utf-8", "replace")))
            ]
            self._bytes.append(len(self._text))
        root = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data).root_node
        counts: dict[str, int] = {}
        for node in root.named_children:
            if node.type == "pair":
                self._pair(node, "", 0)
            elif node.type in ("table", "table_array_element"):
                self._table(node, counts)

    def _table(self, node: Any, counts: dict[str, int]) -> None:
        names = [child for child in node.named_children if child.type in _KEYS]
        if not names:
            return
        pointer = ""
        path = self._path(names[0])
        for number, part in enumerate(path):
            pointer += "/" + part
            last = number == len(path) - 1
            if last and node.type == "table_array_element":
                counts[pointer] = counts.get(pointer, -1) + 1
            if pointer in counts:
                pointer += f"/{counts[pointer]}"
        self._spans.setdefault(pointer, self._span(names[0]))
        self._keys.setdefault(pointer, self._span(names[0]))
        for child in node.named_children:
            if child.type == "pair":
                self._pair(child, pointer, 0)

    def _pair(self, node: Any, pointer: str, depth: int) -> None:
        inner = node.named_children
        if len(inner) < 2 or inner[0].type not in _KEYS or depth > _MAX_DEPTH:
            return
        for part in self._path(inner[0]):
            pointer += "/" + part
            self._keys.setdefault(pointer, self._span(inner[0]))
        self._value(inner[-1], pointer, depth + 1)

    def _value(self, node: Any, pointer: str, depth: int) -> None:
        self._spans.setdefault(pointer, self._span(node))
        if depth > _MAX_DEPTH:
            return
        if node.type == "array":
            members = [child for child in node.named_children if child.type != "comment"]
            for number, child in enumerate(members):
                self._value(child, f"{pointer}/{number}", depth + 1)
        elif node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    self._pair(child, pointer, depth + 1)

    def _path(self, node: Any) -> list[str]:
        """The steps of a key: its dotted parts, quotes taken off, escaped as in a JSON Pointer."""
        if node.type == "dotted_key":
            return [part for child in node.named_children for part in self._path(child)]
        text = self._text[slice(*self._span(node))]
        if text[:1] in ("'", '"'):
            text = text[1:-1]
        return [text.replace("~", "~0").replace("/", "~1")]

    def _span(self, node: Any) -> tuple[int, int]:
        if self._bytes is not None:
            return self._bytes[node.start_byte], self._bytes[node.end_byte]
        return node.start_byte, node.end_byte
