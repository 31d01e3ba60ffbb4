"""The tree of an expression: few node classes, each with its span in the text, and their JSON form.

Macros are nodes of their own (`Macro`), not expanded to folds: both evaluators and the checker treat them by
name, and an explanation can show them as written.
"""

from __future__ import annotations

from typing import Any

from policy_eval.cel.errors import Error
from policy_eval.record import fields, record


@record
class Node:
    """A sub-expression. ``start`` and ``end`` are character offsets in the expression, end exclusive."""

    start: int
    end: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and to_data(self) == to_data(other)

    def __hash__(self) -> int:
        return hash((type(self), self.start, self.end))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.start}:{self.end}>"


@record
class Literal(Node):
    """A constant: None, bool, int, `values.UInt`, float, str or bytes."""

    value: Any


@record
class Name(Node):
    """A variable, a type or a part of a qualified name. ``absolute``: written with a leading dot."""

    name: str
    absolute: bool = False


@record
class Select(Node):
    """``of.field``, or ``of.?field`` when ``optional``."""

    of: Node
    field: str
    optional: bool = False


@record
class Has(Node):
    """``has(of.field)``."""

    of: Node
    field: str


@record
class Index(Node):
    """``of[index]``, or ``of[?index]`` when ``optional``."""

    of: Node
    index: Node
    optional: bool = False


@record
class Call(Node):
    """``function(args)``; when ``member``, ``args[0].function(args[1:])``."""

    function: str
    args: tuple[Node, ...]
    member: bool = False


@record
class Unary(Node):
    """``!of`` or ``-of``."""

    op: str
    of: Node


@record
class Binary(Node):
    """An arithmetic or comparison operator, or ``in``."""

    op: str
    left: Node
    right: Node


@record
class Logic(Node):
    """``a && b && ...`` or ``a || b || ...``: one node a chain, so that long chains are not deep."""

    op: str
    args: tuple[Node, ...]


@record
class Conditional(Node):
    """``condition ? then : otherwise``."""

    condition: Node
    then: Node
    otherwise: Node


@record
class ListLiteral(Node):
    """``[a, ?b]``; ``optional`` holds the positions of the entries marked with `?`."""

    items: tuple[Node, ...]
    optional: tuple[int, ...] = ()


@record
class MapLiteral(Node):
    """``{k: v, ?k: v}``; ``optional`` holds the positions of the entries marked with `?`."""

    keys: tuple[Node, ...]
    values: tuple[Node, ...]
    optional: tuple[int, ...] = ()


@record
class Macro(Node):
    """A comprehension ``of.kind(names..., args...)``: all, exists, existsOne, map, filter, transformList, ...

    ``args`` is the predicate or, where the macro has both, the filter and then the transformation.
    """

    kind: str
    of: Node
    names: tuple[str, ...]
    args: tuple[Node, ...]


@record
class Bind(Node):
    """``cel.bind(name, value, body)``: ``value`` is computed when first needed, once."""

    name: str
    value: Node
    body: Node


CLASSES: dict[str, type[Node]] = {
    node.__name__: node
    for node in (
        Literal,
        Name,
        Select,
        Has,
        Index,
        Call,
        Unary,
        Binary,
        Logic,
        Conditional,
        ListLiteral,
        MapLiteral,
        Macro,
        Bind,
    )
}
_FIELDS = {name: fields(node)[2:] for name, node in CLASSES.items()}

# The fields of each class that hold sub-expressions: a node, or a tuple of nodes.
PARTS: dict[type[Node], tuple[str, ...]] = {
    Literal: (),
    Name: (),
    Select: ("of",),
    Has: ("of",),
    Index: ("of", "index"),
    Call: ("args",),
    Unary: ("of",),
    Binary: ("left", "right"),
    Logic: ("args",),
    Conditional: ("condition", "then", "otherwise"),
    ListLiteral: ("items",),
    MapLiteral: ("keys", "values"),
    Macro: ("of", "args"),
    Bind: ("value", "body"),
}


def children(node: Node) -> list[Node]:
    """The direct sub-expressions of a node, in the order of the text, but for a map's keys before its values."""
    found: list[Node] = []
    for name in PARTS[type(node)]:
        value = getattr(node, name)
        if type(value) is tuple:
            found.extend(value)
        else:
            found.append(value)
    return found


def measure(root: Node) -> tuple[int, int, Node]:
    """Number of nodes, depth, and the deepest node, without recursion."""
    count, depth, deepest = 0, 0, root
    stack = [(root, 1)]
    while stack:
        node, level = stack.pop()
        count += 1
        if level > depth:
            depth, deepest = level, node
        level += 1
        for name in PARTS[type(node)]:
            value = getattr(node, name)
            if type(value) is tuple:
                for item in value:
                    stack.append((item, level))
            else:
                stack.append((value, level))
    return count, depth, deepest


def to_data(node: Node) -> list[Any]:
    """A tree as plain JSON data: ``[class, start, end, field, ...]``. The inverse of `from_data`."""
    name = type(node).__name__
    return [name, node.start, node.end, *(_to(getattr(node, field)) for field in _FIELDS[name])]


def _to(value: Any) -> Any:
    if isinstance(value, Node):
        return to_data(value)
    if type(value) is tuple:
        return {"all": [_to(item) for item in value]}
    kind = type(value).__name__
    if kind == "float":  # JSON has no infinity, and 1.0 must not come back as 1
        return {"float": value.hex()}
    if kind == "bytes":
        return {"bytes": value.hex()}
    if kind == "UInt":
        return {"uint": int(value)}
    return value


def from_data(data: Any, expression: str) -> Node:
    """The tree written by `to_data`.

    ``expression`` is the text the spans refer to. Raises `Error` when the data is not such a tree: a damaged
    cache entry must be noticed.
    """
    try:
        node = _node(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise Error("syntax", "the stored tree is damaged", expression=expression) from error
    return node


def _node(data: list[Any]) -> Node:
    name, start, end, *values = data
    if type(start) is not int or type(end) is not int:
        raise TypeError(name)
    names = _FIELDS[name]
    found = dict(zip(names, map(_from, values), strict=True))
    node = CLASSES[name](start=start, end=end, **found)
    for field in names:
        if not _fits(name, field, found[field]):
            raise TypeError(field)
    return node


_TEXT_FIELDS = frozenset({"name", "field", "function", "op", "kind"})
_NODES_FIELDS = frozenset({"args", "items", "keys", "values"})


def _fits(name: str, field: str, value: Any) -> bool:
    """Whether a field of a stored node holds the kind of value that it must."""
    if field in PARTS[CLASSES[name]]:
        if field in _NODES_FIELDS:
            return type(value) is tuple and all(isinstance(item, Node) for item in value)
        return isinstance(value, Node)
    if field in _TEXT_FIELDS:
        return type(value) is str
    if field == "names":
        return type(value) is tuple and all(type(item) is str for item in value)
    if (name, field) == ("Literal", "value"):
        return not isinstance(value, (Node, tuple))
    if type(value) is tuple:  # positions of the optional entries
        return all(type(item) is int for item in value)
    return type(value) is bool


def _from(value: Any) -> Any:
    if type(value) is list:
        return _node(value)
    if type(value) is not dict:
        return value
    ((kind, content),) = value.items()
    if kind == "all":
        return tuple(_from(item) for item in content)
    if kind == "float":
        return float.fromhex(content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "uint" and type(content) is int:
        from policy_eval.cel.values import UInt

        return UInt(content)
    raise ValueError(kind)
