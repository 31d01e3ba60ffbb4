"""How each class of node is written as Python.

A form writes the statements that a node needs and returns the code of its value, an expression without effects that
cannot fail, with what is known of it (`writer.Operand`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from policy_eval.cel.comprehensions import weight
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
    Name,
    Node,
    Select,
    Unary,
)
from policy_eval.cel.types import MISSING, Nullable, Record
from policy_eval.cel.values import EXACT
from policy_eval.cel.writer import Operand, Unsupported, Writer

_HELPERS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
}


def _fails(writer: Writer) -> Operand:
    """Code for what cannot but fail."""
    writer.line("raise UNDECIDED")
    return "None", "null"


def _literal(writer: Writer, node: Literal) -> Operand:
    value = node.value
    if value is None or type(value) is bool:
        return repr(value), "null" if value is None else "bool"
    if type(value) in (int, float) and abs(value) > EXACT:
        return writer.constant(value), ""  # compared with care: see `runtime.ordered`
    if type(value) in (int, float, str):
        return writer.constant(value), type(value).__name__
    raise Unsupported


def _select(writer: Writer, node: Select) -> Operand:
    if node.optional:
        raise Unsupported
    path = writer.path(node)
    if path is not None:
        kind = writer.kind_of(path)
        if isinstance(kind.of if isinstance(kind, Nullable) else kind, Record):
            raise Unsupported  # a record as a whole: only the walker has its defaults
        return writer.read(path), ""
    return _member(writer, node.of, node.field), ""


def _member(writer: Writer, of: Node, field: str) -> str:
    code, kind = writer.hold(writer.value(of))
    if kind:
        return _fails(writer)[0]
    path = ("", code, field)
    known = writer.have.get(path)
    if known is None:
        known = writer.key(code, writer.constant(field))
        writer.have[path] = known
    return known


def _name(writer: Writer, node: Name) -> Operand:
    bound = writer.local.get(node.name)
    if isinstance(bound, str):
        return bound, ""
    if bound is not None:
        inner, scope, slot = bound
        return _lazy(writer, slot, inner, scope)
    if node.name in writer.variables:
        if writer.path(node) is not None:
            return _select_path(writer, node)
        return _lazy(writer, f"v{list(writer.variables).index(node.name)}", writer.variables[node.name], {})
    if node.name in writer.roots:
        return _select_path(writer, node)
    raise Unsupported


def _select_path(writer: Writer, node: Node) -> Operand:
    path = writer.path(node)
    assert path is not None
    kind = writer.kind_of(path)
    if isinstance(kind.of if isinstance(kind, Nullable) else kind, Record):
        raise Unsupported
    return writer.read(path), ""


def _lazy(writer: Writer, slot: str, node: Node, scope: dict[str, Any]) -> Operand:
    """A named expression: computed where it is first needed, kept for later uses."""
    if ("=", slot) in writer.have:
        return slot, ""
    if slot in writer.open:
        raise Unsupported
    writer.lazies[slot] = "FAILS"  # a value that no expression has
    writer.open.add(slot)
    outer, writer.local = writer.local, scope
    try:
        with writer.block(f"if {slot} is FAILS:"):
            code, _ = writer.value(node)
            writer.line(f"{slot} = {code}")
    finally:
        writer.local = outer
        writer.open.discard(slot)
    writer.have["=", slot] = slot
    return slot, ""


def _has(writer: Writer, node: Has) -> Operand:
    path = writer.path(node.of)
    key = writer.constant(node.field)
    if path is not None:
        kind = writer.kind_of(path)
        record = kind.of if isinstance(kind, Nullable) else kind
        parent = writer.read(path)
        writer.line(f"if type({parent}) is not dict: raise UNDECIDED")
        if isinstance(record, Record):
            field = record.fields.get(node.field)
            if field is None:
                raise Unsupported
            if field.default is MISSING:
                writer.line(f"if {key} not in {parent}: raise UNDECIDED")
            else:
                writer.line(f"if {key} not in {parent}: {writer.default(parent, record, node.field)}")
            return "True", "bool"
        return f"{key} in {parent}", "bool"
    code, known = writer.hold(writer.value(node.of))
    if known:
        return _fails(writer)
    writer.line(f"if type({code}) is not dict: raise UNDECIDED")
    return f"{key} in {code}", "bool"


def _index(writer: Writer, node: Index) -> Operand:
    if node.optional:
        raise Unsupported
    of, known = writer.hold(writer.value(node.of))
    if known:
        return _fails(writer)
    at, kind = writer.value(node.index)
    if kind == "str":
        return writer.key(of, at), ""
    return writer.hold((f"index({of}, {at})", ""))


def _unary(writer: Writer, node: Unary) -> Operand:
    if node.op == "!":
        return f"not ({writer.test(node.of)})", "bool"
    code, _ = writer.value(node.of)
    return writer.hold((f"negate({code})", ""))


def _binary(writer: Writer, node: Binary) -> Operand:
    op = node.op
    if op in ("==", "!="):
        return _equality(writer, node)
    if op == "in":
        return _in(writer, node)
    left = writer.hold(writer.value(node.left))
    right = writer.hold(writer.value(node.right))
    if op in _HELPERS:
        return _arithmetic(writer, op, left, right)
    _ordered(writer, left, right)
    return f"{left[0]} {op} {right[0]}", "bool"


def _arithmetic(writer: Writer, op: str, left: Operand, right: Operand) -> Operand:
    """An operation; that of ints in place, unless it can fail in more ways than by its size."""
    if op in ("+", "-", "*") and (short := _short(op, left, right)):
        return short, ""
    name = writer.temp()
    helper = f"{name} = {_HELPERS[op]}({left[0]}, {right[0]})"
    if op in ("/", "%"):
        writer.line(helper)
        return name, ""
    tests = [f"type({code}) is int" for code, kind in (left, right) if kind != "int"]
    with writer.block(f"if {' and '.join(tests) or 'True'}:"):
        writer.line(f"{name} = {left[0]} {op} {right[0]}")
        # Python compares small ints faster than large ones, and most are small.
        writer.line(f"if not -1000000000 < {name} < 1000000000:")
        writer.line(f" if not -9223372036854775808 <= {name} <= 9223372036854775807: raise UNDECIDED")
    writer.line(f"else: {helper}")
    return name, ""


def _short(op: str, left: Operand, right: Operand) -> str | None:
    """An operation of a local and a small whole number, as one expression: no overflow where the local is small."""
    number, local = (left[0], right[0]) if left[1] == "int" else (right[0], left[0])
    if not local.isidentifier() or not (number.isdecimal() and len(number) < 10):
        return None
    small = f"type({local}) is int and {local} < 1000000000 and {local} > -1000000000"
    return f"({left[0]} {op} {right[0]} if {small} else {_HELPERS[op]}({left[0]}, {right[0]}))"


def _ordered(writer: Writer, left: Operand, right: Operand) -> None:
    """Make sure that Python compares the operands as CEL does: of booleans and lists it knows an order too."""
    numbers = ("int", "float")
    kinds = (left[1], right[1])
    if (kinds[0] in numbers and kinds[1] in numbers) or kinds == ("str", "str"):
        return
    if all(kinds):
        writer.line("raise UNDECIDED")
        return
    if kinds[0] in numbers or kinds[1] in numbers:
        other = right[0] if kinds[0] in numbers else left[0]
        # Python itself refuses to compare a number with anything but a number or a boolean.
        writer.line(f"if {other} is True or {other} is False: raise UNDECIDED")
    elif "str" in kinds:
        other = right[0] if kinds[0] == "str" else left[0]
        writer.line(f"if type({other}) is not str: raise UNDECIDED")
    else:
        writer.line(f"ordered({left[0]}, {right[0]})")


def _equality(writer: Writer, node: Binary) -> Operand:
    same = node.op == "=="
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if type(other) is Literal and other.value is None:
            path = writer.path(one)
            code, kind = (writer.read(path), "") if path is not None else writer.value(one)
            if kind:
                return repr((kind == "null") is same), "bool"
            return f"({code}) is {'' if same else 'not '}None", "bool"
    left = writer.value(node.left)
    if left[1] != "bool" or left[0] not in ("True", "False"):
        left = writer.hold(left)
    right = writer.value(node.right)
    kinds = (left[1], right[1])
    if all(kinds) and kinds[0] != kinds[1] and not set(kinds) <= {"int", "float"}:
        return repr(not same), "bool"
    for (code, known), (value, kind), literal in ((left, right, node.right), (right, left, node.left)):
        if type(literal) is not Literal:
            continue
        if kind == "bool":
            return f"({code}) is {'' if same else 'not '}{value}", "bool"
        if kind == "str":
            return f"{code} {node.op} {value}", "bool"
        if kind in ("int", "float"):
            if literal.value in (0, 1) and known != "int":  # Python's True is 1, CEL's is not
                code, _ = writer.hold((code, ""))
                text = f"({code} == {value} and {code} is not True and {code} is not False)"
                return text if same else f"not {text}", "bool"
            return f"{code} {node.op} {value}", "bool"
    if kinds == ("bool", "bool"):
        return f"({left[0]}) is {'' if same else 'not '}({right[0]})", "bool"
    return writer.hold((f"{'' if same else 'not '}equal({left[0]}, {right[0]})", "bool"))


def _in(writer: Writer, node: Binary) -> Operand:
    right = node.right
    if type(right) is ListLiteral and not right.optional:
        values = [item.value for item in right.items if type(item) is Literal]
        if len(values) == len(right.items):
            left, _ = writer.value(node.left)
            if all(type(value) is str for value in values):
                return f"{left} in {writer.constant(tuple(values))}", "bool"
            if all(value is None or type(value) in (bool, int, float, str) for value in values):
                return writer.hold((f"contains({left}, {writer.constant(values)})", "bool"))
    left, _ = writer.hold(writer.value(node.left))
    code, _ = writer.value(right)
    return writer.hold((f"contains({left}, {code})", "bool"))


def _call(writer: Writer, node: Call) -> Operand:
    args = [writer.hold(writer.value(arg)) for arg in node.args]
    if node.function == "size" and len(args) == 1:
        return writer.hold((f"size({args[0][0]})", "int"))
    method = _METHODS.get(node.function)
    part = node.args[-1] if node.args else None
    short = type(part) is Literal and type(part.value) is str and len(part.value) < 1000
    if node.function == "matches" and not short:
        raise Unsupported  # only the walker counts the patterns it compiles
    if method and short and node.member and len(args) == 2:
        writer.line(f"if type({args[0][0]}) is not str or len({args[0][0]}) >= 1000: raise UNDECIDED")
        return method.format(args[0][0], args[1][0]), "bool"
    codes = ", ".join([writer.constant(node.function), str(node.member), *(code for code, _ in args)])
    return writer.hold((f"apply({codes})", ""))


_METHODS = {"startsWith": "{}.startswith({})", "endsWith": "{}.endswith({})", "contains": "{1} in {0}"}


def _conditional(writer: Writer, node: Conditional) -> Operand:
    code = writer.test(node.condition)
    name = writer.temp()
    kinds = []
    for head, branch in ((f"if {code}:", node.then), ("else:", node.otherwise)):
        with writer.block(head):
            value, kind = writer.value(branch)
            writer.line(f"{name} = {value}")
            kinds.append(kind)
    return name, kinds[0] if kinds[0] == kinds[1] else ""


def _logic(writer: Writer, node: Logic) -> Operand:
    decider = node.op == "||"
    name = writer.temp()
    if not writer.absorb and not writer.may_fail(node):
        _chain(writer, node.args, name, decider)
        return name, "bool"
    writer.line(f"{name} = {not decider}")
    failed = f"{name} = None"
    for at, arg in enumerate(node.args):
        with (
            writer.block(f"if {name} is not {decider}:") if at else nullcontext(),
            _absorbing(writer, failed),
            writer.operand(failed),
        ):
            writer.jump(arg, f"{name} = {decider}", wanted=not decider)
    writer.line(f"if {name} is None: raise UNDECIDED")
    return name, "bool"


@contextmanager
def _absorbing(writer: Writer, failed: str) -> Iterator[None]:
    """In the variant that absorbs: ``failed`` runs for any failure."""
    if not writer.absorb:
        yield
        return
    with writer.block("try:", counted=True):
        yield
    writer.line(f"except FAILS: {failed}")


def _chain(writer: Writer, args: Sequence[Node], name: str, decider: bool) -> None:
    """``name`` is the value of the operands so far; each is only computed when those before did not decide."""
    writer.line(f"{name} = {writer.test(args[0])}")
    rest = args[1:]
    while rest:
        # Some operands are nested, so that what one reads is known to the next; not all, for the sake of depth.
        group, rest = rest[:6], rest[6:]
        _nest(writer, group, name, decider)


def _nest(writer: Writer, args: Sequence[Node], name: str, decider: bool) -> None:
    with writer.block(f"if {'not ' if decider else ''}{name}:"):
        writer.line(f"{name} = {writer.test(args[0])}")
        if len(args) > 1:
            _nest(writer, args[1:], name, decider)


def _macro(writer: Writer, node: Macro) -> Operand:
    if node.kind not in ("all", "exists", "existsOne", "filter", "map", "transformList"):
        raise Unsupported
    of, _ = writer.hold(writer.value(node.of))
    name = writer.temp()
    locals_ = [writer.temp() for _ in node.names]
    if len(node.names) == 1:
        writer.line(f"if type({of}) is not list and type({of}) is not dict: raise UNDECIDED")
        head = f"for {locals_[0]} in {of}:"
    else:
        head = f"for {', '.join(locals_)} in pairs({of}):"
    writer.counts = True
    cost = weight(node)
    writer.line(f"n += len({of})" + (f" * {cost}" if cost > 1 else ""))
    writer.line(f"if n > {writer.limits.iterations}: raise Stop")
    outer = writer.local
    writer.local = {**outer, **dict(zip(node.names, locals_, strict=True))}
    writer.loops += 1
    try:
        _FOLDS.get(node.kind, _build)(writer, node, name, head, locals_)
    finally:
        writer.local = outer
        writer.loops -= 1
    return name, "bool" if node.kind in _FOLDS else ""


def _quantifier(writer: Writer, node: Macro, name: str, head: str, locals_: list[str]) -> None:
    goes_on = node.kind == "all"
    writer.line(f"{name} = {goes_on}")
    found = f"{name} = {not goes_on}; break"
    with (
        writer.block(head, counted=True),
        _absorbing(writer, f"{name} = None"),
        nullcontext() if not writer.absorb else writer.operand(f"{name} = None"),
    ):
        writer.jump(node.args[0], found, wanted=goes_on)
    if writer.absorb:
        writer.line(f"if {name} is None: raise UNDECIDED")


def _exists_one(writer: Writer, node: Macro, name: str, head: str, locals_: list[str]) -> None:
    count = writer.temp()
    writer.line(f"{count} = 0")
    with writer.block(head, counted=True):
        writer.line(f"if {writer.test(node.args[0])}: {count} += 1")
    writer.line(f"{name} = {count} == 1")


def _build(writer: Writer, node: Macro, name: str, head: str, locals_: list[str]) -> None:
    add = writer.temp()
    start = len(writer.lines)
    writer.line(f"{name} = []; {add} = {name}.append")
    with writer.block(head, counted=True):
        if node.kind == "filter":
            writer.line(f"if {writer.test(node.args[0])}: {add}({locals_[0]})")
            return
        if len(node.args) == 2:
            writer.line(f"if not ({writer.test(node.args[0])}): continue")
        code, _ = writer.value(node.args[-1])
        writer.line(f"{add}({code})")
    if len(writer.lines) == start + 3 and set(_LOCAL.findall(code)) <= set(locals_):
        # Nothing but an expression of the element: Python has a faster form for that.
        del writer.lines[start:]
        writer.line(f"{name} = [{code} {head.removesuffix(':')}]")


_LOCAL = re.compile(r"\b[tr]\d+\b")

_FOLDS: dict[str, Callable[[Writer, Macro, str, str, list[str]], None]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "existsOne": _exists_one,
}


def _bind(writer: Writer, node: Bind) -> Operand:
    slot = f"b{writer.temp()}"
    outer = writer.local
    writer.local = {**outer, node.name: (node.value, outer, slot)}
    # Each time the whole is computed anew (in a loop), so is the bound value.
    writer.line(f"{slot} = FAILS")
    try:
        return writer.hold(writer.value(node.body))
    finally:
        writer.local = outer


FORMS: dict[type[Node], Callable[[Writer, Any], Operand]] = {
    Literal: _literal,
    Name: _name,
    Select: _select,
    Has: _has,
    Index: _index,
    Unary: _unary,
    Binary: _binary,
    Call: _call,
    Conditional: _conditional,
    Logic: _logic,
    Macro: _macro,
    Bind: _bind,
}
