"""Python source for a set of rules, over the plain document.

Two variants of each function are generated. The first assumes that nothing fails: it is what one would write by
hand. When anything does fail, the second one starts over; there `&&`, `||`, `all` and `exists` absorb failures.
When that fails too, or a case is not a plain one, the walker decides.

Of an expression's text only plain words reach the source, in quotes; all other constants are numbered entries of
the globals. Absent fields of records take their defaults, provided no key of the mapping is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from policy_eval.cel import runtime
from policy_eval.cel.limits import Limits
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
    children,
)
from policy_eval.cel.types import MISSING, Nullable, Record, Type
from policy_eval.cel.walk import weight

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_MAX_BLOCKS = 14  # CPython allows 20 nested loops and tries
_MAX_INDENT = 60  # CPython allows 100
_MAX_LINES = 20_000


class Unsupported(Exception):
    """This expression is left to the walker."""


Path = tuple[str, ...]
# What is known of a value: "bool" (exactly True or False), "int", "str", "float", "null", or "" (nothing).
Operand = tuple[str, str]

_HELPERS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
}


class Writer:
    """Writes one function. ``absorb`` chooses the variant."""

    def __init__(
        self,
        roots: Mapping[str, Type],
        variables: Mapping[str, Node],
        limits: Limits,
        *,
        absorb: bool,
        constants: dict[str, Any],
    ) -> None:
        self.roots = dict(roots)
        self.variables = variables
        self.limits = limits
        self.absorb = absorb
        self.constants = constants
        self.numbers: dict[tuple[type, Any], str] = {}
        self.lines: list[str] = []
        self.indent = 1
        self.blocks = 0
        self.temps = 0
        self.counts = False
        self.guard: int | None = None
        self.loops = 0
        self.lazies: dict[str, str] = {}  # a variable's slot -> how it starts
        self.parameters = {name: f"r{at}" for at, name in enumerate(self.roots)}
        self.have: dict[Path, str] = {(name,): local for name, local in self.parameters.items()}
        self.local: dict[str, str | tuple[Node, dict[str, Any], str]] = {}
        self.open: set[str] = set()

    # --- lines, blocks, names ---

    def line(self, text: str) -> None:
        """One line at the current depth."""
        if len(self.lines) >= _MAX_LINES:
            raise Unsupported
        self.lines.append(" " * self.indent + text)

    def temp(self) -> str:
        """A new local name."""
        self.temps += 1
        return f"t{self.temps}"

    @contextmanager
    def block(self, head: str, *, counted: bool = False) -> Iterator[None]:
        """An indented block that may not run: what it computes is not known after it."""
        self.line(head)
        have = self.have
        self.have = dict(have)
        self.indent += 1
        self.blocks += counted
        if self.indent > _MAX_INDENT or self.blocks > _MAX_BLOCKS:
            raise Unsupported
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.indent -= 1
        self.blocks -= counted
        self.have = have

    @contextmanager
    def operand(self, failed: str) -> Iterator[None]:
        """The code of an operand whose failure is absorbed: an absent key runs ``failed`` without an exception."""
        outer, have, start = self.guard, self.have, self.indent
        self.have = dict(have)
        self.guard = start
        yield
        while self.indent > start:
            self.indent -= 1
            self.line(f"else: {failed}")
        self.guard, self.have = outer, have

    def key(self, parent: str, key: str) -> str:
        """Read an entry that may well be absent."""
        name = self.temp()
        if self.guard == self.indent and self.indent < _MAX_INDENT:
            self.line(f"if {key} in {parent}:")
            self.indent += 1
            self.guard = self.indent
        self.line(f"{name} = {parent}[{key}]")
        return name

    def may_fail(self, node: Logic) -> bool:
        """Whether an operand that others can absorb reads what may well be absent (in a loop: once in many)."""
        return not self.loops and any(self._reads_open(arg, node.op == "||") for arg in node.args[:-1])

    def _reads_open(self, node: Node, unknown: bool) -> bool:
        if type(node) is Select:
            path = self.path(node)
            if path is None:
                return True
            for count in range(1, len(path)):
                if path[: count + 1] in self.have:
                    continue
                kind = self.kind_of(path[:count])
                record = kind.of if isinstance(kind, Nullable) else kind
                if not isinstance(record, Record):
                    return True
                if unknown and record.fields[path[count]].default is MISSING:
                    return True
            return False
        if type(node) is Index:
            return True
        inner = [node.of] if type(node) in (Macro, Has) else children(node)  # type: ignore[attr-defined]
        return any(self._reads_open(part, unknown) for part in inner)

    def constant(self, value: Any) -> str:
        """The code of a constant: an int, a word in quotes, or the name of an entry in the table of constants."""
        if type(value) is str and _WORD.fullmatch(value):
            return f"'{value}'"
        if type(value) is int:
            return str(value) if value >= 0 else f"({value})"
        # One entry a type and value, so that 1 and 1.0 stay apart; what cannot be compared is told by identity.
        key = (type(value), value if type(value) in (str, int, float) else id(value))
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = f"K{len(self.constants)}"
            self.constants[found] = value
        return found

    # --- tests: statements that run `fail` when a node is false (require) or true (forbid) ---

    def require(self, node: Node, fail: str) -> None:
        """Run ``fail`` when the node is false; go on when it is true; raise for anything else."""
        self._jump(node, fail, wanted=True)

    def _jump(self, node: Node, fail: str, *, wanted: bool) -> None:
        if type(node) is Unary and node.op == "!":
            self._jump(node.of, fail, wanted=not wanted)
            return
        if type(node) is Logic and not self.absorb and not self.may_fail(node):
            if (node.op == "&&") is wanted:
                for arg in node.args:
                    self._jump(arg, fail, wanted=wanted)
            else:
                self._any(node.args, fail, wanted)
            return
        code, kind = self.value(node)
        if kind == "bool":
            self.line(f"if {'not ' if wanted else ''}({code}): {fail}")
            return
        if kind:  # a number, a string or null
            self.line("raise UNDECIDED")
            return
        with self.block(f"if {code} is not {wanted}:"):
            self.line(f"if {code} is {not wanted}: {fail}")
            self.line("else: raise UNDECIDED")

    def _any(self, args: Sequence[Node], fail: str, wanted: bool) -> None:
        """One operand that is as wanted is enough; only when the last is not either does ``fail`` run."""
        if len(args) == 1:
            self._jump(args[0], fail, wanted=wanted)
            return
        code = self.test(args[0])
        with self.block(f"if {'not ' if wanted else ''}({code}):"):
            self._any(args[1:], fail, wanted)

    def test(self, node: Node) -> str:
        """Code that is exactly True or False; raises for any other value."""
        code, kind = self.value(node)
        if kind and kind != "bool":
            self.line("raise UNDECIDED")
            return "None"
        if kind != "bool":
            self.line(f"if {code} is not True and {code} is not False: raise UNDECIDED")
        return code

    # --- values ---

    def value(self, node: Node) -> Operand:
        """Statements that compute a node, and the code and kind of the result."""
        return _WRITE.get(type(node), _unsupported)(self, node)

    def hold(self, operand: Operand) -> Operand:
        """The operand under a local name, to be used more than once."""
        code, kind = operand
        if code.isidentifier():
            return operand
        name = self.temp()
        self.line(f"{name} = {code}")
        return name, kind

    def path(self, node: Node) -> Path | None:
        """The path from a root to the field that a chain of selections reads; variables that are paths count."""
        fields: list[str] = []
        while True:
            if type(node) is Select and not node.optional:
                fields.append(node.field)
                node = node.of
            elif type(node) is Name and node.name not in self.local and node.name in self.variables:
                node = self.variables[node.name]
            else:
                break
        if type(node) is not Name or node.name in self.local or node.name not in self.roots:
            return None
        return (node.name, *reversed(fields))

    def kind_of(self, path: Path) -> Type | None:
        """The declared type at a path, as far as records go; None beyond."""
        kind: Type | None = self.roots[path[0]]
        for field in path[1:]:
            inner = kind.of if isinstance(kind, Nullable) else kind
            if not isinstance(inner, Record):
                return None
            if field not in inner.fields:
                raise Unsupported
            kind = inner.fields[field].type
        return kind

    def read(self, path: Path) -> str:
        """The local that holds the value at a path, read now unless it is there."""
        known = self.have.get(path)
        if known is not None:
            return known
        parent = self.read(path[:-1])
        kind = self.kind_of(path[:-1])
        record = kind.of if isinstance(kind, Nullable) else kind
        key = self.constant(path[-1])
        if isinstance(record, Record) and record.fields[path[-1]].default is not MISSING:
            name = self.temp()
            if record.fields[path[-1]].default is None:
                # Often absent, and an exception is slow.
                self.line(
                    f"{name} = {parent}[{key}] if {key} in {parent} else absent({self.known(record)}, {parent})"
                )
            else:
                self.line(f"try: {name} = {parent}[{key}]")
                self.line(f"except KeyError: {name} = {self.default(parent, record, path[-1])}")
        else:
            name = self.key(parent, key)
        self.have[path] = name
        return name

    def known(self, record: Record) -> str:
        """The name of the keys that a record may have."""
        return self.constant(record.known)

    def default(self, parent: str, record: Record, field: str) -> str:
        """Code for the default of an absent field, once it is sure that no key beside it is misspelt."""
        default = record.fields[field].default
        code = repr(default) if default is None or type(default) is bool else self.constant(default)
        return f"{code} if {self.known(record)}.issuperset({parent}) else misspelt()"

    def source(self, name: str, lazies: Mapping[str, str]) -> str:
        """The whole function."""
        head = [f"def {name}({', '.join(self.parameters.values())}):"]
        if self.counts:
            head.append(" n = 0")
        head += [f" {slot} = {start}" for slot, start in lazies.items()]
        return "\n".join([*head, *self.lines, ""])


def _unsupported(writer: Writer, node: Any) -> Operand:
    raise Unsupported


def _literal(writer: Writer, node: Literal) -> Operand:
    value = node.value
    if value is None or type(value) is bool:
        return repr(value), "null" if value is None else "bool"
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
    code, _ = writer.hold(writer.value(of))
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
    code, _ = writer.hold(writer.value(node.of))
    writer.line(f"if type({code}) is not dict: raise UNDECIDED")
    return f"{key} in {code}", "bool"


def _index(writer: Writer, node: Index) -> Operand:
    if node.optional:
        raise Unsupported
    of, _ = writer.hold(writer.value(node.of))
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
    name = writer.temp()
    helper = f"{name} = {_HELPERS[op]}({left[0]}, {right[0]})"
    if op in ("/", "%"):
        writer.line(helper)
        return name, ""
    tests = [f"type({code}) is int" for code, kind in (left, right) if kind != "int"]
    with writer.block(f"if {' and '.join(tests) or 'True'}:"):
        writer.line(f"{name} = {left[0]} {op} {right[0]}")
        writer.line(f"if not -9223372036854775808 <= {name} <= 9223372036854775807: raise UNDECIDED")
    writer.line(f"else: {helper}")
    return name, ""


def _ordered(writer: Writer, left: Operand, right: Operand) -> None:
    """Make sure that Python compares the operands as CEL does: of booleans and lists it knows an order too."""
    numbers = ("int", "float")
    kinds = (left[1], right[1])
    if (kinds[0] in numbers and kinds[1] in numbers) or kinds == ("str", "str"):
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
            text = writer.read(path) if path is not None else writer.value(one)[0]
            return f"({text}) is {'' if same else 'not '}None", "bool"
    left = writer.value(node.left)
    if left[1] != "bool" or left[0] not in ("True", "False"):
        left = writer.hold(left)
    right = writer.value(node.right)
    kinds = (left[1], right[1])
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
            writer.block(f"if {name} is not {decider}:") if at else _nothing(),
            _absorbing(writer, failed),
            writer.operand(failed),
        ):
            writer._jump(arg, f"{name} = {decider}", wanted=not decider)
    writer.line(f"if {name} is None: raise UNDECIDED")
    return name, "bool"


@contextmanager
def _nothing() -> Iterator[None]:
    yield


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
        _nothing() if not writer.absorb else writer.operand(f"{name} = None"),
    ):
        writer._jump(node.args[0], found, wanted=goes_on)
    if writer.absorb:
        writer.line(f"if {name} is None: raise UNDECIDED")


def _exists_one(writer: Writer, node: Macro, name: str, head: str, locals_: list[str]) -> None:
    count = writer.temp()
    writer.line(f"{count} = 0")
    with writer.block(head, counted=True):
        writer.line(f"if {writer.test(node.args[0])}: {count} += 1")
    writer.line(f"{name} = {count} == 1")


def _build(writer: Writer, node: Macro, name: str, head: str, locals_: list[str]) -> None:
    writer.line(f"{name} = []")
    with writer.block(head, counted=True):
        if node.kind == "filter":
            writer.line(f"if {writer.test(node.args[0])}: {name}.append({locals_[0]})")
            return
        if len(node.args) == 2:
            writer.line(f"if not ({writer.test(node.args[0])}): continue")
        code, _ = writer.value(node.args[-1])
        writer.line(f"{name}.append({code})")


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


_WRITE: dict[type[Node], Callable[[Writer, Any], Operand]] = {
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


# --- whole functions ----------------------------------------------------------------------------------------


class Generated:
    """The functions of a rule set: ``first`` and ``failures``, compiled when they are first called.

    The functions take the roots as plain data. They raise `errors.Undecided` when the walker must decide.
    """

    def __init__(
        self,
        roots: Mapping[str, Type],
        variables: Mapping[str, Node],
        conditions: Sequence[Node],
        rules: Sequence[Node],
        limits: Limits,
    ) -> None:
        self.parts = (roots, variables, limits)
        self.conditions = tuple(conditions)
        self.rules = tuple(rules)

    def source(self, name: str, *, absorb: bool) -> tuple[str, dict[str, Any]]:
        """The source of ``first`` or ``failures`` and its globals, in one of the two variants."""
        roots, variables, limits = self.parts
        constants: dict[str, Any] = {}
        writer = Writer(roots, variables, limits, absorb=absorb, constants=constants)
        with writer.block("try:", counted=True):
            self._conditions(writer, "return -2" if name == "first" else "return None")
            if name == "first":
                for at, rule in enumerate(self.rules):
                    _guarded(writer, lambda rule=rule, at=at: writer.require(rule, f"return {at}"))  # type: ignore[misc]
                writer.line("return -1")
            else:
                writer.line("found = []")
                for at, rule in enumerate(self.rules):
                    _guarded(writer, lambda rule=rule, at=at: _collect(writer, rule, at))  # type: ignore[misc]
                writer.line("return tuple(found)")
        writer.line("except Stop: raise UNDECIDED from None")
        if absorb:
            writer.line("except FAILS: raise UNDECIDED from None")
        else:
            writer.line("except FAILS: pass")
            writer.line(f"return again({', '.join(writer.parameters.values())})")
        text = writer.source(name, writer.lazies)
        return text, {**runtime.NAMES, **_BUILTINS, **constants}

    def _conditions(self, writer: Writer, fail: str) -> None:
        """Any false condition means not applicable, whatever the others are."""
        if not self.conditions:
            return
        if len(self.conditions) == 1:
            node = self.conditions[0]
        else:
            node = Logic(start=0, end=0, op="&&", args=self.conditions)
        if not _guarded(writer, lambda: writer.require(node, fail)):
            # A condition that only the walker knows: nothing can be said after it.
            return

    def function(self, name: str) -> Callable[..., Any]:
        """The function ``first`` or ``failures``; its second variant is compiled when it is first needed."""
        text, names = self.source(name, absorb=False)
        names["again"] = self._again(name, names)
        return _compile(text, name, names)

    def later(self, name: str) -> Callable[..., Any]:
        """Like `function`, but not even the first variant is compiled before the first call."""
        names: dict[str, Any] = {}

        def call(*roots: Any) -> Any:
            found = names.get(name)
            if found is None:  # two threads may both come here; both make the same function
                found = names[name] = self.function(name)
            return found(*roots)

        return call

    def _again(self, name: str, names: dict[str, Any]) -> Callable[..., Any]:
        def again(*roots: Any) -> Any:
            text, globals_ = self.source(name, absorb=True)
            # Two threads may both come here; both make the same function.
            names["again"] = found = _compile(text, name, globals_)
            return found(*roots)

        return again


_BUILTINS: dict[str, Any] = {
    "KeyError": KeyError,
    "__builtins__": {
        "type": type,
        "len": len,
        "dict": dict,
        "list": list,
        "str": str,
        "int": int,
        "float": float,
        "tuple": tuple,
    },
}


def _compile(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(compile(text, "<generated from CEL>", "exec"), names)
    return names[name]  # type: ignore[no-any-return]


def _collect(writer: Writer, rule: Node, at: int) -> None:
    writer.line(f"if not ({writer.test(rule)}): found.append({at})")


def _guarded(writer: Writer, write: Callable[[], None]) -> bool:
    """Write a rule, or, where it is not for generated code, what hands over to the walker."""
    state = (
        len(writer.lines),
        writer.indent,
        writer.blocks,
        dict(writer.have),
        writer.local,
        set(writer.open),
    )
    try:
        write()
    except Unsupported:
        length, writer.indent, writer.blocks, writer.have, writer.local, writer.open = state
        del writer.lines[length:]
        writer.lines.append(" " * writer.indent + "raise Stop")
        return False
    return True
