"""From grammar rules to nodes: one method per rule, called by the parser bottom up."""

from __future__ import annotations

from typing import Any

from policy_eval.cel import literals
from policy_eval.cel.errors import EvaluationError
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
from policy_eval.record import replace

_RESERVED = """as break const continue else false for function if import in let loop namespace null package return
true var void while"""
RESERVED = frozenset(_RESERVED.split())

# Macro -> {number of arguments: number of variables}. The last one or two arguments are expressions.
_MACROS = {
    "all": {2: 1, 3: 2},
    "exists": {2: 1, 3: 2},
    "exists_one": {2: 1, 3: 2},
    "existsOne": {2: 1, 3: 2},
    "map": {2: 1, 3: 1},
    "filter": {2: 1},
    "transformList": {3: 2, 4: 2},
    "transformMap": {3: 2, 4: 2},
    "transformMapEntry": {3: 2, 4: 2},
    "sortBy": {2: 1},
}
_RENAMED = {"exists_one": "existsOne"}


class Fault(Exception):
    """A mistake in an expression: the arguments are message, start, end, help."""

    def __init__(self, message: str, start: int, end: int, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.help = message, start, end, help


class Lower:
    """The rules' methods. Each gets the parts of its rule: tokens of Lark and nodes made before.

    ``functions``: the names of qualified functions (``math.greatest``), to tell them from member calls.
    """

    def __init__(self, functions: frozenset[str]) -> None:
        self.functions = functions

    def expr(self, parts: list[Any]) -> Node:
        """``condition ? then : otherwise``"""
        condition, _, then, _, otherwise = parts
        return Conditional(
            start=condition.start, end=otherwise.end, condition=condition, then=then, otherwise=otherwise
        )

    def conditionalor(self, parts: list[Any]) -> Node:
        """``a || b``"""
        return _logic("||", parts)

    def conditionaland(self, parts: list[Any]) -> Node:
        """``a && b``"""
        return _logic("&&", parts)

    def operator(self, parts: list[Any]) -> Any:
        """``left op``, the first half of a binary operation."""
        return parts

    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = operator
    addition_add = addition_sub = multiplication_mul = multiplication_div = multiplication_mod = operator

    def relation(self, parts: list[Any]) -> Node:
        """``(left op) right``"""
        (left, op), right = parts
        return Binary(start=left.start, end=right.end, op=str(op), left=left, right=right)

    addition = multiplication = relation

    def unary_not(self, parts: list[Any]) -> Any:
        """The operator of a unary operation."""
        return parts[0]

    unary_neg = unary_not

    def unary(self, parts: list[Any]) -> Node:
        """``!of``, ``-of``"""
        op, of = parts
        return Unary(start=op.start_pos, end=of.end, op=str(op), of=of)

    def member_dot(self, parts: list[Any]) -> Node:
        """``of.field``"""
        of, _, field = parts
        return Select(start=of.start, end=field.end_pos, of=of, field=field.strip("`"))

    def member_opt_dot(self, parts: list[Any]) -> Node:
        """``of.?field``"""
        of, _, _, field = parts
        return Select(start=of.start, end=field.end_pos, of=of, field=field.strip("`"), optional=True)

    def member_index(self, parts: list[Any]) -> Node:
        """``of[index]``"""
        of, _, index, close = parts
        return Index(start=of.start, end=close.end_pos, of=of, index=index)

    def member_opt_index(self, parts: list[Any]) -> Node:
        """``of[?index]``"""
        of, _, _, index, close = parts
        return Index(start=of.start, end=close.end_pos, of=of, index=index, optional=True)

    def member_dot_arg(self, parts: list[Any]) -> Node:
        """``of.name(args)``: a method, a macro, or a function with a qualified name."""
        of, _, name, _, *rest = parts
        args = rest[0] if len(rest) == 2 else []
        start, end, function = of.start, rest[-1].end_pos, str(name)
        qualifier = _qualified(of)
        if qualifier == "cel" and function in _CEL:
            return self._cel(function, args, start, end)
        if function in _MACROS and len(args) in _MACROS[function]:
            return _macro(function, of, args, start, end)
        if function in ("optMap", "optFlatMap") and len(args) == 2:
            return _optional_map(function, of, args, start, end)
        if qualifier and (full := f"{qualifier}.{function}") in self.functions:
            return Call(start=start, end=end, function=full, args=tuple(args))
        return Call(start=start, end=end, function=function, args=(of, *args), member=True)

    def _cel(self, function: str, args: list[Node], start: int, end: int) -> Node:
        """``cel.bind`` and the names that ``cel.block`` uses, which are variables under names no one can write."""
        if function == "bind" and len(args) == 3:
            return Bind(start=start, end=end, name=_variable(args[0]), value=args[1], body=args[2])
        if function == "block" and len(args) == 2 and isinstance(args[0], ListLiteral):
            body = args[1]
            for number in reversed(range(len(args[0].items))):
                value = args[0].items[number]
                if number in args[0].optional:
                    raise Fault("`cel.block` takes no optional entries", start, end)
                body = Bind(start=start, end=end, name=f"@index{number}", value=value, body=body)
            return body
        numbers = [arg.value for arg in args if isinstance(arg, Literal) and type(arg.value) is int]
        if len(numbers) == len(args) == (1 if function == "index" else 2) and function != "bind":
            return Name(
                start=start,
                end=end,
                name="@" + ":".join((function, *map(str, numbers))).replace("index:", "index"),
            )
        raise Fault(f"`cel.{function}` is not used like this", start, end, _CEL[function])

    def member_object(self, parts: list[Any]) -> Node:
        """``Message{field: value}``"""
        raise Fault(
            "messages cannot be built",
            parts[0].start,
            parts[-1].end_pos,
            'write a map with its keys in quotes: `{"name": value}`',
        )

    def field_init(self, parts: list[Any]) -> Any:
        """``field: value`` of a message."""
        return parts

    fieldinits = field_init

    def ident(self, parts: list[Any]) -> Node:
        """``name``"""
        (token,) = parts
        if token in RESERVED:
            raise _reserved(token)
        return Name(start=token.start_pos, end=token.end_pos, name=str(token))

    def dot_ident(self, parts: list[Any]) -> Node:
        """``.name``"""
        dot, token = parts
        if token in RESERVED:
            raise _reserved(token)
        return Name(start=dot.start_pos, end=token.end_pos, name=str(token), absolute=True)

    def ident_arg(self, parts: list[Any]) -> Node:
        """``name(args)``"""
        name, _, *rest = parts
        args = rest[0] if len(rest) == 2 else []
        if name in RESERVED:
            raise _reserved(name)
        start, end = name.start_pos, rest[-1].end_pos
        if name == "has":
            if len(args) != 1 or not isinstance(args[0], Select) or args[0].optional:
                raise Fault(
                    "`has` needs the selection of a field",
                    args[0].start if args else start,
                    args[0].end if args else end,
                    "write `has(x.field)`; for a key of a map write `key in x`",
                )
            return Has(start=start, end=end, of=args[0].of, field=args[0].field)
        return Call(start=start, end=end, function=str(name), args=tuple(args))

    def dot_ident_arg(self, parts: list[Any]) -> Node:
        """``.name(args)``"""
        dot, *rest = parts
        found: Node = replace(self.ident_arg(rest), start=dot.start_pos)
        return found

    def paren_expr(self, parts: list[Any]) -> Node:
        """``(inner)``: the span includes the brackets."""
        opening, inner, closing = parts
        found: Node = replace(inner, start=opening.start_pos, end=closing.end_pos)
        return found

    def exprlist(self, parts: list[Any]) -> list[Node]:
        """``a, b``"""
        return parts[::2]

    def list_item(self, parts: list[Any]) -> Any:
        """``item`` or ``?item``"""
        return parts

    map_entry = list_item

    def list_items(self, parts: list[Any]) -> list[Any]:
        """``item, item,``"""
        return [part for part in parts if type(part) is list]

    mapinits = list_items

    def list_lit(self, parts: list[Any]) -> Node:
        """``[items]``"""
        entries = parts[1] if len(parts) == 3 else []
        return ListLiteral(
            start=parts[0].start_pos,
            end=parts[-1].end_pos,
            items=tuple(entry[-1] for entry in entries),
            optional=tuple(at for at, entry in enumerate(entries) if len(entry) == 2),
        )

    def map_lit(self, parts: list[Any]) -> Node:
        """``{entries}``"""
        entries = parts[1] if len(parts) == 3 else []
        return MapLiteral(
            start=parts[0].start_pos,
            end=parts[-1].end_pos,
            keys=tuple(entry[-3] for entry in entries),
            values=tuple(entry[-1] for entry in entries),
            optional=tuple(at for at, entry in enumerate(entries) if len(entry) == 4),
        )

    def literal(self, parts: list[Any]) -> Node:
        """A constant."""
        (token,) = parts
        try:
            value = _value(token.type, str(token))
        except EvaluationError as error:
            raise Fault(error.message, token.start_pos, token.end_pos) from error
        return Literal(start=token.start_pos, end=token.end_pos, value=value)


_CEL = {
    "bind": "write `cel.bind(name, value, expression)`",
    "block": "write `cel.block([value, ...], expression)`",
    "index": "write `cel.index(0)`",
    "iterVar": "write `cel.iterVar(0, 0)`",
    "accuVar": "write `cel.accuVar(0, 0)`",
}


def _value(kind: str, text: str) -> Any:
    if kind in ("STRING_LIT", "MLSTRING_LIT"):
        return literals.string(text)
    if kind == "BYTES_LIT":
        return literals.byte_string(text)
    if kind == "BOOL_LIT":
        return text == "true"
    if kind == "NULL_LIT":
        return None
    return literals.number(kind, text)


def _reserved(token: Any) -> Fault:
    return Fault(
        f"`{token}` is a reserved word of CEL",
        token.start_pos,
        token.end_pos,
        "use another name for the variable",
    )


def _logic(op: str, parts: list[Any]) -> Node:
    left, _, right = parts
    if isinstance(left, Logic) and left.op == op:
        args = (*left.args, right)
    else:
        args = (left, right)
    return Logic(start=left.start, end=right.end, op=op, args=args)


def _qualified(node: Node) -> str | None:
    """``a.b`` for a chain of names, None for anything else."""
    names = []
    while type(node) is Select and not node.optional:
        names.append(node.field)
        node = node.of
    if type(node) is not Name:
        return None
    return ".".join([node.name, *reversed(names)])


def _variable(node: Node) -> str:
    if isinstance(node, Name) and not node.absolute:
        return node.name
    raise Fault("a variable's name is needed here", node.start, node.end, "write a simple name such as `x`")


def _macro(function: str, of: Node, args: list[Node], start: int, end: int) -> Node:
    count = _MACROS[function][len(args)]
    names = tuple(map(_variable, args[:count]))
    if len(set(names)) != len(names):
        raise Fault("the two variables of a macro need different names", args[1].start, args[1].end)
    kind = _RENAMED.get(function, function)
    return Macro(start=start, end=end, kind=kind, of=of, names=names, args=tuple(args[count:]))


def _optional_map(function: str, of: Node, args: list[Node], start: int, end: int) -> Node:
    """``x.optMap(v, e)`` is ``x.hasValue() ? optional.of(e) : optional.none()`` with ``v`` the value of ``x``."""
    place: dict[str, Any] = {"start": start, "end": end}
    held = Name(**place, name="@optional")
    found = Bind(
        **place,
        name=_variable(args[0]),
        value=Call(**place, function="value", args=(held,), member=True),
        body=args[1],
    )
    then = found if function == "optFlatMap" else Call(**place, function="optional.of", args=(found,))
    choice = Conditional(
        **place,
        condition=Call(**place, function="hasValue", args=(held,), member=True),
        then=then,
        otherwise=Call(**place, function="optional.none", args=()),
    )
    return Bind(**place, name="@optional", value=of, body=choice)
