"""The exact evaluator: CEL's semantics over values, unknowns included, one node after the other.

Unknown facts follow CEL's partial evaluation: what is decided without them is decided, everything else that
needs them is an `Unknown` naming them all. Errors are exceptions inside; `&&`, `||`, `all` and `exists` absorb
one where another operand decides, and an unknown outranks an error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policy_eval.cel import values
from policy_eval.cel.dispatch import call, describe
from policy_eval.cel.errors import EvaluationError, LimitExceeded
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.resolve import TYPE_NAMES
from policy_eval.cel.tree import (
    Binary,
    Bind,
    Call,
    Conditional,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    measure,
)
from policy_eval.cel.values import Optional, Unknown


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


_DEEP = 10**9
Watch = Callable[[Node, Any], None]


class Walker:
    """One evaluation. ``watch(node, value or error)`` is told of each sub-expression as it is done."""

    def __init__(self, limits: Limits = DEFAULT, watch: Watch | None = None) -> None:
        self.limits = limits
        self.steps = 0
        self.watch = watch
        self.seen: dict[int, tuple[Any, Unknown | None, int]] = {}

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of a node: a CEL value or an `Unknown`. Raises `EvaluationError`."""
        try:
            found = _EVALUATE[type(node)](self, node, scope)
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

    def _scan(self, value: Any, depth: int) -> tuple[Unknown | None, int]:
        if depth > self.limits.depth:
            return None, _DEEP
        known = self.seen.get(id(value))
        if known is not None:
            return known[1], known[2]
        unknown, total = None, 1
        for item in _parts(value):
            kind = type(item)
            if kind is Unknown:
                unknown = item if unknown is None else _union(unknown, item)
            elif kind is list or kind is dict or kind is Optional:
                inner, count = self._scan(item, depth + 1)
                total = min(total + count, _DEEP)
                if inner is not None:
                    unknown = inner if unknown is None else _union(unknown, inner)
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
                unknown = inside if unknown is None else _union(unknown, inside)
            found.append(value)
        return found if unknown is None else unknown


