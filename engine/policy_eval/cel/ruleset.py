"""Rules over documents: conditions, lazy variables and rules, by generated code and by the walker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policy_eval.cel.errors import Error, EvaluationError, LimitExceeded
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.resolve import resolve
from policy_eval.cel.tree import Has, Literal, Name, Node
from policy_eval.cel.types import Type
from policy_eval.cel.values import Unknown, describe
from policy_eval.cel.walk import start
from policy_eval.cel.walker import Lazy, Scope, Walker, Watch
from policy_eval.record import fields, record, replace

if TYPE_CHECKING:
    from policy_eval.cel.generate import Generated

VARIABLES = "variables"


@record
class Outcomes:
    """What the walker found: True, False, `values.Unknown` or `errors.Error`, one each, in order.

    ``rules`` is empty unless every condition is True.
    """

    conditions: tuple[Any, ...]
    rules: tuple[Any, ...]


class RuleSet:
    """Conditions, variables and rules over the same documents. Immutable, and safe from many threads.

    ``roots`` are the variables that a document binds, in the order of the arguments of the methods;
    ``variables`` are reached as ``variables.name``, each may use those before it. All expressions are checked
    before (`check.check_expression`).

    ``first(*roots)`` and ``failures(*roots)`` are generated code over plain data and raise `errors.Undecided`
    where only `outcomes` can say. ``first`` gives -2 when a condition is false (not applicable), -1 when every
    rule is true, else the position of the first false rule. ``failures`` gives the positions of all false rules,
    None when not applicable.
    """

    def __init__(
        self,
        *,
        roots: Mapping[str, Type],
        variables: Sequence[tuple[str, Node]] = (),
        conditions: Sequence[Node] = (),
        rules: Sequence[Node] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        self._roots = roots
        self._limits = limits
        names = {*roots, *(f"{VARIABLES}.{name}" for name, _ in variables)}
        self._variables = {f"{VARIABLES}.{name}": prepare(node, names) for name, node in variables}
        self._conditions = tuple(prepare(node, names) for node in conditions)
        self._rules = tuple(prepare(node, names) for node in rules)

    # Python code is written and compiled only for those who call it: judging one document does not pay.
    @cached_property
    def _generated(self) -> Generated:
        from policy_eval.cel.generate import Generated

        return Generated(self._roots, self._variables, self._conditions, self._rules, self._limits)

    @cached_property
    def first(self) -> Callable[..., int]:
        """-2 when a condition is false, -1 when every rule is true, else the position of the first false rule."""
        return self._generated.function("first")

    @cached_property
    def failures(self) -> Callable[..., tuple[int, ...] | None]:
        """The positions of all false rules; None when a condition is false."""
        return self._generated.function("failures")

    def outcomes(self, *roots: Any) -> Outcomes:
        """Each condition and rule by the walker. ``roots`` are complete: absent facts are `values.Unknown`."""
        walker = start(self._limits)
        scope = _scope(dict(zip(self._roots, roots, strict=True)), self._variables)
        conditions = tuple(judge(walker, node, scope) for node in self._conditions)
        if not all(value is True for value in conditions):
            return Outcomes(conditions=conditions, rules=())
        return Outcomes(
            conditions=conditions, rules=tuple(judge(walker, node, scope) for node in self._rules)
        )


def prepare(node: Node, names: set[str]) -> Node:
    """The tree with ``variables.name`` as one name. A declared variable is there, so ``has`` of it is true."""
    return _without_has(resolve(node, names))


def _without_has(node: Node) -> Node:
    if isinstance(node, Has) and isinstance(node.of, Name) and node.of.name == VARIABLES:
        return Literal(start=node.start, end=node.end, value=True)
    changes: dict[str, Any] = {}
    for name in fields(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            changes[name] = _without_has(value)
        elif type(value) is tuple and value and isinstance(value[0], Node):
            changes[name] = tuple(map(_without_has, value))
    return replace(node, **changes) if changes else node


def _scope(roots: dict[str, Any], variables: Mapping[str, Node]) -> Scope:
    scope = Scope(roots)
    for name, node in variables.items():
        roots[name] = Lazy(node, scope, name.removeprefix(f"{VARIABLES}."))
    return scope


def judge(walker: Walker, node: Node, scope: Scope) -> Any:
    """The outcome of a rule: True, False, `Unknown`, or an `Error`; any other value is an error."""
    found = outcome(walker, node, scope)
    if type(found) is bool or isinstance(found, (Unknown, Error)):
        return found
    message = f"the expression must give true or false, not {describe(found)}"
    return Error("evaluation", message, start=node.start, end=node.end)


def outcome(walker: Walker, node: Node, scope: Scope, text: str | None = None) -> Any:
    """The value of a node, an `Unknown`, or an `Error` with its place."""
    try:
        return walker.value(node, scope)
    except EvaluationError as error:
        start, end = error.span or (node.start, node.end)
        kind = "limit" if isinstance(error, LimitExceeded) else "evaluation"
        return Error(kind, error.message, expression=text, start=start, end=end)  # type: ignore[arg-type]
    except RecursionError:
        message = "the expression is nested too deep for the stack that is left"
        return Error("limit", message, expression=text, start=node.start, end=node.end)


class Session:
    """Many expressions over the same complete documents: a variable is computed once for all of them.

    All trees went through `prepare`.
    """

    def __init__(
        self,
        roots: Mapping[str, Any],
        variables: Sequence[tuple[str, Node]] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        self._scope = _scope(dict(roots), {f"{VARIABLES}.{name}": node for name, node in variables})
        self._walker = start(limits)

    def evaluate(self, node: Node) -> Any:
        """The value of an expression; an `Unknown` or an `Error` is returned too."""
        return outcome(self._walker, node, self._scope)


def evaluate_with(
    node: Node,
    roots: Mapping[str, Any],
    variables: Sequence[tuple[str, Node]] = (),
    *,
    limits: Limits = DEFAULT,
    watch: Watch | None = None,
    text: str | None = None,
    prepared: bool = False,
) -> Any:
    """The value of one checked expression over complete documents; an `Unknown` or an `Error` is returned too.

    ``prepared``: the tree went through `prepare`, and ``watch`` is to be told of its very nodes.
    """
    names = {*roots, *(f"{VARIABLES}.{name}" for name, _ in variables)}
    lazy = {f"{VARIABLES}.{name}": prepare(item, names) for name, item in variables}
    scope = _scope(dict(roots), lazy)
    return outcome(start(limits, watch), node if prepared else prepare(node, names), scope, text)
