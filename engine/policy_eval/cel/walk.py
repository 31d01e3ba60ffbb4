"""The exact evaluator: CEL's semantics over values, unknowns included, one function a class of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from policy_eval.cel import values
from policy_eval.cel.comprehensions import comprehension
from policy_eval.cel.dispatch import call
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
)
from policy_eval.cel.values import Optional, Unknown, describe
from policy_eval.cel.walker import Fold, Form, Lazy, Scope, Walker, Watch, parts, union


def start(limits: Limits = DEFAULT, watch: Watch | None = None) -> Walker:
    """A new evaluation. ``watch(node, value or error)`` is told of each sub-expression as it is done."""
    return Walker(_FORMS, limits, watch)


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
        return of if type(index) is not Unknown else index if type(of) is not Unknown else union(of, index)
    if type(of) is Optional or node.optional:
        return _optional(of, index)
    found = _entry(of, index)
    if found is _ABSENT:
        if type(of) is list:
            raise EvaluationError(f"the index {_show(index)} is outside the list of {len(of)}")
        raise EvaluationError(f"there is no key {_show(index)}")
    return found


def _show(value: Any) -> str:
    text = str(value) if not isinstance(value, str) else repr(value)
    return f"`{text[:60]}…`" if len(text) > 60 else f"`{text}`"


def _call(walker: Walker, node: Call, scope: Scope) -> Any:
    if node.function in ("or", "orValue") and node.member and len(node.args) == 2:
        return _or(walker, node, scope)
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
        if node.function == "matches" and len(args) == 2 and type(args[0]) is type(args[1]) is str:
            _pay_search(walker, args[0], args[1], written=type(node.args[-1]) is Literal)
    return walker.built(call(node.function, node.member, args)) if unknown is None else unknown


def _or(walker: Walker, node: Call, scope: Scope) -> Any:
    """``optional.or(other)``, ``optional.orValue(other)``: what is not needed is not computed, so may be an error."""
    first = walker.value(node.args[0], scope)
    if type(first) is Unknown:
        return first
    if type(first) is Optional and first.has_value():
        return first if node.function == "or" else first.value
    second = walker.value(node.args[1], scope)
    return second if type(second) is Unknown else call(node.function, True, [first, second])


def _pay_search(walker: Walker, text: str, pattern: str, *, written: bool) -> None:
    """Account for a search, and for compiling a pattern that is not ``written`` in the expression."""
    from policy_eval.cel.functions.standard import compiled, search_steps

    if not written and pattern not in walker.patterns:
        walker.patterns.add(pattern)
        walker.charge(compiled(pattern).programsize // 20)
    walker.charge(search_steps(text, pattern))


def _direct(value: Any) -> Unknown | None:
    """The unknowns among a value's own entries: what its size, or what it holds, may depend on."""
    if type(value) is Unknown:
        return value
    found: Unknown | None = None
    if type(value) in (list, dict):
        for item in parts(value):
            if type(item) is Unknown:
                found = item if found is None else union(found, item)
    return found


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
        return walker.built(_ARITHMETIC[op](left, right))
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
        return right if unknown is None else union(unknown, right)
    if unknown is not None:
        return unknown
    if type(right) is dict:
        return values.lookup(right, left, _ABSENT, strict=False) is not _ABSENT
    if type(right) is not list:
        raise EvaluationError(f"`in` needs a list or a map on its right, not {describe(right)}")
    walker.charge(len(right) // 1000)
    if id(right) not in walker.certain and Unknown not in map(type, right):
        walker.certain[id(right)] = right
    if id(right) in walker.certain and (told := values.plain_member(left, right)) is not None:
        return told
    walker.charge(len(right) // 20)  # one by one from here on
    composed = type(left) in _COMPOSED
    for item in right:
        inside = walker.whole(item) if composed else item if type(item) is Unknown else None
        if inside is not None:
            unknown = inside if unknown is None else union(unknown, inside)
        elif composed or type(item) not in _COMPOSED:
            _pay(walker, left, item)
            if values.equal(left, item):
                return True
    return False if unknown is None else unknown


_COMPOSED = (list, dict, Optional)


def _pay(walker: Walker, left: Any, right: Any) -> None:
    """Account for a comparison. What no literal is as long as is charged, so that generated code need not count."""
    if type(left) in _COMPOSED and type(right) in _COMPOSED:
        walker.charge(min(walker.size(left), walker.size(right)) // 10)
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


def _logic(walker: Walker, node: Logic, scope: Scope) -> Any:
    fold = Fold(node.op)
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
    items = walker.strict((*node.keys, *node.values), scope)
    if isinstance(items, Unknown):
        return items
    count = len(node.keys)
    pairs = []
    for at in range(count):
        key, value = items[at], items[count + at]
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


_FORMS: dict[type[Node], Form] = {
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
    Macro: comprehension,
    Bind: _bind,
}