def _parts(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        yield from value.values()
    elif type(value) is list:
        yield from value
    elif value.has_value():
        yield value.value


def _union(one: Unknown, other: Unknown) -> Unknown:
    return Unknown(one.pointers | other.pointers)


# --- one function per class of node -------------------------------------------------------------------------


def _literal(walker: Walker, node: Literal, scope: Scope) -> Any:
    return node.value


def _name(walker: Walker, node: Name, scope: Scope) -> Any:
    at: Scope | None = scope
    while at is not None:
        if node.name in at.names and not (node.absolute and at.outer is not None):
            found = at.names[node.name]
            return found.get(walker) if type(found) is Lazy else found
        at = at.outer
    if node.name in TYPE_NAMES:
        return values.TypeValue(node.name)
    raise EvaluationError(f"there is no variable `{node.name}`")


def _select(walker: Walker, node: Select, scope: Scope) -> Any:
    of = walker.value(node.of, scope)
    if type(of) is Unknown:
        return of
    if type(of) is Optional or node.optional:
        return _optional(of, node.field)
    return _field(of, node.field)


def _field(of: Any, field: str) -> Any:
    if type(of) is not dict:
        raise EvaluationError(f"`.{field}` needs a map, not {describe(of)}")
    if field not in of:
        raise EvaluationError(f"there is no field `{field}`")
    return of[field]


def _optional(of: Any, key: Any) -> Any:
    """``of.?key`` and ``of[?key]``: an optional, empty where there is no such entry; so on from an optional."""
    if type(of) is Optional:
        if not of.has_value():
            return of
        of = of.value
    found = _entry(of, key)
    if type(found) is Unknown:
        return found
    return values.NONE if found is _ABSENT else Optional.of(found)


_ABSENT = object()


def _entry(of: Any, key: Any) -> Any:
    """The entry of a map or list, or `_ABSENT`. Raises `EvaluationError` for other values and keys."""
    if type(of) is dict:
        return values.lookup(of, key, _ABSENT)
    if type(of) is list:
        at = values.list_index(key)
        return of[at] if at is not None and 0 <= at < len(of) else _ABSENT
    raise EvaluationError(f"`[]` needs a list or a map, not {describe(of)}")


def _has(walker: Walker, node: Has, scope: Scope) -> Any:
    of = walker.value(node.of, scope)
    if type(of) is Unknown:
        return of
    if type(of) is Optional:
        found = _optional(of, node.field)
        return found if type(found) is Unknown else found.has_value()
    if type(of) is not dict:
        raise EvaluationError(f"`has` needs a field of a map, not of {describe(of)}")
    found = of.get(node.field, _ABSENT)
    return found if type(found) is Unknown else found is not _ABSENT


def _index(walker: Walker, node: Index, scope: Scope) -> Any:
    of = walker.value(node.of, scope)
    index = walker.value(node.index, scope)
    if type(of) is Unknown or type(index) is Unknown:
        return of if type(index) is not Unknown else index if type(of) is not Unknown else _union(of, index)
    if type(of) is Optional or node.optional:
        return _optional(of, index)
    found = _entry(of, index)
    if found is _ABSENT:
        if type(of) is list:
            raise EvaluationError(
                f"the index {_show(index)} is outside the list of {len(of)}"
            )
        raise EvaluationError(f"there is no key {_show(index)}")
    return found


def _show(value: Any) -> str:
    text = str(value) if not isinstance(value, str) else repr(value)
    return f"`{text[:60]}…`" if len(text) > 60 else f"`{text}`"


def _call(walker: Walker, node: Call, scope: Scope) -> Any:
    if node.function == "size" and len(node.args) == 1:
        args = [walker.value(node.args[0], scope)]
        unknown = _direct(args[0])
    else:
        found = walker.strict(node.args, scope)
        if isinstance(found, Unknown):
            return found
        args, unknown = found, None
        for arg in args:
            walker.charge(walker.size(arg) // 1000)
    return _built(walker, call(node.function, node.member, args)) if unknown is None else unknown


def _direct(value: Any) -> Unknown | None:
    """The unknowns among a value's own entries: what its size, or what it holds, may depend on."""
    if type(value) is Unknown:
        return value
    found: Unknown | None = None
    if type(value) in (list, dict):
        for item in _parts(value):
            if type(item) is Unknown:
                found = item if found is None else _union(found, item)
    return found


def _built(walker: Walker, value: Any) -> Any:
    """A value that an operator or a function made: not too large, and paid for by its size."""
    if type(value) in (str, bytes, list, dict):
        if len(value) > walker.limits.size:
            raise LimitExceeded(f"a value has more than {walker.limits.size} characters or elements")
        walker.charge(len(value) // 200)
    return value


def _unary(walker: Walker, node: Unary, scope: Scope) -> Any:
    of = walker.value(node.of, scope)
    if type(of) is Unknown:
        return of
    if node.op == "-":
        return values.negate(of)
    if type(of) is not bool:
        raise EvaluationError(f"`!` needs true or false, not {describe(of)}")
    return not of


def _binary(walker: Walker, node: Binary, scope: Scope) -> Any:
    if node.op in ("==", "!=") and (told := _null_test(walker, node, scope)) is not None:
        return told
    if node.op == "in":
        return _in(walker, node, scope)
    operands = walker.strict((node.left, node.right), scope)
    if isinstance(operands, Unknown):
        return operands
    left, right = operands
    op = node.op
    if op in ("==", "!="):
        _pay(walker, left, right)
        return values.equal(left, right) == (op == "==")
    if op in _ARITHMETIC:
        return _built(walker, _ARITHMETIC[op](left, right))
    order = values.compare(left, right)
    if order is None:  # NaN has no place in the order
        return False
    return _ORDER[op](order)


def _null_test(walker: Walker, node: Binary, scope: Scope) -> Any:
    """``x == null`` where ``x`` is a map or list: decided, whatever of it is unknown. None: not such a test."""
    for literal, other in ((node.right, node.left), (node.left, node.right)):
        if type(literal) is Literal and literal.value is None:
            found = walker.value(other, scope)
            if type(found) is not Unknown:
                return (found is None) == (node.op == "==")
            return found
    return None


def _in(walker: Walker, node: Binary, scope: Scope) -> Any:
    """``left in right``. Entries of another kind than ``left`` do not matter, not even unknown parts of them."""
    unknown: Unknown | None = None
    try:
        left = walker.value(node.left, scope)
        unknown = walker.whole(left)
        right = walker.value(node.right, scope)
    except LimitExceeded:
        raise
    except EvaluationError:
        if unknown is None:
            raise
        return unknown
    if type(right) is Unknown:
        return right if unknown is None else _union(unknown, right)
    if unknown is not None:
        return unknown
    if type(right) is dict:
        return values.lookup(right, left, _ABSENT, strict=False) is not _ABSENT
    if type(right) is not list:
        raise EvaluationError(f"`in` needs a list or a map on its right, not {describe(right)}")
    walker.charge(len(right) // 1000)
    composed = type(left) in _COMPOSED
    for item in right:
        inside = walker.whole(item) if composed else item if type(item) is Unknown else None
        if inside is not None:
            unknown = inside if unknown is None else _union(unknown, inside)
        elif composed or type(item) not in _COMPOSED:
            _pay(walker, left, item)
            if values.equal(left, item):
                return True
    return False if unknown is None else unknown


_COMPOSED = (list, dict, Optional)


def _pay(walker: Walker, left: Any, right: Any) -> None:
    """Account for a comparison. What no literal is as long as is charged, so that generated code need not count."""
    if type(left) in _COMPOSED and type(right) in _COMPOSED:
        walker.charge(min(walker.size(left), walker.size(right)) // 100)
    elif type(left) in (str, bytes) and type(right) in (str, bytes):
        walker.charge(min(len(left), len(right)) // 20_000)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.modulo,
}
_ORDER: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class _Fold:
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
                self.unknown = found if self.unknown is None else _union(self.unknown, found)
                return False
            raise _at(node, EvaluationError(f"`{self.op}` needs true or false, not {describe(found)}"))
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


def _at(node: Node, error: EvaluationError) -> EvaluationError:
    error.span = (node.start, node.end)
    return error


def _logic(walker: Walker, node: Logic, scope: Scope) -> Any:
    fold = _Fold(node.op)
    for arg in node.args:
        if fold.add(walker, arg, scope):
            return fold.decider
    return fold.result()


def _conditional(walker: Walker, node: Conditional, scope: Scope) -> Any:
    condition = walker.value(node.condition, scope)
    if type(condition) is Unknown:
        return condition
    if type(condition) is not bool:
        raise EvaluationError(f"`?` needs true or false before it, not {describe(condition)}")
    return walker.value(node.then if condition else node.otherwise, scope)


def _list(walker: Walker, node: ListLiteral, scope: Scope) -> Any:
    items = walker.strict(node.items, scope)
    if isinstance(items, Unknown) or not node.optional:
        return items
    found = []
    for at, item in enumerate(items):
        if at not in node.optional:
            found.append(item)
        elif type(item) is not Optional:
            raise EvaluationError(f"an entry marked with `?` must be an optional, not {describe(item)}")
        elif item.has_value():
            found.append(item.value)
    return found


def _map(walker: Walker, node: MapLiteral, scope: Scope) -> Any:
    parts = walker.strict((*node.keys, *node.values), scope)
    if isinstance(parts, Unknown):
        return parts
    count = len(node.keys)
    pairs = []
    for at in range(count):
        key, value = parts[at], parts[count + at]
        if at in node.optional:
            if type(value) is not Optional:
                raise EvaluationError(f"an entry marked with `?` must be an optional, not {describe(value)}")
            if not value.has_value():
                continue
            value = value.value
        pairs.append((key, value))
    return values.make_map(pairs)


def _bind(walker: Walker, node: Bind, scope: Scope) -> Any:
    return walker.value(node.body, Scope({node.name: Lazy(node.value, scope)}, scope))


# --- comprehensions -----------------------------------------------------------------------------------------


def weight(node: Macro) -> int:
    """The steps that one element costs: more for long predicates."""
    return 1 + sum(measure(arg)[0] for arg in node.args) // 100


def _macro(walker: Walker, node: Macro, scope: Scope) -> Any:
    of = walker.value(node.of, scope)
    if type(of) is Unknown:
        return of
    if type(of) is not list and type(of) is not dict:
        raise EvaluationError(f"`{node.kind}` needs a list or a map, not {describe(of)}")
    if type(of) is dict and node.kind == "sortBy":
        raise EvaluationError("`sortBy` needs a list, not a map")
    return _MACROS[node.kind](walker, node, _elements(walker, node, of, scope))


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
    fold = _Fold(node.kind)
    for scope in elements:
        if fold.add(walker, node.args[0], scope):
            return fold.decider
    return fold.result()


def _exists_one(walker: Walker, node: Macro, elements: Iterator[Scope]) -> Any:
    count, unknown = 0, None
    for scope in elements:
        found = _test(walker, node, node.args[0], scope)
        if type(found) is Unknown:
            unknown = found if unknown is None else _union(unknown, found)
        elif found:
            count += 1
    return unknown if unknown is not None else count == 1


def _test(walker: Walker, node: Macro, predicate: Node, scope: Scope) -> Any:
    found = walker.value(predicate, scope)
    if type(found) is not bool and type(found) is not Unknown:
        raise _at(predicate, EvaluationError(f"`{node.kind}` needs true or false, not {describe(found)}"))
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
                unknown = chosen if unknown is None else _union(unknown, chosen)
                continue
            if not chosen:
                continue
        value = scope.names[node.names[first]] if kind == "filter" else walker.value(node.args[-1], scope)
        inside = walker.whole(value)
        if inside is not None:
            unknown = inside if unknown is None else _union(unknown, inside)
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
        return _built(walker, values.make_map(built))
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


_MACROS: dict[str, Callable[[Walker, Macro, Iterator[Scope]], Any]] = {
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

_EVALUATE: dict[type[Node], Callable[[Walker, Any, Scope], Any]] = {
    Literal: _literal,
    Name: _name,
    Select: _select,
    Has: _has,
    Index: _index,
    Call: _call,
    Unary: _unary,
    Binary: _binary,
    Logic: _logic,
    Conditional: _conditional,
    ListLiteral: _list,
    MapLiteral: _map,
    Macro: _macro,
    Bind: _bind,
}
