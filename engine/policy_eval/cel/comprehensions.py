"""The macros that go through a list or a map: all, exists, map, filter and their kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from policy_eval.cel import values
from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.tree import Macro, Node, measure
from policy_eval.cel.values import Unknown, describe
from policy_eval.cel.walker import Fold, Scope, Walker, located, union


def weight(node: Macro) -> int:
    """The steps that one element costs: more for long predicates."""
    return 1 + sum(measure(arg)[0] for arg in node.args) // 100


def comprehension(walker: Walker, node: Macro, scope: Scope) -> Any:
    """The value of a macro that goes through a list or a map."""
    of = walker.value(node.of, scope)
    if type(of) is Unknown:
        return of
    if type(of) is not list and type(of) is not dict:
        raise EvaluationError(f"`{node.kind}` needs a list or a map, not {describe(of)}")
    if type(of) is dict and node.kind == "sortBy":
        raise EvaluationError("`sortBy` needs a list, not a map")
    return MACROS[node.kind](walker, node, _elements(walker, node, of, scope))


def _elements(walker: Walker, node: Macro, of: Any, scope: Scope) -> Iterator[Scope]:
    """A scope for each element: (element), (key), (index, element) or (key, value)."""
    cost = weight(node)
    pairs = len(node.names) == 2
    for at, item in enumerate(values.entries(of) if type(of) is dict else of):
        walker.charge(cost)
        if type(of) is dict:
            key, value = item
        else:
            key, value = at, item
        if pairs:
            yield Scope({node.names[0]: key, node.names[1]: value}, scope)
        else:
            yield Scope({node.names[0]: key if type(of) is dict else value}, scope)


def _quantifier(walker: Walker, node: Macro, elements: Iterator[Scope]) -> Any:
    fold = Fold(node.kind)
    for scope in elements:
        if fold.add(walker, node.args[0], scope):
            return fold.decider
    return fold.result()


def _exists_one(walker: Walker, node: Macro, elements: Iterator[Scope]) -> Any:
    count, unknown = 0, None
    for scope in elements:
        found = _test(walker, node, node.args[0], scope)
        if type(found) is Unknown:
            unknown = found if unknown is None else union(unknown, found)
        elif found:
            count += 1
    return unknown if unknown is not None else count == 1


def _test(walker: Walker, node: Macro, predicate: Node, scope: Scope) -> Any:
    found = walker.value(predicate, scope)
    if type(found) is not bool and type(found) is not Unknown:
        raise located(predicate, EvaluationError(f"`{node.kind}` needs true or false, not {describe(found)}"))
    return found


def _transform(walker: Walker, node: Macro, elements: Iterator[Scope]) -> Any:
    """map, filter, transformList, transformMap, transformMapEntry, sortBy."""
    kind = node.kind
    first = len(node.names) - 1
    built: list[Any] = []
    unknown: Unknown | None = None
    for scope in elements:
        if kind == "filter" or len(node.args) == 2:
            chosen = _test(walker, node, node.args[0], scope)
            if type(chosen) is Unknown:
                unknown = chosen if unknown is None else union(unknown, chosen)
                continue
            if not chosen:
                continue
        value = scope.names[node.names[first]] if kind == "filter" else walker.value(node.args[-1], scope)
        inside = walker.whole(value)
        if inside is not None:
            unknown = inside if unknown is None else union(unknown, inside)
        elif kind == "transformMap":
            built.append((scope.names[node.names[0]], value))
        elif kind == "transformMapEntry":
            if type(value) is not dict or len(value) != 1:
                raise EvaluationError("`transformMapEntry` needs a map with one entry for each element")
            built.extend(values.entries(value))
        elif kind == "sortBy":
            built.append((value, scope.names[node.names[0]]))
        else:
            built.append(value)
    if unknown is not None:
        return unknown
    if kind in ("transformMap", "transformMapEntry"):
        return walker.built(values.make_map(built))
    if kind == "sortBy":
        return _sorted(built)
    return built


def _sorted(pairs: list[tuple[Any, Any]]) -> list[Any]:
    from functools import cmp_to_key

    kinds = {type(key) for key, _ in pairs}
    if len(kinds) > 1:
        raise EvaluationError("`sortBy` needs keys of one type")

    def order(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
        return values.compare(one[0], other[0]) or 0

    return [value for _, value in sorted(pairs, key=cmp_to_key(order))]


MACROS: dict[str, Callable[[Walker, Macro, Iterator[Scope]], Any]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "existsOne": _exists_one,
    "map": _transform,
    "filter": _transform,
    "transformList": _transform,
    "transformMap": _transform,
    "transformMapEntry": _transform,
    "sortBy": _transform,
}
