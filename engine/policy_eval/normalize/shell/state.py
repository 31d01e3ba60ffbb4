"""What a shell script knows at a point of its run: variables, functions, arguments; and what it came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.shell.syntax import Node, Script
from policy_eval.normalize.shell.words import Value, expand, expand_one
from policy_eval.normalize.text import Text, join, missing, standing
from policy_eval.record import record

_MAX_CHARACTERS = 1_000_000
_WORD_COST = 30


@record
class Command:
    """A command a script would run: its words expanded, the variables it would inherit, where it stands.

    ``calls`` are the places of the function calls that lead to it, outermost first.
    """

    words: tuple[Text, ...]
    env: Mapping[str, Text]
    location: Location | None
    calls: tuple[Location | None, ...] = ()
    warnings: tuple[Problem, ...] = ()


@record
class Reading:
    """The commands of one way through a script, and the conditions taken to be true or false on it."""

    commands: tuple[Command, ...]
    assumed: tuple[tuple[str, Location | None, bool], ...] = ()


class Stop(Exception):
    """The script ends here (``exit``, ``exec``)."""


class Return(Exception):
    """The function ends here."""


@dataclass(slots=True)
class State:
    """Variables, and which of them are exported; functions; positional parameters."""

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, tuple[Script, Any]] = field(default_factory=dict)
    arguments: tuple[Text, ...] | None = None
    export_all: bool = False

    def copy(self) -> State:
        """The state of a subshell: changes in it do not come back."""
        return State(
            variables=dict(self.variables),
            exported=set(self.exported),
            unset=set(self.unset),
            functions=dict(self.functions),
            arguments=self.arguments,
            export_all=self.export_all,
        )


class Variables:
    """Where words find their variables, and how assignments change them."""

    def __init__(self) -> None:
        self.state = State()
        self.defaults: dict[str, Location | None] = {}
        self.characters = 0

    def lookup(self, name: str) -> Value | None:
        """The value of a variable or positional parameter; None where it is not known to be set."""
        arguments = self.state.arguments
        if name in ("@", "*"):
            return None if arguments is None else arguments[1:]
        if name == "#":
            return None if arguments is None else standing(str(max(len(arguments) - 1, 0)), None)
        if name.isdigit():
            if arguments is None or len(name) > 4:
                return None
            return arguments[int(name)] if int(name) < len(arguments) else None
        return self.state.variables.get(name)

    def is_unset(self, name: str) -> bool:
        """Whether a variable is known not to be set."""
        if name.isdigit() or name in ("@", "*"):
            return self.state.arguments is not None
        return name in self.state.unset

    def assign(self, name: str, value: Value) -> None:
        """Set a variable."""
        self.spend((value,) if isinstance(value, Text) else value)
        self.state.variables[name] = value
        self.state.unset.discard(name)
        if self.state.export_all:
            self.state.exported.add(name)

    def defaulted(self, name: str, location: Location | None) -> None:
        """Note that a default was taken for a variable that may be set from outside."""
        self.defaults.setdefault(name, location)

    def spend(self, texts: Sequence[Text]) -> None:
        """Count what expanding makes: memory and time are bounded by it."""
        self.characters += sum(len(text.text) + _WORD_COST * (1 + len(text.runs)) for text in texts)
        if self.characters > _MAX_CHARACTERS:
            raise PolicyEvalError(Problem(message="a shell script whose variables grow without end"))

    def assignment(self, script: Script, node: Node) -> tuple[str, Value]:
        """The name and the new value that an assignment gives; `+=` and `a[1]=` included."""
        value_node, index = node.field("value"), node.field("index")
        target = node.field("name")
        name = script.raw(target) if target is not None else ""
        append = any(child.type == "+=" for child in node.children)
        old = self.state.variables.get(name)
        value: Value
        if value_node is None:
            value = script.text.slice(node.end, node.end)
        elif value_node.type == "array":
            members: list[Text] = []
            for child in value_node.named_children:
                if child.type != "comment":
                    members += expand(script.part(child), self)
            value = tuple(members)
        else:
            value = expand_one(script.part(value_node), self)
        if index is not None:
            if isinstance(old, Text) or old is None:
                old = (old,) if isinstance(old, Text) else ()
            part = first(value) if isinstance(value, tuple) else value
            return name, _with_element(old, script.raw(index), part)
        if append and old is not None:
            if isinstance(old, tuple):
                return name, (*old, *(value if isinstance(value, tuple) else (value,)))
            return name, (old, *value) if isinstance(value, tuple) else join([old, value])
        if append and name not in self.state.unset and isinstance(value, Text):
            before = missing(f"`{name}` is not set here", script.part(node).place())
            return name, join([before, value])
        return name, value


def _with_element(old: tuple[Text, ...], index: str, part: Text) -> tuple[Text, ...]:
    """An array with one element set, or appended where the index is not one that it has."""
    if index.isascii() and index.isdigit() and len(index) < 5 and int(index) < len(old):
        return (*old[: int(index)], part, *old[int(index) + 1 :])
    return (*old, part)


def first(value: Value) -> Text:
    """A value as one text: an array's first member."""
    if isinstance(value, Text):
        return value
    return value[0] if value else standing("", None)
