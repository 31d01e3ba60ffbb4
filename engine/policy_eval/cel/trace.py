"""Why a value is what it is: every sub-expression with its value, and those that decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.tree import Bind, Conditional, Literal, Logic, Macro, Node, Unary, children

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
    the one that decided, if one did. ``decides``: the result would not follow without it.
    """

    start: int
    end: int
    text: str
    value: Any
    decides: bool
    parts: tuple[Trace, ...] = ()

    def deciding(self) -> Iterator[Trace]:
        """The smallest sub-expressions that decided the result, in the order of the text; literals left out."""
        if not self.decides:
            return
        inner = [found for part in self.parts for found in part.deciding()]
        if inner:
            yield from inner
        elif self.value is not NOT_EVALUATED:
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
    seen: dict[int, Any] = {}

    def watch(step: Node, value: Any) -> None:
        seen[id(step)] = value

    evaluate_with(prepared, bindings, variables, limits=limits, watch=watch, text=text or None, prepared=True)
    budget = [_MAX_STEPS]
    return _trace(prepared, seen, text, True, budget)


def _trace(node: Node, seen: Mapping[int, Any], text: str, decides: bool, budget: list[int]) -> Trace:
    budget[0] -= 1
    value = seen.get(id(node), NOT_EVALUATED)
    parts: list[Trace] = []
    for part in children(node):
        if budget[0] <= 0:
            break
        if not isinstance(part, Literal):
            parts.append(_trace(part, seen, text, decides and _decides(node, part, value, seen), budget))
    shown = text[node.start : node.end]
    if len(shown) > _MAX_TEXT:
        shown = shown[: _MAX_TEXT - 1] + "…"
    return Trace(start=node.start, end=node.end, text=shown, value=value, decides=decides, parts=tuple(parts))


def _decides(node: Node, part: Node, value: Any, seen: Mapping[int, Any]) -> bool:
    """Whether a part of a node is a reason for the node's value."""
    found = seen.get(id(part), NOT_EVALUATED)
    if found is NOT_EVALUATED:
        return False
    if isinstance(node, Logic):
        if isinstance(value, bool):
            return found is value
        return isinstance(found, EvaluationError) or type(found) is not bool
    if isinstance(node, Conditional):
        return part is not node.condition or found is not NOT_EVALUATED
    if isinstance(node, Macro) and part is not node.of:
        decided = {"all": False, "exists": True}.get(node.kind)
        return decided is not None and value is decided
    if isinstance(node, Bind):
        return part is node.body
    if isinstance(node, Unary):
        return True
    return (
        not isinstance(value, EvaluationError)
        or isinstance(found, EvaluationError)
        or not _failed(node, seen)
    )


def _failed(node: Node, seen: Mapping[int, Any]) -> bool:
    """Whether a part of a node failed, so that the node only passes the failure on."""
    return any(isinstance(seen.get(id(part)), EvaluationError) for part in children(node))
