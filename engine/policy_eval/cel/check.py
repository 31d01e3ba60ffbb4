"""The checker: names, fields and types of an expression, before anything is evaluated. It finds all mistakes.

It is gradual: what has type ``dyn`` is left to the evaluation. Records are closed, so that a misspelt field is
found here and `has(x.mispelt)` does not quietly say no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policy_eval.cel.errors import Error, EvaluationError
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.relations import NUMBERS, apply, assignable, comparable, join, phrase, plain
from policy_eval.cel.resolve import TYPE_NAMES, resolve
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
from policy_eval.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Field,
    ListType,
    MapType,
    Nullable,
    OptionalType,
    Overload,
    Record,
    Type,
)

_LITERALS = {bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the checker found. ``node`` is None when the text could not be parsed; ``errors`` is empty when
    the expression may be used."""

    node: Node | None
    type: Type
    errors: list[Error]


def check_expression(
    text: str,
    environment: Mapping[str, Type],
    *,
    expect: Type | None = None,
    limits: Limits = DEFAULT,
    container: str = "",
) -> Checked:
    """Parse and check an expression over the variables of ``environment``; the result must be ``expect``.

    Never raises for what is in ``text``: every mistake is in ``errors``, in the order of the text.
    """
    from policy_eval.cel.parse import parse

    try:
        node = resolve(parse(text, limits), environment, container)
    except Error as error:
        return Checked(node=None, type=DYN, errors=[error])
    checker = _Checker(text, environment)
    try:
        found = checker.of(node, {})
    except RecursionError:
        message = "the expression is nested too deep for the stack that is left"
        return Checked(node=None, type=DYN, errors=[Error("limit", message, expression=text, end=len(text))])
    if expect is not None and not assignable(found, expect):
        checker.fault(node, f"the expression is {phrase(found)}, where {phrase(expect)} is needed")
    errors = sorted(checker.errors, key=lambda error: (error.start, error.end))
    return Checked(node=node, type=found, errors=errors)


