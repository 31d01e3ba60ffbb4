"""Why a value is what it is: every sub-expression with its value, and those that decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.tree import (
    Bind,
    Call,
    Conditional,
    Has,
    Index,
    Literal,
    Logic,
    Macro,
    Name,
    Node,
    Select,
    children,
)

_MAX_STEPS = 500
_MAX_TEXT = 200


class _NotEvaluated:
    """The class of `NOT_EVALUATED`."""

    def __repr__(self) -> str:
        return "NOT_EVALUATED"


NOT_EVALUATED = _NotEvaluated()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A sub-expression and how it went.

    ``start`` and ``end`` are character offsets in the whole expression, ``text`` is what stands there (cut when
    long; empty when the text is not known). ``value`` is its value, a `values.Unknown`, an
    `errors.EvaluationError`, or `NOT_EVALUATED`. In a macro it is that of the last element looked at, which is
    the one that decided, if one did. ``decides``: the result would not follow without it. ``call``: it calls a
    function. A chain of fields (``config.model_config.model``) is one sub-expression without parts.
    """

    start: int
    end: int
    text: str
    value: Any
    decides: bool
    parts: tuple[Trace, ...] = ()

    call: bool = False

    def deciding(self) -> Iterator[Trace]:
        """What the result hangs on: the fields, variables and calls that decided, in the order of the text."""
        if not self.decides:
            return
        inner = [found for part in self.parts for found in part.deciding()]
        yield from inner
        if (self.call or not inner) and self.value is not NOT_EVALUATED:
            yield self


def explain(
    node: Node,
    bindings: Mapping[str, Any],
    variables: Sequence[tuple[str, Node]] = (),
    *,
    text: str = "",
    limits: Limits = DEFAULT,
) -> Trace:
    """Evaluate a checked expression in the walker and record every step. Bounded: at most 500 steps are kept."""
    from policy_eval.cel.ruleset import VARIABLES, evaluate_with, prepare

    names = {*bindings, *(f"{VARIABLES}.{name}" for name, _ in variables)}
    prepared = prepare(node, names)
    seen: Seen = {}

    def watch(step: Node, value: Any) -> None:
        before = seen.get(id(step))
        seen[id(step)] = (value, len(order), before[1] if before else -1)
        order.append(None)

    order: list[None] = []
    evaluate_with(prepared, bindings, variables, limits=limits, watch=watch, text=text or None, prepared=True)
    return _Tracer(seen, text).trace(prepared, True, -1)


# Node -> its last value, when that was, and when the one before was.
Seen = dict[int, tuple[Any, int, int]]


class _Tracer:
    def __init__(self, seen: Seen, text: str) -> None:
        self.seen = seen
        self.text = text
        self.left = _MAX_STEPS

    def trace(self, node: Node, decides: bool, since: int) -> Trace:
        """The trace of a node; what happened before ``since`` belongs to an earlier element of a macro."""
        self.left -= 1
        value = self.value(node, since)
        parts: list[Trace] = []
        for part in [] if _is_chain(node) else children(node):
            if self.left <= 0:
                break
            if isinstance(part, Literal):
                continue
            inner = since
            if isinstance(node, Macro) and part is not node.of and id(part) in self.seen:
                inner = max(since, self.seen[id(part)][2])
            parts.append(self.trace(part, decides and self.decides(node, part, value, inner), inner))
        text = self.text[node.start : node.end]
        return Trace(
            start=node.start,
            end=node.end,
            text=text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…",
            value=value,
            decides=decides,
            parts=tuple(parts),
            call=isinstance(node, Call),
        )

    def value(self, node: Node, since: int) -> Any:
        """The last value of a node, unless it is older than ``since``."""
        value, when, _ = self.seen.get(id(node), (NOT_EVALUATED, since, -1))
        return value if when > since else NOT_EVALUATED

    def decides(self, node: Node, part: Node, value: Any, since: int) -> bool:
        """Whether a part of a node is a reason for the node's value."""
        found = self.value(part, since)
        if found is NOT_EVALUATED:
            return False
        if isinstance(node, Logic):
            return found is value if isinstance(value, bool) else type(found) is not bool
        if isinstance(node, Macro) and part is not node.of:
            decided = {"all": False, "exists": True}.get(node.kind)
            return value is decided or isinstance(found, EvaluationError)
        if isinstance(node, Bind):
            return part is node.body
        # A failure comes from the part that failed, if one did.
        failed = isinstance(value, EvaluationError) and not isinstance(node, Conditional)
        return not failed or isinstance(found, EvaluationError) or not self.passes_on(node, since)

    def passes_on(self, node: Node, since: int) -> bool:
        """Whether a part of a node failed, so that the node only passes the failure on."""
        return any(isinstance(self.value(part, since), EvaluationError) for part in children(node))


def _is_chain(node: Node) -> bool:
    """``a.b.c``, ``has(a.b.c)``, ``a["b"].c``, ``a``."""
    while isinstance(node, (Select, Has)) or (isinstance(node, Index) and isinstance(node.index, Literal)):
        node = node.of
    return isinstance(node, Name)
