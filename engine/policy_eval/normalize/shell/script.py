"""Follow a shell script to the commands it would run, without running anything.

Assignments, arrays, functions, ``eval``, ``source`` of files in the same folder, loops over known lists and
conditions that can be worked out are followed. A condition that cannot splits the reading in two; the caller gets
every reading and keeps what they agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.shell.conditions import both, either, matches, test, test_words
from policy_eval.normalize.shell.syntax import Script
from policy_eval.normalize.shell.words import SCRIPT_FOLDER, Include, Value, expand, expand_one
from policy_eval.normalize.text import UNKNOWN, Text, join, missing, standing

_MAX_SPLITS = 5
_MAX_STEPS = 20_000
_MAX_CHARACTERS = 1_000_000
_WORD_COST = 30
_MAX_DEPTH = 20
_MAX_COMMANDS = 500
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_CHANGES = frozenset({"exit", "return", "exec", "eval", "source", ".", "set", "shift", "read"})
_ASSIGNMENTS = frozenset({"variable_assignment", "variable_assignments", "declaration_command"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command a script would run: its words expanded, the variables it would inherit, where it stands.

    ``calls`` are the places of the function calls that lead to it, outermost first.
    """

    words: tuple[Text, ...]
    env: Mapping[str, Text]
    location: Location | None
    calls: tuple[Location | None, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The commands of one way through a script, and the conditions taken to be true or false on it."""

    commands: tuple[Command, ...]
    assumed: tuple[tuple[str, Location | None, bool], ...] = ()


def read_script(
    text: Text,
    *,
    env: Mapping[str, Text] | None = None,
    arguments: tuple[Text, ...] | None = None,
    include: Include | None = None,
) -> list[Reading]:
    """Every way through a script.

    ``env`` are variables its process starts with, ``arguments`` its ``$0 $1 …`` (None: not known). ``include``
    gives the text of a file that the script reads in. Raises PolicyEvalError when the script is beyond the limits.
    """
    script = Script(text)
    return _readings(lambda walk: walk.start(script, env or {}, arguments), include)


def read_words(
    words: tuple[Text, ...], *, env: Mapping[str, Text], include: Include | None = None
) -> list[Reading]:
    """Every way through a command that is already split into words (a container's command and arguments).

    A shell among them (``sh -c "…"``) is followed; else the command is the only one.
    """
    if not words:
        return []
    return _readings(lambda walk: walk.start_words(list(words), env), include)


def _readings(start: Callable[[_Walk], None], include: Include | None) -> list[Reading]:
    """Follow every way, each open condition first as true, then as false."""
    readings: list[Reading] = []
    decisions: list[bool] = []
    walk = _Walk([], include, splits=0)
    start(walk)
    splits = min(_MAX_SPLITS, (_MAX_STEPS // max(walk.steps, 1)).bit_length() - 1)
    if splits < 1 or not walk.unsplits:
        return [Reading(commands=tuple(walk.commands))]
    while True:
        walk = _Walk(decisions, include, splits=splits)
        start(walk)
        readings.append(Reading(commands=tuple(walk.commands), assumed=tuple(walk.assumed)))
        decisions = [taken for _, _, taken in walk.assumed]
        while decisions and not decisions[-1]:
            decisions.pop()
        if not decisions:
            return readings
        decisions[-1] = False


class _Stop(Exception):
    """The script ends here (``exit``, ``exec``)."""


class _Return(Exception):
    """The function ends here."""


@dataclass(slots=True)
class _State:
    """Variables, and which of them are exported; functions; positional parameters."""

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, tuple[Script, Any]] = field(default_factory=dict)
    arguments: tuple[Text, ...] | None = None
    export_all: bool = False

    def copy(self) -> _State:
        """The state of a subshell: changes in it do not come back."""
        return _State(
            variables=dict(self.variables),
            exported=set(self.exported),
            unset=set(self.unset),
            functions=dict(self.functions),
            arguments=self.arguments,
            export_all=self.export_all,
        )


class _Walk:
    """One way through a script."""

    def __init__(self, decisions: list[bool], include: Include | None, *, splits: int) -> None:
        self.decisions = decisions
        self.splits = splits
        self.unsplits = 0
        self.include = include
        self.assumed: list[tuple[str, Location | None, bool]] = []
        self.commands: list[Command] = []
        self.state = _State()
        self.depth = 0
        self.steps = 0
        self.characters = 0
        self.defaults: dict[str, Location | None] = {}
        self.included: set[str] = set()
        self.remarks: list[Problem] = []
        self.calls: list[Location | None] = []

    # Scope: where words find their variables.

    def lookup(self, name: str) -> Value | None:
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
        if name.isdigit() or name in ("@", "*"):
            return self.state.arguments is not None
        return name in self.state.unset

    def assign(self, name: str, value: Value) -> None:
        self.spend((value,) if isinstance(value, Text) else value)
        self.state.variables[name] = value
        self.state.unset.discard(name)
        if self.state.export_all:
            self.state.exported.add(name)

    def defaulted(self, name: str, location: Location | None) -> None:
        self.defaults.setdefault(name, location)

    # Statements.

    def start(self, script: Script, env: Mapping[str, Text], arguments: tuple[Text, ...] | None) -> None:
        self.state.variables.update(env)
        self.state.exported.update(env)
        self.state.arguments = arguments
        try:
            self.block(script, script.root.children)
        except (_Stop, _Return):
            return

    def start_words(self, words: list[Text], env: Mapping[str, Text]) -> None:
        self.state.variables.update(env)
        self.state.exported.update(env)
        try:
            self.command(words, {}, words[0].place())
        except (_Stop, _Return):
            return

    def block(self, script: Script, nodes: list[Any]) -> None:
        for index, node in enumerate(nodes):
            if index + 1 < len(nodes) and nodes[index + 1].type == "&":
                self.apart(lambda node=node: self.statement(script, node))  # type: ignore[misc]
            else:
                self.statement(script, node)
            if node.type in ("command", "redirected_statement") and self.commands:
                self.cut_short(script, nodes, index)

    def cut_short(self, script: Script, nodes: list[Any], index: int) -> None:
        """Warn of options that a comment line cuts off from the command they were meant for."""
        following = [node for node in nodes[index + 1 : index + 3] if node.is_named]
        if len(following) < 2 or following[0].type != "comment":
            return
        part = script.part(following[1])
        if part.text.startswith("-"):
            problem = Problem(
                message="these options are not part of the command: the comment line before them ends it",
                location=part.place(0, len(part.text.split("\n")[0])),
                help="remove the comment line, or put it before the command",
            )
            last = self.commands[-1]
            self.commands[-1] = replace(last, warnings=(*last.warnings, problem))

    def statement(self, script: Script, node: Any) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise PolicyEvalError(Problem(message="a shell script that takes too many steps to follow"))
        handler = getattr(self, f"on_{node.type}", None)
        if handler is not None:
            self.depth += 1
            if self.depth > _MAX_DEPTH * 5:
                where = script.part(node).place(0, 1)
                raise PolicyEvalError(Problem(message="a shell script nested too deeply", location=where))
            try:
                handler(script, node)
            finally:
                self.depth -= 1

    def on_command(self, script: Script, node: Any) -> None:
        extra: dict[str, Text] = {}
        words: list[Text] = []
        spans: list[tuple[int, int]] = []
        for child in node.children:
            if child.type == "variable_assignment" and not spans:
                name, value = self.assignment(script, child)
                extra[name] = value if isinstance(value, Text) else _first(value)
            elif child.is_named and child.type not in ("comment", "file_redirect", "herestring_redirect"):
                start, end = script.span(child)
                if spans and start == spans[-1][1]:
                    # Touching pieces are one word to the shell.
                    start, _ = spans.pop()
                spans.append((start, end))
        for span in spans:
            words += expand(script.text.slice(*span), self)
        self.grow(words)
        if words:
            self.command(words, extra, script.part(node).place())
        else:
            for name, value in extra.items():
                self.assign(name, value)

    def grow(self, words: list[Text]) -> None:
        self.spend(words)
        if len(self.commands) > _MAX_COMMANDS:
            raise PolicyEvalError(Problem(message=f"a shell script of more than {_MAX_COMMANDS} commands"))

    def spend(self, texts: Sequence[Text]) -> None:
        """Count what expanding makes: memory and time are bounded by it."""
        self.characters += sum(len(text.text) + _WORD_COST * (1 + len(text.runs)) for text in texts)
        if self.characters > _MAX_CHARACTERS:
            raise PolicyEvalError(Problem(message="a shell script whose variables grow without end"))

    def on_redirected_statement(self, script: Script, node: Any) -> None:
        for child in node.named_children:
            if not child.type.endswith("_redirect"):
                self.statement(script, child)

    def on_variable_assignment(self, script: Script, node: Any) -> None:
        name, value = self.assignment(script, node)
        self.assign(name, value)

    def on_variable_assignments(self, script: Script, node: Any) -> None:
        self.children(script, node)

    def on_declaration_command(self, script: Script, node: Any) -> None:
        export = False
        for child in node.children:
            if child.type in ("export", "word"):
                text = script.part(child).text
                export = export or text == "export" or (text.startswith("-") and "x" in text)
            elif child.type == "variable_assignment":
                name, value = self.assignment(script, child)
                self.assign(name, value)
                if export:
                    self.state.exported.add(name)
            elif child.type == "variable_name" and export:
                self.state.exported.add(script.part(child).text)

    def on_unset_command(self, script: Script, node: Any) -> None:
        for child in node.named_children:
            if child.type in ("variable_name", "word"):
                name = script.part(child).text
                self.state.variables.pop(name, None)
                self.state.exported.discard(name)
                self.state.unset.add(name)

    def on_function_definition(self, script: Script, node: Any) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[script.part(name).text] = (script, body)

    def on_compound_statement(self, script: Script, node: Any) -> None:
        if node.children and node.children[0].type != "((":
            self.children(script, node)

    def on_do_group(self, script: Script, node: Any) -> None:
        self.children(script, node)

    def on_subshell(self, script: Script, node: Any) -> None:
        self.apart(lambda: self.children(script, node))

    def on_pipeline(self, script: Script, node: Any) -> None:
        for child in node.named_children:
            self.apart(lambda child=child: self.statement(script, child))  # type: ignore[misc]

    def on_negated_command(self, script: Script, node: Any) -> None:
        self.children(script, node)

    def on_list(self, script: Script, node: Any) -> None:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        status = self.status(script, left)
        self.statement(script, left)
        if status is None and not _is_test(left) and not _only_sets(right):
            # A command that is not a test is taken to succeed, except where it only guards a setting.
            if operator == "&&" or not _only_leaves(script, right):
                self.statement(script, right)
            return
        self.branch(script, left, status if operator == "&&" else _negate(status), [right], [])

    def on_if_statement(self, script: Script, node: Any) -> None:
        conditions = node.children_by_field_name("condition")
        seen_then = False
        body: list[Any] = []
        otherwise: list[Any] = []
        for child in node.children:
            if child.type == "then":
                seen_then = True
            elif child.type in ("elif_clause", "else_clause"):
                otherwise.append(child)
            elif seen_then and child.type != "fi":
                body.append(child)
        self.branches(script, [child for child in conditions if child.is_named], body, otherwise)

    def branches(self, script: Script, conditions: list[Any], body: list[Any], otherwise: list[Any]) -> None:
        status: bool | None = None
        for condition in conditions:
            self.statement(script, condition)
            status = self.status(script, condition)
        self.branch(script, conditions[-1] if conditions else None, status, body, otherwise)

    def on_elif_clause(self, script: Script, node: Any, otherwise: list[Any] | None = None) -> None:
        then = next((i for i, child in enumerate(node.children) if child.type == "then"), len(node.children))
        conditions = [child for child in node.children[1:then] if child.is_named]
        self.branches(script, conditions, node.children[then + 1 :], otherwise or [])

    def on_else_clause(self, script: Script, node: Any) -> None:
        self.children(script, node)

    def on_case_statement(self, script: Script, node: Any) -> None:
        subject = node.child_by_field_name("value")
        value = expand_one(script.part(subject), self) if subject is not None else standing("", None)
        items = [child for child in node.named_children if child.type == "case_item"]
        for item in items:
            patterns = [script.part(child).text for child in item.children_by_field_name("value")]
            close = next((i for i, child in enumerate(item.children) if child.type == ")"), 0)
            body = item.children[close + 1 :]
            if value.unknown is None and not any(char in pattern for pattern in patterns for char in "$`"):
                plain = [pattern.strip("\"'") for pattern in patterns]
                if any(matches(value.text, pattern) for pattern in plain):
                    return self.block(script, body)
                continue
            if "*" in patterns:
                return self.block(script, body)
            if _ends(script, body) or not _matters(script, body):
                self.apart(lambda body=body: self.block(script, body))  # type: ignore[misc]
                continue
            asked = ""
            if subject is not None:
                asked = f"case {script.part(subject).text} in {'|'.join(patterns)})"
            if self.decide(script, item, None, asked):
                return self.block(script, body)
        return None

    def on_for_statement(self, script: Script, node: Any) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return
        name = script.part(variable).text
        words: list[Text] = []
        for child in node.children_by_field_name("value"):
            words += expand(script.part(child), self)
        if any(word.unknown for word in words):
            self.forget(script, [body], "changes in a loop over values that are not known")
            self.assign(name, missing(f"`{name}` goes over values that are not known", words[0].place()))
            self.statement(script, body)
            self.forget(script, [body], "changes in a loop over values that are not known")
            return
        for word in words:
            self.assign(name, word)
            self.statement(script, body)

    def on_c_style_for_statement(self, script: Script, node: Any) -> None:
        self.on_while_statement(script, node)

    def on_while_statement(self, script: Script, node: Any) -> None:
        self.forget(script, [node], "changes in a loop")
        body = node.child_by_field_name("body")
        if body is not None:
            self.statement(script, body)
        self.forget(script, [node], "changes in a loop")

    def on_ERROR(self, script: Script, node: Any) -> None:  # noqa: N802 - named after the node's type
        part = script.part(node)
        self.remarks.append(
            Problem(
                message="a part of the script that cannot be read",
                location=part.place(0, min(len(part.text), 80)),
            )
        )
        self.children(script, node)
        self.forget(script, [node], "is set in a part of the script that cannot be read")

    def children(self, script: Script, node: Any) -> None:
        self.block(script, node.children)

    def apart(self, action: Callable[[], None]) -> None:
        """Run in a subshell: changes to variables do not come back, and ``exit`` leaves only it."""
        kept, self.state = self.state, self.state.copy()
        try:
            action()
        except (_Stop, _Return):
            pass
        finally:
            self.state = kept

    # Conditions.

    def status(self, script: Script, node: Any) -> bool | None:
        """Whether a statement succeeds: true, false, or None when only running it would tell."""
        kind = node.type
        if kind == "test_command":
            return test(node, script, self)
        if kind == "negated_command":
            inner = node.named_children
            return _negate(self.status(script, inner[-1])) if inner else None
        if kind == "list":
            left, operator, right = node.children[0], node.children[1].type, node.children[-1]
            combine = both if operator == "&&" else either
            return combine(self.status(script, left), lambda: self.status(script, right))
        if kind in _ASSIGNMENTS:
            return True
        if kind == "command":
            words = [script.part(child) for child in node.named_children if child.type != "comment"]
            name = words[0].text if words else ""
            if name in ("true", ":", "export", "set", "shift"):
                return True
            if name == "false":
                return False
            if name == "test":
                return test_words([expand_one(word, self) for word in words[1:]])
            if name == "!":
                return None
        return None

    def decide(self, script: Script, node: Any, status: bool | None, shown: str = "") -> bool:
        """Which way an open condition goes on this way through the script."""
        if status is not None:
            return status
        taken = self.decisions[len(self.assumed)] if len(self.assumed) < len(self.decisions) else True
        part = script.part(node)
        shown = " ".join((shown or part.text).split())[:60]
        self.assumed.append((shown, part.place(), taken))
        return taken

    def branch(
        self, script: Script, condition: Any, status: bool | None, body: list[Any], otherwise: list[Any]
    ) -> None:
        if status is None and (_ends(script, body) or not _matters(script, [*body, *otherwise])):
            # Where a way ends the script, or changes nothing, the rest goes on as if the other was taken.
            self.apart(lambda: self.block(script, body))
            self.otherwise(script, otherwise)
        elif status is None and _ends(script, otherwise):
            self.apart(lambda: self.otherwise(script, otherwise))
            self.block(script, body)
        elif status is None and len(self.assumed) >= self.splits:
            self.unsplit(script, condition, body, otherwise)
        elif self.decide(script, condition if condition is not None else body[0], status):
            self.block(script, body)
        else:
            self.otherwise(script, otherwise)

    def otherwise(self, script: Script, nodes: list[Any]) -> None:
        """Follow what an `if` does when its condition is false: the next `elif`, or the `else`."""
        if nodes and nodes[0].type == "elif_clause":
            self.on_elif_clause(script, nodes[0], nodes[1:])
        else:
            self.block(script, nodes)

    def unsplit(self, script: Script, condition: Any, body: list[Any], otherwise: list[Any]) -> None:
        """Past so many open conditions: what further ones set is unknown from here on."""
        self.unsplits += 1
        shown = " ".join(script.part(condition).text.split())[:60] if condition is not None else ""
        why = f"depends on `{shown}`"
        for nodes in (body, otherwise):
            self.apart(lambda nodes=nodes: self.block(script, nodes))  # type: ignore[misc]
            self.forget(script, nodes, why)

    def forget(self, script: Script, nodes: list[Any], why: str) -> None:
        """Make every variable that is set below these nodes unknown."""
        for node in nodes:
            for found in _descend(node):
                if found.type in ("variable_assignment", "for_statement"):
                    field_name = "name" if found.type == "variable_assignment" else "variable"
                    target = found.child_by_field_name(field_name)
                    if target is None:
                        continue
                    if target.type == "subscript":
                        target = target.child_by_field_name("name") or target
                    part = script.part(target)
                    value = self.state.variables.get(part.text)
                    unknown = missing(f"`{part.text}` {why}", part.place())
                    # An array that grows in there keeps what it holds already.
                    grows = isinstance(value, tuple) and b"+=" in (found.text or b"")
                    self.assign(
                        part.text, (*value, unknown) if grows and isinstance(value, tuple) else unknown
                    )

    # Assignments and commands.

    def assignment(self, script: Script, node: Any) -> tuple[str, Value]:
        target, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        name_node = target.child_by_field_name("name") if target.type == "subscript" else target
        name = script.part(name_node or target).text
        append = any(child.type == "+=" for child in node.children)
        old = self.state.variables.get(name)
        value: Value
        if value_node is None:
            value = Text("", script.part(node).slice(0, 0).runs)
        elif value_node.type == "array":
            members: list[Text] = []
            for child in value_node.named_children:
                if child.type != "comment":
                    members += expand(script.part(child), self)
            value = tuple(members)
        else:
            # The node may stop short of the word: take all that touches it.
            start, end = script.span(value_node)
            value = expand_one(script.text.slice(start, max(end, script.span(node)[1])), self)
        if target.type == "subscript":
            if isinstance(old, Text) or old is None:
                old = (old,) if isinstance(old, Text) else ()
            part = _first(value) if isinstance(value, tuple) else value
            return name, self.with_element(script, target, old, part)
        if append and old is not None:
            if isinstance(old, tuple):
                return name, (*old, *(value if isinstance(value, tuple) else (value,)))
            return name, (old, *value) if isinstance(value, tuple) else join([old, value])
        if append and name not in self.state.unset and isinstance(value, Text):
            before = missing(f"`{name}` is not set here", script.part(node).place())
            return name, join([before, value])
        return name, value

    def with_element(
        self, script: Script, target: Any, old: tuple[Text, ...], part: Text
    ) -> tuple[Text, ...]:
        index = target.child_by_field_name("index")
        number = script.part(index).text if index is not None else ""
        if number.isascii() and number.isdigit() and len(number) < 5 and int(number) < len(old):
            return (*old[: int(number)], part, *old[int(number) + 1 :])
        return (*old, part)

    def command(self, words: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        """Follow one expanded command: builtins that matter here, functions, shells; else note it down."""
        name = words[0].text if words[0].unknown is None else ""
        rest = words[1:]
        if name in ("eval",):
            self.inline(join(_with_spaces(rest)))
        elif name in ("source", ".") and rest:
            self.source(rest[0], location)
        elif name in ("exit", "return") or (name == "exec" and not rest):
            if name != "exec":
                raise _Stop if name == "exit" else _Return
        elif name == "exec":
            while rest and rest[0].text in ("-c", "-l"):
                rest = rest[1:]
            if rest:
                self.command(rest, extra, location)
                raise _Stop
        elif name == "set":
            texts = [word.text for word in rest]
            if "-a" in texts or "allexport" in texts:
                self.state.export_all = "+a" not in texts and "+o" not in texts
            elif "+a" in texts:
                self.state.export_all = False
            if "--" in texts:
                first = self.state.arguments[:1] if self.state.arguments else (standing("sh", None),)
                self.state.arguments = (*first, *rest[texts.index("--") + 1 :])
        elif name == "shift" and self.state.arguments is not None:
            self.state.arguments = self.state.arguments[:1] + self.state.arguments[2:]
        elif name in self.state.functions and self.depth < _MAX_DEPTH * 4:
            self.call(name, words, extra, location)
        elif name in ("command", "builtin", "nohup", "time", "setsid", "nice", "sudo") and rest:
            self.wrapped(rest, extra, location)
        elif name == "env":
            self.environment(rest, extra, location)
        elif name.rpartition("/")[2] in _SHELLS and rest:
            self.shell(rest, extra, location)
        elif inner := _inner_shell(words):
            self.shell(words[inner:], extra, location)
        else:
            self.note(words, extra, location)

    def wrapped(self, rest: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        while rest and rest[0].text.startswith("-"):
            rest = rest[1:]
        if rest:
            self.command(rest, extra, location)

    def environment(self, rest: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        extra = dict(extra)
        while rest:
            text = rest[0].text
            if text in ("-u", "--unset", "-C", "--chdir", "-S") and len(rest) > 1:
                rest = rest[2:]
            elif text.startswith("-"):
                rest = rest[1:]
            elif "=" in text and UNKNOWN not in text.partition("=")[0]:
                name = text.partition("=")[0]
                extra[name] = rest[0].slice(len(name) + 1)
                rest = rest[1:]
            else:
                self.command(rest, extra, location)
                return

    def inherited(self, extra: Mapping[str, Text]) -> dict[str, Text]:
        """The environment a command gets."""
        env = {}
        for name in sorted(self.state.exported):
            value = self.state.variables.get(name)
            if isinstance(value, Text):
                env[name] = value
        return {**env, **extra}

    def note(self, words: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        warnings = [
            Problem(
                message=f"{_named(name)} is not set here: its default was taken",
                location=where,
                help="make sure that it is not set where this runs",
            )
            for name, where in self.defaults.items()
        ]
        self.commands.append(
            Command(
                words=tuple(words),
                env=self.inherited(extra),
                location=location,
                calls=tuple(self.calls),
                warnings=(*self.remarks, *warnings),
            )
        )

    def call(self, name: str, words: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        script, body = self.state.functions[name]
        kept = self.state.arguments
        self.state.arguments = tuple(words)
        for variable, value in extra.items():
            self.assign(variable, value)
        self.calls.append(location)
        try:
            self.statement(script, body)
        except _Return:
            pass
        finally:
            self.calls.pop()
            self.state.arguments = kept

    def inline(self, text: Text) -> None:
        """Read text as part of this script (``eval``, ``source``)."""
        if self.depth >= _MAX_DEPTH * 4:
            raise PolicyEvalError(
                Problem(message="a shell script nested too deeply", location=text.place(0, 1))
            )
        script = Script(text)
        self.depth += 5
        try:
            self.block(script, script.root.children)
        finally:
            self.depth -= 5

    def source(self, word: Text, location: Location | None) -> None:
        name = word.text
        if word.unknown:
            folder = all(run.reason in (None, SCRIPT_FOLDER) for run in word.runs)
            name = word.text[1:].lstrip("/") if folder and word.runs[0].reason else ""
        text = (
            self.include(name, word.place()) if self.include and name and name not in self.included else None
        )
        if text is None:
            self.remarks.append(
                Problem(
                    message=f"`{word.text.replace(UNKNOWN, '…')[:80]}` is read in here, but cannot be seen",
                    location=location,
                    help="what it sets is taken to be unset",
                )
            )
            return
        self.included.add(name)
        try:
            self.inline(text)
        except _Return:
            pass
        finally:
            self.included.discard(name)

    def shell(self, rest: list[Text], extra: Mapping[str, Text], location: Location | None) -> None:
        """Follow ``bash -c script`` and ``bash file``."""
        command = False
        while rest and rest[0].text.startswith(("-", "+")) and rest[0].unknown is None:
            flags = rest[0].text
            rest = rest[1:]
            if flags in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
                rest = rest[1:]
            elif not flags.startswith("--") and "c" in flags:
                command = True
                if flags.endswith("o"):
                    rest = rest[1:]
        if not rest:
            return
        text: Text | None = rest[0]
        arguments = tuple(rest[1:]) or (standing("sh", None),)
        if not command:
            name = rest[0].text
            text = self.include(name, rest[0].place()) if self.include and name not in self.included else None
            arguments = tuple(rest)
        if text is None:
            self.note([standing("sh", location), *rest], dict(extra), location)
            return
        env = self.inherited(extra)
        kept = self.state
        self.state = _State(variables=dict(env), exported=set(env), arguments=arguments)
        self.included.add(rest[0].text)
        try:
            self.inline(text)
        except (_Stop, _Return):
            pass
        finally:
            self.state = kept
            self.included.discard(rest[0].text)


def _with_spaces(parts: list[Text]) -> Iterator[Text]:
    for number, part in enumerate(parts):
        if number:
            yield Text(" ", part.slice(0, 0).runs)
        yield part


def _first(value: Value) -> Text:
    if isinstance(value, Text):
        return value
    return value[0] if value else standing("", None)


def _named(name: str) -> str:
    return f"argument {name} of the script" if name.isdigit() else f"`{name}`"


def _negate(status: bool | None) -> bool | None:
    return None if status is None else not status


def _is_test(node: Any) -> bool:
    """Whether a statement is there to ask something rather than to do something."""
    if node.type in ("list", "negated_command"):
        return any(_is_test(child) for child in node.named_children)
    return node.type in ("test_command", "compound_statement") or (
        node.type == "command"
        and (node.text or b"").startswith((b"test ", b"grep ", b"command -v ", b"which "))
    )


def _inner_shell(words: list[Text]) -> int:
    """Where the words after `sh -c` begin in a command that runs a shell (`srun … bash -c …`); 0 for none.

    Not in containers and on other machines, where other variables hold.
    """
    if words[0].text.rpartition("/")[2] in (
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "ssh",
        "echo",
        "printf",
    ):
        return 0
    for at, word in enumerate(words[1:-1], 1):
        flags = words[at + 1].text
        if word.text.rpartition("/")[2] in _SHELLS and flags.startswith("-") and flags.endswith("c"):
            return at + 1
    return 0


def _ends(script: Script, nodes: list[Any]) -> bool:
    """Whether a way through certainly ends the script: its last command is `exit` or `exec`."""
    last = next((node for node in reversed(nodes) if node.is_named and node.type != "comment"), None)
    if last is not None and last.type in ("else_clause", "compound_statement"):
        return _ends(script, last.children)
    if last is None or last.type != "command":
        return False
    words = [script.part(child).text for child in last.named_children if child.type != "comment"]
    return bool(words) and (words[0] == "exit" or (words[0] == "exec" and len(words) > 1))


def _matters(script: Script, nodes: list[Any]) -> bool:
    """Whether a way through changes what follows it: sets something, leaves, or reads something in."""
    kinds = ("variable_assignment", "declaration_command", "unset_command", "function_definition")
    for node in nodes:
        for found in _descend(node):
            if found.type in kinds:
                return True
            if found.type == "command_name" and script.part(found).text in _CHANGES:
                return True
    return False


def _only_sets(node: Any) -> bool:
    return node.type in _ASSIGNMENTS


def _only_leaves(script: Script, node: Any) -> bool:
    """Whether the right side of ``||`` ends the script: then the left side is taken to have succeeded."""
    return any(
        script.part(found).text in ("exit", "return")
        for found in _descend(node)
        if found.type == "command_name"
    )


def _descend(node: Any) -> Iterator[Any]:
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(found.children))