class _Checker:
    def __init__(self, text: str, environment: Mapping[str, Type]) -> None:
        self.text = text
        self.environment = environment
        self.errors: list[Error] = []

    def fault(self, node: Node, message: str, help: str | None = None, field: str | None = None) -> Type:
        """Note a mistake at a node, or at the last ``field`` of it; its type is then anything."""
        start, end = node.start, node.end
        if field is not None:
            at = self.text.rfind(field, start, end)
            if at >= 0:
                start, end = at, at + len(field)
        self.errors.append(Error("check", message, expression=self.text, start=start, end=end, help=help))
        return DYN

    def source(self, node: Node) -> str:
        """The text of a node, shortened, in backticks."""
        text = " ".join(self.text[node.start : node.end].split())
        return f"`{text[:57]}…`" if len(text) > 60 else f"`{text}`"

    def of(self, node: Node, local: Mapping[str, Type]) -> Type:
        """The type of a node; mistakes inside it are noted."""
        match node:
            case Literal():
                return _LITERALS.get(type(node.value), UINT)
            case Name():
                return self.name(node, local)
            case Select():
                return self.select(node, self.of(node.of, local), node.optional)
            case Has():
                self.select(node, self.of(node.of, local), False)
                return BOOL
            case Index():
                return self.index(node, local)
            case Call():
                return self.call(node, local)
            case Unary():
                return self.unary(node, local)
            case Binary():
                return self.binary(node, local)
            case Logic():
                for arg in node.args:
                    self.need_bool(arg, local, f"`{node.op}`")
                return BOOL
            case Conditional():
                self.need_bool(node.condition, local, "`?`")
                return join(self.of(node.then, local), self.of(node.otherwise, local))
            case ListLiteral():
                return ListType(self.entries(node.items, node.optional, local))
            case MapLiteral():
                key = self.entries(node.keys, (), local)
                return MapType(key, self.entries(node.values, node.optional, local))
            case Macro():
                return self.macro(node, local)
            case Bind():
                return self.of(node.body, {**local, node.name: self.of(node.value, local)})
        raise AssertionError(node)

    def name(self, node: Name, local: Mapping[str, Type]) -> Type:
        if node.name in local:
            return local[node.name]
        if node.name in self.environment:
            return self.environment[node.name]
        if node.name in TYPE_NAMES:
            return TYPE
        known = [*local, *self.environment]
        return self.fault(node, f"there is no variable `{node.name}`", _did_you_mean(node.name, known))

    def select(self, node: Select | Has, of: Type, optional: bool) -> Type:
        """The type of a field; a field that a record does not have is a mistake."""
        if isinstance(of, OptionalType):
            found = self.select(node, of.of, False)
            return found if isinstance(found, OptionalType) else OptionalType(found)
        inner = of.of if isinstance(of, Nullable) else of
        if isinstance(inner, Record):
            field = inner.fields.get(node.field)
            if field is None:
                found = self.fault(
                    node,
                    f"{self.source(node.of)} has no field `{node.field}`",
                    _did_you_mean(node.field, inner.fields) or _list("its fields are", inner.fields),
                    node.field,
                )
            else:
                found = field.type
        elif isinstance(inner, MapType):
            found = inner.value
        elif inner == DYN:
            found = DYN
        else:
            found = self.fault(
                node,
                f"{self.source(node.of)} is {phrase(of)}, which has no fields",
                _USE_SIZE if node.field in ("length", "len", "size", "count") else None,
                node.field,
            )
        return OptionalType(found) if optional else found

    def index(self, node: Index, local: Mapping[str, Type]) -> Type:
        of, index = self.of(node.of, local), self.of(node.index, local)
        viral = isinstance(of, OptionalType)
        if isinstance(of, OptionalType):
            of = of.of
        inner = of.of if isinstance(of, Nullable) else of
        if isinstance(inner, Record):
            if isinstance(node.index, Literal) and type(node.index.value) is str:
                found = self.select(
                    Select(start=node.start, end=node.end, of=node.of, field=node.index.value), of, False
                )
            else:
                found = DYN
        elif isinstance(inner, ListType):
            found = inner.elem
            if not comparable(index, INT):
                self.fault(node.index, f"a list is indexed by an int, not by {phrase(index)}")
        elif isinstance(inner, MapType):
            found = inner.value
            if not comparable(index, inner.key):
                self.fault(node.index, f"the keys of the map are {inner.key}, not {index}")
        elif inner == DYN:
            found = DYN
        else:
            found = self.fault(node.of, f"`[]` needs a list or a map; {self.source(node.of)} is {phrase(of)}")
        return OptionalType(found) if viral or node.optional else found

    def need_bool(self, node: Node, local: Mapping[str, Type], what: str) -> None:
        found = self.of(node, local)
        if not assignable(found, BOOL):
            help_text = None
            if isinstance(plain(found), (ListType, MapType)) or plain(found) == STRING:
                help_text = (
                    f"to ask whether it is empty, write `size({self.text[node.start : node.end]}) == 0`"
                )
            self.fault(node, f"{what} needs true or false; {self.source(node)} is {phrase(found)}", help_text)

    def unary(self, node: Unary, local: Mapping[str, Type]) -> Type:
        if node.op == "!":
            self.need_bool(node.of, local, "`!`")
            return BOOL
        found = plain(self.of(node.of, local))
        if found not in (INT, DOUBLE, DYN):
            return self.fault(node.of, f"`-` needs a number; {self.source(node.of)} is {phrase(found)}")
        return found

    def entries(self, nodes: tuple[Node, ...], optional: tuple[int, ...], local: Mapping[str, Type]) -> Type:
        found: Type | None = None
        for at, node in enumerate(nodes):
            kind = self.of(node, local)
            if at in optional:
                if not isinstance(kind, OptionalType) and kind != DYN:
                    self.fault(
                        node,
                        f"an entry marked with `?` is an optional; {self.source(node)} is {phrase(kind)}",
                    )
                kind = kind.of if isinstance(kind, OptionalType) else DYN
            found = kind if found is None else join(found, kind)
        return found or DYN

    def macro(self, node: Macro, local: Mapping[str, Type]) -> Type:
        of = plain(self.of(node.of, local))
        first: Type
        if isinstance(of, ListType):
            first, second = (of.elem, DYN) if len(node.names) == 1 else (INT, of.elem)
        elif isinstance(of, MapType):
            first, second = of.key, of.value
        elif isinstance(of, Record):
            first, second = STRING, DYN
        else:
            first = second = DYN
            if of != DYN:
                self.fault(
                    node.of, f"`{node.kind}` needs a list or a map; {self.source(node.of)} is {phrase(of)}"
                )
        inner = {**local, **dict(zip(node.names, (first, second), strict=False))}
        predicates = node.args if node.kind in _PREDICATES else node.args[:-1]
        for predicate in predicates:
            self.need_bool(predicate, inner, f"`{node.kind}`")
        if node.kind == "filter":
            return of if isinstance(of, ListType) else ListType(first)
        if node.kind in _PREDICATES:
            return BOOL
        result = self.of(node.args[-1], inner)
        if node.kind == "transformMap":
            return MapType(first, result)
        if node.kind == "transformMapEntry":
            return result if isinstance(result, MapType) else MapType()
        return of if node.kind == "sortBy" else ListType(result)

    # --- operators and functions ---

    def binary(self, node: Binary, local: Mapping[str, Type]) -> Type:
        left, right = self.of(node.left, local), self.of(node.right, local)
        if node.op in ("==", "!="):
            self.equality(node, left, right)
            return BOOL
        if node.op == "in":
            self.membership(node, left, right)
            return BOOL
        one, other = plain(left), plain(right)
        if node.op in _ORDERS:
            ordered = one in _ORDERED and other in _ORDERED
            if DYN not in (one, other) and not (ordered and comparable(one, other)):
                self.fault(node, f"`{node.op}` cannot compare {phrase(left)} with {phrase(right)}")
            return BOOL
        return self.arithmetic(node, one, other)

    def equality(self, node: Binary, left: Type, right: Type) -> None:
        if not comparable(left, right):
            if NULL in (left, right):
                tested = node.left if right == NULL else node.right
                self.fault(node, f"{self.source(tested)} is never null")
            else:
                self.fault(
                    node, f"`{node.op}` compares {phrase(left)} with {phrase(right)}, which are never equal"
                )
            return
        for one, other in ((node.left, node.right), (node.right, node.left)):
            self.options(one, [other])

    def membership(self, node: Binary, left: Type, right: Type) -> None:
        inner = plain(right)
        if isinstance(inner, ListType):
            expected = inner.elem
        elif isinstance(inner, MapType):
            expected = inner.key
        elif isinstance(inner, Record):
            expected = STRING
        else:
            if inner != DYN:
                help_text = "write `text.contains(part)`" if inner == STRING else None
                message = f"`in` needs a list or a map; {self.source(node.right)} is {phrase(right)}"
                self.fault(node.right, message, help_text)
            return
        if not comparable(left, expected):
            self.fault(
                node,
                f"{self.source(node.right)} holds {expected}, and {self.source(node.left)} is {phrase(left)}",
            )
        elif isinstance(node.right, ListLiteral):
            self.options(node.left, node.right.items)

    def options(self, node: Node, compared: Iterable[Node]) -> None:
        """A field with listed values is compared only with those."""
        field = self.field_of(node)
        if field is None or field.enum is None:
            return
        for other in compared:
            if isinstance(other, Literal) and type(other.value) is str and other.value not in field.enum:
                self.fault(
                    other,
                    f"{self.source(node)} is never `{other.value}`",
                    _did_you_mean(other.value, field.enum) or _list("it is one of", field.enum),
                )

    def field_of(self, node: Node) -> Field | None:
        """The record's field that a chain of selections from a variable ends in."""
        path = []
        while isinstance(node, Select):
            path.append(node.field)
            node = node.of
        kind = self.environment.get(node.name) if isinstance(node, Name) else None
        found = None
        for name in reversed(path):
            inner = plain(kind) if kind is not None else None
            found = inner.fields.get(name) if isinstance(inner, Record) else None
            if found is None:
                return None
            kind = found.type
        return found

    def arithmetic(self, node: Binary, left: Type, right: Type) -> Type:
        if DYN in (left, right):
            return left if right == DYN and left in (STRING, BYTES) else DYN
        if left == right and left in _ARITHMETIC.get(node.op, ()):
            return left
        if node.op == "+" and isinstance(left, ListType) and isinstance(right, ListType):
            return ListType(join(left.elem, right.elem))
        found = _TIMES.get((node.op, left, right))
        if found is not None:
            return found
        help_text = None
        if left in NUMBERS and right in NUMBERS and left != right:
            help_text = f"convert one of them: `{left}(…)` or `{right}(…)`"
        elif node.op == "+" and STRING in (left, right):
            help_text = "convert to text with `string(…)`"
        return self.fault(node, f"`{node.op}` does not take {phrase(left)} and {phrase(right)}", help_text)

    def call(self, node: Call, local: Mapping[str, Type]) -> Type:
        from policy_eval.cel import functions

        functions_known = functions.by_name()
        full = self.unknown_qualifier(node, local)
        if full is not None and not any(one.member for one in functions_known.get(node.function, ())):
            known = [name for name in functions_known if "." in name]
            return self.fault(node, f"there is no function `{full}`", _did_you_mean(full, known))
        args = [self.of(arg, local) for arg in node.args]
        overloads = [one for one in functions_known.get(node.function, ()) if one.member == node.member]
        if not overloads:
            return self.no_function(node, functions_known)
        results = [found for one in overloads if (found := apply(one, args)) is not None]
        if not results:
            forms = ", ".join(f"`{_form(one)}`" for one in overloads[:4]) + (
                ", …" if len(overloads) > 4 else ""
            )
            given = ", ".join(map(phrase, args[1:] if node.member else args))
            of = f" of {phrase(args[0])}" if node.member else ""
            message = f"`{node.function}`{of} does not take ({given})"
            return self.fault(node, message, f"it is used as {forms}")
        self.constants(node)
        first = results[0]
        return first if all(result == first for result in results) else DYN

    def unknown_qualifier(self, node: Call, local: Mapping[str, Type]) -> str | None:
        """``math.maximum`` for the call of a member of what is no variable: a function was meant."""
        names = [node.function]
        of = node.args[0] if node.member else node
        while isinstance(of, Select) and not of.optional:
            names.append(of.field)
            of = of.of
        if (
            not isinstance(of, Name)
            or of.name in local
            or of.name in self.environment
            or of.name in TYPE_NAMES
        ):
            return None
        return ".".join([of.name, *reversed(names)])

    def no_function(self, node: Call, overloads: Mapping[str, tuple[Overload, ...]]) -> Type:
        if node.function in overloads:
            form = _form(overloads[node.function][0])
            return self.fault(
                node, f"`{node.function}` is not used like this", f"it is used as `{form}`", node.function
            )
        known = sorted({*overloads, "has", "all", "exists", "exists_one", "map", "filter"})
        help_text = _did_you_mean(node.function, known)
        return self.fault(node, f"there is no function `{node.function}`", help_text, node.function)

    def constants(self, node: Call) -> None:
        """A pattern, time or duration written in the text is tried now, not first when it is needed."""
        if node.function not in ("matches", "timestamp", "duration"):
            return
        last = node.args[-1]
        if isinstance(last, Literal) and type(last.value) is str:
            from policy_eval.cel.dispatch import call

            try:
                call(
                    node.function,
                    node.member,
                    ["", last.value] if node.function == "matches" else [last.value],
                )
            except EvaluationError as error:
                self.fault(last, error.message)


