"""YAML as PyYAML's safe loader reads it, but strict, bounded, and with a place for each value.

Strict (policy files): no anchors, aliases or merge keys, keys are strings. Lenient (``aliases=True``, files that
people deploy): anchors, aliases and merge keys are resolved within the limits. Either way duplicate keys, tags
of other types, NaN, infinities and values that contain themselves are located errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import yaml

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load.source import MAX_DEPTH, MAX_VALUES, Node, Source, line_starts, span_location

# libyaml when PyYAML was built with it: ten times faster, the same events.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_resolver: Any = yaml.resolver.Resolver()
_constructor: Any = yaml.constructor.SafeConstructor()
_PREFIX = "tag:yaml.org,2002:"
_MERGE = "<<"


def load_yaml(text: str, file: str, *, aliases: bool = False) -> Source:
    """Data and places of a YAML text that holds one document; raises PolicyEvalError with every place."""
    sources = load_yaml_all(text, file, aliases=aliases)
    if len(sources) != 1:
        where = sources[1].location("") if sources else Location(file=file)
        message = "expected one YAML document, found " + ("a second one" if sources else "none")
        raise PolicyEvalError(Problem(message=message, location=where))
    return sources[0]


def load_yaml_all(text: str, file: str, *, aliases: bool = True) -> list[Source]:
    """Data and places of each document of a YAML text; documents that are empty are left out."""
    builder = _Builder(text, file, aliases)
    try:
        roots = list(builder.documents(yaml.parse(text, Loader=_Loader)))
    except yaml.MarkedYAMLError as error:
        raise PolicyEvalError(_syntax_problem(error, builder)) from None
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise PolicyEvalError(
            Problem(
                message="a character that YAML does not allow",
                location=builder.location(at, at + 1),
                help="remove it, or write it as an escape in a double-quoted string",
            )
        ) from None
    return [Source(file, text, root.value, lambda root=root: root) for root in roots]  # type: ignore[misc]


def _index(mark: Any) -> int:
    return int(mark.index)


def _syntax_problem(error: yaml.MarkedYAMLError, builder: _Builder) -> Problem:
    mark = error.problem_mark or error.context_mark
    text = (error.problem or "cannot be parsed").lower()
    if error.context:
        text = f"{text} {error.context.lower()}"
    advice = None
    if "found character that cannot start any token" in text:
        advice = "quote the value; tabs may not indent"
    elif "mapping values are not allowed" in text:
        advice = "quote the value, or check the indentation"
    at = mark.index if mark else 0
    return Problem(message=f"invalid YAML: {text}", location=builder.location(at, at + 1), help=advice)


class _Builder:
    """Nodes from parser events, without recursion, within the limits."""

    def __init__(self, text: str, file: str, aliases: bool) -> None:
        self.text, self.file, self.aliases = text, file, aliases
        self.lines: list[int] | None = None
        self.anchors: dict[str, Node | None] = {}
        self.size = 0

    def location(self, start: int, end: int) -> Location:
        if self.lines is None:
            self.lines = line_starts(self.text)
        return span_location(self.file, self.text, self.lines, min(start, len(self.text)), end)

    def fault(self, start: int, end: int, message: str, advice: str | None = None) -> PolicyEvalError:
        return PolicyEvalError(Problem(message=message, location=self.location(start, end), help=advice))

    def documents(self, events: Iterator[Any]) -> Iterator[Node]:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
                root = self._node(events)
                empty = root.value is None and root.start == root.end
                if not empty:
                    yield root

    def _node(self, events: Iterator[Any]) -> Node:
        # Open containers: the node, its anchor, the key that waits for a value, merges found so far.
        stack: list[tuple[Node, str | None]] = []
        waiting: list[str | None] = []
        merges: list[list[Node]] = []
        for event in events:
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if len(stack) >= MAX_DEPTH:
                    at = _index(event.start_mark)
                    raise self.fault(at, at + 1, f"nested deeper than {MAX_DEPTH} levels")
                node = self._open(event)
                stack.append((node, event.anchor))
                waiting.append(None)
                merges.append([])
                continue
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                node, anchor = stack.pop()
                waiting.pop()
                self._merge(node, merges.pop())
                node.end = max(_index(event.end_mark), node.start)
                if anchor:
                    self.anchors[anchor] = node
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event)
            else:
                is_key = bool(stack) and isinstance(stack[-1][0].children, dict) and waiting[-1] is None
                node = self._scalar(event, is_key)
                if event.anchor:
                    self.anchors[event.anchor] = node
            if not stack:
                return node
            parent = stack[-1][0]
            if isinstance(parent.children, list):
                parent.children.append(node)
                parent.value.append(node.value)
                self._grow(parent, node)
            elif isinstance(parent.children, dict):
                key = waiting[-1]
                if key is None:
                    waiting[-1] = self._key(parent, node)
                    continue
                waiting[-1] = None
                if key == _MERGE and parent.keys.get(key) is None:
                    merges[-1].append(node)
                    continue
                parent.children[key] = node
                parent.value[key] = node.value
                self._grow(parent, node)
        raise self.fault(len(self.text), len(self.text), "the document ends too early")

    def _grow(self, parent: Node, node: Node) -> None:
        """Count the values below a node, aliases expanded: what a walk over the data would meet."""
        parent.size += node.size
        self.size += 1
        if parent.size > MAX_VALUES or self.size > MAX_VALUES:
            raise self.fault(
                node.start, node.start + 1, f"more than {MAX_VALUES:,} values, with its aliases expanded"
            )

    def _open(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        mapping = isinstance(event, yaml.MappingStartEvent)
        expected = _PREFIX + ("map" if mapping else "seq")
        if event.tag not in (None, "!", expected):
            raise self._bad_tag(event.tag, start, end)
        self._check_anchor(event.anchor, start, end)
        if event.anchor:
            self.anchors[event.anchor] = None
        node = Node({} if mapping else [], start, end)
        node.children = {} if mapping else []
        return node

    def _check_anchor(self, anchor: str | None, start: int, end: int) -> None:
        if anchor and not self.aliases:
            raise self.fault(
                start,
                max(end, start + 1),
                f"anchors are not allowed here: `&{anchor}`",
                "write the value out",
            )

    def _alias(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        if not self.aliases:
            raise self.fault(
                start, end, f"aliases are not allowed here: `*{event.anchor}`", "write the value out"
            )
        if event.anchor not in self.anchors:
            raise self.fault(start, end, f"alias of an unknown anchor: `*{event.anchor}`")
        node = self.anchors[event.anchor]
        if node is None:
            raise self.fault(start, end, f"a value that contains itself: `*{event.anchor}`")
        return node

    def _bad_tag(self, tag: str, start: int, end: int) -> PolicyEvalError:
        shown = tag.replace(_PREFIX, "!!")
        advice = (
            "put expressions that begin with `!` in quotes or a block scalar" if tag.startswith("!") else None
        )
        return self.fault(start, max(end, start + 1), f"a tag that is not read here: `{shown[:60]}`", advice)

    def _scalar(self, event: Any, is_key: bool) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        self._check_anchor(event.anchor, start, end)
        text: str = event.value
        tag = event.tag
        if tag in (None, "!"):
            plain = event.implicit[0] and tag is None
            tag = _resolver.resolve(yaml.ScalarNode, text, (plain, not plain))
        kind = tag.removeprefix(_PREFIX)
        style = event.style or ""
        if kind in ("merge", "value") or (kind == "timestamp") or is_key:
            # A key stays the words it is written in: `on:` and `8080:` are names, whatever they resolve to.
            if is_key and not self.aliases and kind not in ("str", "merge", "timestamp", "value"):
                raise self.fault(start, end, f"a key that is not a string: `{text[:60]}`", "put it in quotes")
            return Node(text, start, end, style)
        if kind == "str":
            return Node(text, start, end, style)
        if kind == "null":
            return Node(None, start, end, style)
        if kind == "binary" or kind not in ("bool", "int", "float"):
            raise self._bad_tag(tag, start, end)
        if len(text) > 400:
            raise self.fault(start, end, "a number of more than 400 digits")
        node = yaml.ScalarNode(_PREFIX + kind, text)
        try:
            value = getattr(_constructor, f"construct_yaml_{kind}")(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            raise self.fault(start, end, f"not a {kind}: `{text[:60]}`") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fault(start, end, f"a number that is not finite: `{text}`")
        return Node(value, start, end, style)

    def _key(self, parent: Node, node: Node) -> str:
        if node.children is not None or not isinstance(node.value, str):
            raise self.fault(node.start, node.start + 1, "a key that is not a string")
        key = node.value
        merge = key == _MERGE and not node.style
        if merge and not self.aliases:
            raise self.fault(
                node.start, node.end, "merge keys are not allowed here: `<<`", "write the values out"
            )
        if merge:
            return key
        if key in parent.keys:
            advice = "keep one of the two; parsers differ on which wins"
            raise self.fault(node.start, max(node.end, node.start + 1), f"duplicate key `{key[:80]}`", advice)
        parent.keys[key] = (node.start, node.end)
        return key

    def _merge(self, node: Node, merged: list[Node]) -> None:
        """Fill in keys of ``<<`` mappings that the mapping itself does not state; earlier ones win."""
        if not isinstance(node.children, dict):
            return
        for item in merged:
            parts = item.children if isinstance(item.children, list) else [item]
            for part in parts:
                if not isinstance(part.children, dict):
                    raise self.fault(part.start, part.start + 1, "`<<` takes a mapping or a list of mappings")
                for key, child in part.children.items():
                    if key not in node.children:
                        node.children[key] = child
                        node.value[key] = child.value
                        self._grow(node, child)
