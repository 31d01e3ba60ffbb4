"""The state of one exact evaluation: scopes, lazy values, steps and sizes, unknowns.

Unknown facts follow CEL's partial evaluation: what is decided without them is decided, everything else that
needs them is an `Unknown` naming them all. Errors are exceptions inside; `&&`, `||`, `all` and `exists` absorb
one where another operand decides, and an unknown outranks an error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.cel.limits import Limits
from policy_eval.cel.tree import Node
from policy_eval.cel.values import Optional, Unknown, describe

_DEEP = 10**9
Watch = Callable[[Node, Any], None]


class Lazy:
    """A named expression: computed when first needed, once; its error is remembered too."""

    __slots__ = ("error", "label", "node", "scope", "value")

    def __init__(self, node: Node, scope: Scope, label: str | None = None) -> None:
        self.node: Node | None = node
        self.scope: Scope | None = scope
        self.label = label
        self.value: Any = None
        self.error: EvaluationError | None = None

    def get(self, walker: Walker) -> Any:
        """The value; raises the expression's error, each time."""
        if self.node is not None:
            assert self.scope is not None
            node, scope = self.node, self.scope
            self.node = self.scope = None
            try:
                self.value = walker.value(node, scope)
            except EvaluationError as error:
                self.error = error
        if self.error is not None:
            if self.label is None or isinstance(self.error, LimitExceeded):
                raise self.error
            raise EvaluationError(f"variable `{self.label}`: {self.error.message}")
        return self.value


class Scope:
    """Variables by name; inner ones hide outer ones."""

    __slots__ = ("names", "outer")

    def __init__(self, names: Mapping[str, Any], outer: Scope | None = None) -> None:
        self.names = names
        self.outer = outer


class Walker:
    """One evaluation. ``forms`` says how each class of node is evaluated; see `walk.start`."""

    def __init__(self, forms: Mapping[type[Node], Form], limits: Limits, watch: Watch | None) -> None:
        self.forms = forms
        self.limits = limits
        self.steps = 0
        self.watch = watch
        self.seen: dict[int, tuple[Any, Unknown | None, int]] = {}
        self.certain: dict[int, list[Any]] = {}  # lists none of whose elements is unknown
        self.patterns: set[str] = set()

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of a node: a CEL value or an `Unknown`. Raises `EvaluationError`."""
        try:
            found = self.forms[type(node)](self, node, scope)
        except EvaluationError as error:
            if error.span is None:
                error.span = (node.start, node.end)
            if self.watch is not None:
                self.watch(node, error)
            raise
        if self.watch is not None:
            self.watch(node, found)
        return found

    def charge(self, steps: int) -> None:
        """Account for work; raises `LimitExceeded` when it is too much."""
        self.steps += steps
        if self.steps > self.limits.iterations:
            raise LimitExceeded(f"the evaluation takes more than {self.limits.iterations} steps")

    def whole(self, value: Any) -> Unknown | None:
        """The unknowns inside a value that is used as a whole."""
        if type(value) not in (list, dict, Optional):
            return value if type(value) is Unknown else None
        return self._scan(value, 0)[0]

    def size(self, value: Any) -> int:
        """How much work it is to look at all of a value; `LimitExceeded` if it is too deep, or inside itself."""
        if type(value) in (str, bytes):
            return len(value)
        if type(value) not in (list, dict, Optional):
            return 1
        count = self._scan(value, 0)[1]
        if count >= _DEEP:
            raise LimitExceeded(
                f"a value is nested more than {self.limits.depth} deep, contains itself, or is too large"
            )
        return count

    def built(self, value: Any) -> Any:
        """A value that an operator or a function made: not too large, and paid for by its size."""
        if type(value) in (str, bytes, list, dict):
            if len(value) > self.limits.size:
                raise LimitExceeded(f"a value has more than {self.limits.size} characters or elements")
            # An element of a list takes as much memory as many characters.
            self.charge(len(value) // 200 * (1 if type(value) in (str, bytes) else 5))
        return value

    def _scan(self, value: Any, depth: int) -> tuple[Unknown | None, int]:
        if depth > self.limits.depth:
            return None, _DEEP
        known = self.seen.get(id(value))
        if known is not None:
            return known[1], known[2]
        unknown, total = None, 1
        for item in parts(value):
            kind = type(item)
            if kind is Unknown:
                unknown = item if unknown is None else union(unknown, item)
            elif kind is list or kind is dict or kind is Optional:
                inner, count = self._scan(item, depth + 1)
                total = min(total + count, _DEEP)
                if inner is not None:
                    unknown = inner if unknown is None else union(unknown, inner)
            elif kind is str or kind is bytes:
                total += 1 + len(item) // 100
            else:
                total += 1
        self.seen[id(value)] = (value, unknown, total)
        return unknown, total

    def strict(self, nodes: tuple[Node, ...], scope: Scope) -> list[Any] | Unknown:
        """The values of operands that are all needed; an `Unknown` if any is, or has one inside."""
        found: list[Any] = []
        unknown: Unknown | None = None
        for node in nodes:
            try:
                value = self.value(node, scope)
                inside = self.whole(value)
            except LimitExceeded:
                raise
            except EvaluationError:
                if unknown is None:
                    raise
                return unknown
            if inside is not None:
                unknown = inside if unknown is None else union(unknown, inside)
            found.append(value)
        return found if unknown is None else unknown


def parts(value: Any) -> Iterator[Any]:
    """What a value holds: the elements of a list, the values of a map, the value of an optional."""
    if type(value) is dict:
        yield from value.values()
    elif type(value) is list:
        yield from value
    elif value.has_value():
        yield value.value


def union(one: Unknown, other: Unknown) -> Unknown:
    """All the facts that either lacks."""
    return Unknown(one.pointers | other.pointers)


class Fold:
    """``&&``, ``||``, ``all`` and ``exists``: an operand that decides wins, then unknowns, then errors."""

    __slots__ = ("decider", "error", "op", "unknown")

    def __init__(self, op: str) -> None:
        self.op = op
        self.decider = op in ("||", "exists")
        self.unknown: Unknown | None = None
        self.error: EvaluationError | None = None

    def add(self, walker: Walker, node: Node, scope: Scope) -> bool:
        """Take one operand; True when it decides."""
        try:
            found = walker.value(node, scope)
            if type(found) is bool:
                return found is self.decider
            if type(found) is Unknown:
                self.unknown = found if self.unknown is None else union(self.unknown, found)
                return False
            raise located(node, EvaluationError(f"`{self.op}` needs true or false, not {describe(found)}"))
        except LimitExceeded:
            raise
        except EvaluationError as error:
            if self.error is None:
                self.error = error
        return False

    def result(self) -> Any:
        """The value when no operand decided."""
        if self.unknown is not None:
            return self.unknown
        if self.error is not None:
            raise self.error
        return not self.decider


def located(node: Node, error: EvaluationError) -> EvaluationError:
    """The error, placed at a node."""
    error.span = (node.start, node.end)
    return error


Form = Callable[[Walker, Any, Scope], Any]