_USE_SIZE = "write `size(…)`"
_PREDICATES = ("all", "exists", "existsOne", "filter")
_ORDERS = ("<", "<=", ">", ">=")
_ORDERED = (*NUMBERS, BOOL, STRING, BYTES, TIMESTAMP, DURATION)
_ARITHMETIC: dict[str, tuple[Type, ...]] = {
    "+": (*NUMBERS, STRING, BYTES, DURATION),
    "-": (*NUMBERS, DURATION),
    "*": NUMBERS,
    "/": NUMBERS,
    "%": (INT, UINT),
}
_TIMES: dict[tuple[str, Type, Type], Type] = {
    ("+", TIMESTAMP, DURATION): TIMESTAMP,
    ("+", DURATION, TIMESTAMP): TIMESTAMP,
    ("-", TIMESTAMP, DURATION): TIMESTAMP,
    ("-", TIMESTAMP, TIMESTAMP): DURATION,
}


def _form(overload: Overload) -> str:
    args = list(map(str, overload.args))
    if overload.member:
        return f"{args[0]}.{overload.name}({', '.join(args[1:])})"
    return f"{overload.name}({', '.join(args)})"


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None


def _list(what: str, names: Iterable[str]) -> str:
    found = sorted(names)
    return f"{what} " + ", ".join(f"`{name}`" for name in found[:12]) + (", …" if len(found) > 12 else "")
