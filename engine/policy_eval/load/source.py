"""A text, the plain data read from it, and the place of every value."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_VALUES = 500_000


class Node:
    """One value of a text: its span in characters, its children, and the spans of its keys.

    ``style`` is how a string is written (``"``, ``'``, ``|``, ``>`` or ``""`` for plain), which decides how its
    decoded characters map to the text. ``size`` counts the values below it, itself included, aliases expanded.
    """

    __slots__ = ("children", "end", "keys", "offsets", "size", "start", "style", "value")

    def __init__(self, value: Any, start: int, end: int, style: str = "") -> None:
        self.value = value
        self.start = start
        self.end = end
        self.style = style
        self.size = 1
        self.children: dict[str, Node] | list[Node] | None = None
        self.keys: dict[str, tuple[int, int]] = {}
        self.offsets: list[int] | None = None


class Source:
    """Plain data and the place of each of its values in the text it was read from.

    ``value`` holds dict, list, str, int, float, bool and None only. Places are worked out when asked for,
    so that reading a document that needs none costs none.
    """

    def __init__(self, file: str, text: str, value: Any, nodes: Callable[[], Node]) -> None:
        self.file = file
        self.text = text
        self.value = value
        self._nodes = nodes
        self._root: Node | None = None
        self._lines: list[int] | None = None

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place of the value at a JSON Pointer.

        ``start`` and ``end`` are character offsets into the decoded string at that pointer: the place is then
        that part of it, through escapes, folding and block indentation. ``key`` gives the place of the
        mapping key instead. Where the pointer leads to nothing, the nearest enclosing value's place is given.
        """
        node, parent, last = self._find(pointer)
        if key and parent is not None and last in parent.keys:
            return self._span(*parent.keys[last], pointer)
        if start is not None and isinstance(node.value, str):
            # Kept: a long string holds many words, and each is asked for.
            if node.offsets is None:
                node.offsets = decoded_offsets(self.text[node.start : node.end], node.value, node.style)
            offsets = node.offsets
            first = node.start + offsets[min(start, len(node.value))]
            stop = first
            if end is not None and end > start:
                stop = node.start + offsets[min(end, len(node.value)) - 1] + 1
            return self._span(first, max(stop, first), pointer)
        return self._span(*self._visible(node), pointer)

    def offset_location(self, start: int, end: int | None = None, pointer: str | None = None) -> Location:
        """The place of a span of the text itself, by character offsets."""
        return self._span(start, start if end is None else end, pointer)

    def _find(self, pointer: str) -> tuple[Node, Node | None, str]:
        if self._root is None:
            self._root = self._nodes()
        node, parent, last = self._root, None, ""
        for raw in pointer.split("/")[1:]:
            part = raw.replace("~1", "/").replace("~0", "~")
            children = node.children
            child: Node | None = None
            if isinstance(children, dict):
                child = children.get(part)
            elif isinstance(children, list) and part.isascii() and part.isdigit() and len(part) < 9:
                child = children[int(part)] if int(part) < len(children) else None
            if child is None:
                break
            node, parent, last = child, node, part
        return node, parent, last

    def _visible(self, node: Node) -> tuple[int, int]:
        """The span of a value without what a parser counts in: trailing space, a block scalar's header."""
        if node.style in ("|", ">") and node.value:
            offsets = decoded_offsets(self.text[node.start : node.end], node.value, node.style)
            first = next((i for i, char in enumerate(node.value) if not char.isspace()), 0)
            return node.start + offsets[first], node.start + len(self.text[node.start : node.end].rstrip())
        return node.start, node.start + len(self.text[node.start : node.end].rstrip())

    def _span(self, start: int, end: int, pointer: str | None) -> Location:
        return span_location(self.file, self.text, self._line_starts(), start, end, pointer)

    def _line_starts(self) -> list[int]:
        if self._lines is None:
            self._lines = line_starts(self.text)
        return self._lines


def line_starts(text: str) -> list[int]:
    """Offsets at which lines begin; lines end at a line feed, as editors count them."""
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def span_location(
    file: str, text: str, starts: list[int], start: int, end: int, pointer: str | None = None
) -> Location:
    """The place of the characters ``start`` to ``end`` (exclusive) of a text with those line starts."""
    line = bisect_right(starts, start) - 1
    end = max(end, start)
    end_line = bisect_right(starts, max(end - 1, start)) - 1
    stop = starts[line + 1] - 1 if line + 1 < len(starts) else len(text)
    return Location(
        file=file,
        line=line + 1,
        column=start - starts[line] + 1,
        end_line=end_line + 1,
        end_column=end - starts[end_line] + 1,
        pointer=pointer,
        source_line=text[starts[line] : stop].rstrip("\r"),
    )


def locate_text(file: str, text: str, start: int, end: int | None = None) -> Location:
    """The place of a span of a text of which nothing else is known yet."""
    return span_location(file, text, line_starts(text), start, start + 1 if end is None else end)


def decoded_offsets(raw: str, decoded: str, style: str) -> list[int]:
    """For each character of a decoded string (and its end) the offset in the text it was written as.

    ``raw`` is the text of the scalar with its quotes or block header.
    """
    if style in ("|", ">"):
        at = raw.find("\n") + 1
    elif style:
        at = 1
    else:
        at = 0
    if raw.startswith(decoded, at) and style in ("", "'", '"'):
        return list(range(at, at + len(decoded) + 1))
    if style == "|":
        return _literal_offsets(raw, decoded, at)
    offsets: list[int] = []
    for char in decoded:
        if len(offsets) and style == '"' and raw.startswith("\\\n", at):
            at += 2
            while raw[at : at + 1] in (" ", "\t"):
                at += 1
        if style == '"' and raw[at : at + 1] == "\\":
            offsets.append(at)
            at += _escape_length(raw, at, char)
            continue
        if raw[at : at + 1] != char:
            skipped = at
            while raw[skipped : skipped + 1].isspace() and raw[skipped] != char:
                skipped += 1
            if raw[skipped : skipped + 1] != char and char.isspace():
                offsets.append(at)
                at = skipped
                continue
            at = skipped
        offsets.append(min(at, len(raw)))
        at += 2 if style == "'" and char == "'" else 1
    offsets.append(min(at, len(raw)))
    return offsets


def _literal_offsets(raw: str, decoded: str, at: int) -> list[int]:
    offsets: list[int] = []
    for line in decoded.split("\n"):
        stop = raw.find("\n", at)
        stop = len(raw) if stop < 0 else stop
        width = len(raw[at:stop].rstrip("\r"))
        indent = max(0, width - len(line))
        offsets.extend(min(at + indent + i, len(raw)) for i in range(len(line) + 1))
        at = stop + 1
    return offsets


def _escape_length(raw: str, at: int, char: str) -> int:
    kind = raw[at + 1 : at + 2]
    length = 2 + {"x": 2, "u": 4, "U": 8}.get(kind, 0)
    if kind == "u" and ord(char) > 0xFFFF:
        length *= 2
    return length


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``; at most 16 MiB of UTF-8.

    Raises PolicyEvalError when it cannot be read, is too large, or is not UTF-8 (with the place of the byte).
    """
    name = "<stdin>" if path == "-" else path
    try:
        if path == "-":
            if sys.stdin is None:
                raise PolicyEvalError(Problem(message="standard input is closed", help="name a file"))
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (
            os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "bad name"
        )
        raise PolicyEvalError(
            Problem(message=f"cannot read `{name}`: {reason}", help="check the path and its permissions")
        ) from None
    if len(data) > MAX_BYTES:
        raise PolicyEvalError(
            Problem(
                message="larger than 16 MiB",
                location=Location(file=name),
                help="a configuration is far smaller; check that this is the file you meant",
            )
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8-sig")
        line = good.count("\n") + 1
        column = len(good) - (good.rfind("\n") + 1) + 1
        raise PolicyEvalError(
            Problem(
                message=f"not UTF-8: byte 0x{data[error.start]:02x}",
                location=Location(file=name, line=line, column=column),
                help="save the file as UTF-8",
            )
        ) from None
