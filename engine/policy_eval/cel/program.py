"""One expression for others to use: compile once, evaluate often, explain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy_eval.cel.errors import Error
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.resolve import resolve
from policy_eval.cel.tree import Node
from policy_eval.cel.types import Type

_KEPT = 64


class Program:
    """A compiled expression. Immutable, and safe from many threads."""

    def __init__(
        self, expression: str, node: Node, limits: Limits, container: str, names: frozenset[str]
    ) -> None:
        self.expression = expression
        self.limits = limits
        self._container = container
        self._names = names
        self._parsed = node
        self._resolved: dict[frozenset[str], Node] = {}

    @property
    def node(self) -> Node:
        """The expression's tree."""
        return self._parsed

    def evaluate(self, bindings: Mapping[str, object] | None = None) -> Any:
        """The value: plain Python data, and `values` where Python has no such type (uint, timestamp, ...).

        ``bindings`` gives the variables by name (``a.b`` for a qualified one). A `values.Unknown` among them, or
        inside them, may make the result a `values.Unknown`. Raises `Error` of kind ``evaluation`` or ``limit``.
        """
        from policy_eval.cel.ruleset import outcome
        from policy_eval.cel.walk import start
        from policy_eval.cel.walker import Scope

        scope = Scope(dict(bindings or {}))
        found = outcome(start(self.limits), self._for(scope.names), scope, self.expression)
        if isinstance(found, Error):
            raise found
        return found

    def explain(self, bindings: Mapping[str, object] | None = None) -> Any:
        """How the value comes about: see `trace.Trace`. Never raises for what the expression does."""
        from policy_eval.cel.trace import explain

        return explain(self._for(bindings or {}), bindings or {}, text=self.expression, limits=self.limits)

    def _for(self, bindings: Mapping[str, object]) -> Node:
        """The tree with the names that are bound now; what is a variable and what a field depends on them."""
        if not self._container and not any("." in name for name in bindings):
            return self._parsed
        names = self._names.union(bindings)
        node = self._resolved.get(names)
        if node is None:
            node = resolve(self._parsed, names, self._container)
            if len(self._resolved) < _KEPT:
                self._resolved[names] = node
        return node


def compile(
    expression: str,
    *,
    schema: Mapping[str, Type] | None = None,
    limits: Limits | None = None,
    container: str = "",
) -> Program:
    """Parse an expression and, with a ``schema`` (the types of its variables), check it.

    ``container`` is the namespace in which names are looked up first. Raises `Error` of kind ``syntax``,
    ``limit`` or ``check``; when the checker finds several mistakes, the first, whose ``problems`` has them all.
    """
    limits = limits or DEFAULT
    if schema is None:
        from policy_eval.cel.parse import parse

        node = resolve(parse(expression, limits), ())
        return Program(expression, node, limits, container, frozenset())
    from policy_eval.cel.check import check_expression

    checked = check_expression(expression, schema, limits=limits, container=container)
    if checked.errors or checked.node is None:
        first = checked.errors[0]
        first.problems = tuple(problem for error in checked.errors for problem in error.problems)
        raise first
    return Program(expression, checked.node, limits, container, frozenset(schema))
