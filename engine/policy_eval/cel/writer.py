"""Writes the Python source of one function: lines, blocks, local names, and reading fields once.

Of an expression's text only plain words reach the source, in quotes; all other constants are numbered entries of
the globals. Absent fields of records take their defaults, provided no key of the mapping is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from policy_eval.cel.limits import Limits
from policy_eval.cel.tree import Has, Index, Logic, Macro, Name, Node, Select, Unary, children
from policy_eval.cel.types import MISSING, Nullable, Record, Type
from policy_eval.cel.values import EXACT

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_MAX_BLOCKS = 14  # CPython allows 20 nested loops and tries
_MAX_INDENT = 60  # CPython allows 100
_MAX_LINES = 2_000  # of one rule


class Unsupported(Exception):
    """This expression is left to the walker."""


Path = tuple[str, ...]
# What is known of a value: "bool" (exactly True or False), "int", "str", "float", "null", or "" (nothing).
Operand = tuple[str, str]


class Writer:
    """Writes one function. ``absorb`` chooses the variant."""

    def __init__(
        self,
        roots: Mapping[str, Type],
        variables: Mapping[str, Node],
        limits: Limits,
        forms: Mapping[type[Node], Callable[[Writer, Any], Operand]],
        *,
        absorb: bool,
    ) -> None:
        self.roots = dict(roots)
        self.variables = variables
        self.limits = limits
        self.absorb = absorb
        self.forms = forms
        self.constants: dict[str, Any] = {}
        self.numbers: dict[tuple[type, Any], str] = {}
        self.lines: list[str] = []
        self.start = 0
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
        if len(self.lines) - self.start > _MAX_LINES:
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
        if type(value) is int and -EXACT <= value <= EXACT:
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
        self.jump(node, fail, wanted=True)

    def jump(self, node: Node, fail: str, *, wanted: bool) -> None:
        """Run ``fail`` when the node is not as ``wanted``, go on when it is; raise for anything else."""
        if type(node) is Unary and node.op == "!":
            self.jump(node.of, fail, wanted=not wanted)
            return
        if type(node) is Logic and not self.absorb and not self.may_fail(node):
            if (node.op == "&&") is wanted:
                for arg in node.args:
                    self.jump(arg, fail, wanted=wanted)
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
            self.jump(args[0], fail, wanted=wanted)
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
        form = self.forms.get(type(node))
        if form is None:
            raise Unsupported
        return form(self, node)

    def hold(self, operand: Operand) -> Operand:
        """The operand under a local name, to be used more than once."""
        code, kind = operand
        if code.isidentifier() or code.lstrip("-").isdecimal():
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

    def rule(self, write: Callable[[], None]) -> bool:
        """Write a rule; where it is not for generated code, write what hands over to the walker, and say False."""
        self.start = length = len(self.lines)
        kept = {name: getattr(self, name) for name in ("indent", "blocks", "guard", "loops", "local")}
        have = dict(self.have)
        try:
            write()
        except (Unsupported, RecursionError):
            for name, value in kept.items():
                setattr(self, name, value)
            self.have = have
            self.open.clear()
            del self.lines[length:]
            self.start = length
            self.line("raise Stop")
            return False
        self.start = len(self.lines)
        return True

    def source(self, name: str) -> str:
        """The whole function."""
        head = [f"def {name}({', '.join(self.parameters.values())}):"]
        if self.counts:
            head.append(" n = 0")
        head += [f" {slot} = {start}" for slot, start in self.lazies.items()]
        return "\n".join([*head, *self.lines, ""])
