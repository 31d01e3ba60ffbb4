"""Follow a shell script to the commands it would run, without running anything.

Assignments, arrays, functions, ``eval``, ``source`` of files in the same folder, loops over known lists and
conditions that can be worked out are followed. A condition that cannot splits the reading in two; the caller gets
every reading and keeps what they agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.shell.conditions import both, either, matches, test, test_words
from policy_eval.normalize.shell.nodes import (
    ASSIGNMENTS,
    descend,
    ends,
    is_test,
    matters,
    only_leaves,
    only_sets,
)
from policy_eval.normalize.shell.runner import MAX_DEPTH, Runner
from policy_eval.normalize.shell.state import Command, Reading, Return, Stop, first
from policy_eval.normalize.shell.syntax import Node, Script
from policy_eval.normalize.shell.words import Include, expand, expand_one
from policy_eval.normalize.text import Text, missing, standing
from policy_eval.record import replace

__all__ = ["Command", "Reading", "read_script", "read_words"]

_MAX_SPLITS = 5
_MAX_STEPS = 20_000
_MAX_COMMANDS = 500


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
    return _readings(lambda walk: walk.start(script, env or {}, arguments), include, text.place(0, 1))


def read_words(
    words: tuple[Text, ...], *, env: Mapping[str, Text], include: Include | None = None
) -> list[Reading]:
    """Every way through a command that is already split into words (a container's command and arguments).

    A shell among them (``sh -c "…"``) is followed; else the command is the only one.
    """
    if not words:
        return []
    return _readings(lambda walk: walk.start_words(list(words), env), include, words[0].place())


def _readings(
    start: Callable[[_Walk], None], include: Include | None, where: Location | None
) -> list[Reading]:
    """Follow every way; what goes wrong nowhere in particular goes wrong at ``where``."""
    try:
        return _ways(start, include)
    except PolicyEvalError as error:
        problems = [replace(problem, location=problem.location or where) for problem in error.problems]
        raise PolicyEvalError(*problems) from None


def _ways(start: Callable[[_Walk], None], include: Include | None) -> list[Reading]:
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


class _Walk(Runner):
    """One way through a script."""

    def __init__(self, decisions: list[bool], include: Include | None, *, splits: int) -> None:
        super().__init__(include)
        self.decisions = decisions
        self.splits = splits
        self.unsplits = 0
        self.assumed: list[tuple[str, Location | None, bool]] = []
        self.steps = 0

    def start(self, script: Script, env: Mapping[str, Text], arguments: tuple[Text, ...] | None) -> None:
        self.state.variables.update(env)
        self.state.exported.update(env)
        self.state.arguments = arguments
        try:
            self.block(script, script.root.children)
        except (Stop, Return):
            return

    def start_words(self, words: list[Text], env: Mapping[str, Text]) -> None:
        self.state.variables.update(env)
        self.state.exported.update(env)
        try:
            self.command(words, {}, words[0].place())
        except (Stop, Return):
            return

    def block(self, script: Script, nodes: list[Node]) -> None:
        for index, node in enumerate(nodes):
            if index + 1 < len(nodes) and nodes[index + 1].type == "&":
                self.apart(lambda node=node: self.statement(script, node))  # type: ignore[misc]
            else:
                self.statement(script, node)
            if node.type == "command" and self.commands:
                self.cut_short(script, nodes, index)

    def cut_short(self, script: Script, nodes: list[Node], index: int) -> None:
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

    def statement(self, script: Script, node: Node) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise PolicyEvalError(Problem(message="a shell script that takes too many steps to follow"))
        handler = getattr(self, f"on_{node.type}", None)
        if handler is not None:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                where = script.part(node).place(0, 1)
                raise PolicyEvalError(Problem(message="a shell script nested too deeply", location=where))
            try:
                handler(script, node)
            finally:
                self.depth -= 1

    def on_command(self, script: Script, node: Node) -> None:
        extra: dict[str, Text] = {}
        words: list[Text] = []
        named: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self.assignment(script, child)
                extra[name] = value if isinstance(value, Text) else first(value)
            elif child.type in ("command_name", "word"):
                named.append(child)
        for child in named:
            words += expand(script.part(child), self)
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

    def on_variable_assignment(self, script: Script, node: Node) -> None:
        name, value = self.assignment(script, node)
        self.assign(name, value)

    def on_variable_assignments(self, script: Script, node: Node) -> None:
        self.children(script, node)

    def on_declaration_command(self, script: Script, node: Node) -> None:
        words = [script.raw(child) for child in node.children if child.type == "word"]
        name = node.field("name")
        export = name is not None and script.raw(name) == "export"
        export = export or any(word.startswith("-") and "x" in word for word in words)
        for child in node.children:
            if child.type == "variable_assignment":
                variable, value = self.assignment(script, child)
                self.assign(variable, value)
                if export:
                    self.state.exported.add(variable)
        if export:
            self.state.exported.update(word for word in words if word.isidentifier())

    def on_unset_command(self, script: Script, node: Node) -> None:
        for child in node.all("argument"):
            name = script.raw(child)
            self.state.variables.pop(name, None)
            self.state.exported.discard(name)
            self.state.unset.add(name)

    def on_function_definition(self, script: Script, node: Node) -> None:
        name, body = node.field("name"), node.field("body")
        if name is not None and body is not None:
            self.state.functions[script.part(name).text] = (script, body)

    def on_compound_statement(self, script: Script, node: Node) -> None:
        if node.children and node.children[0].type != "((":
            self.children(script, node)

    def on_do_group(self, script: Script, node: Node) -> None:
        self.children(script, node)

    def on_subshell(self, script: Script, node: Node) -> None:
        self.apart(lambda: self.children(script, node))

    def on_pipeline(self, script: Script, node: Node) -> None:
        for child in node.named_children:
            self.apart(lambda child=child: self.statement(script, child))  # type: ignore[misc]

    def on_negated_command(self, script: Script, node: Node) -> None:
        self.children(script, node)

    def on_list(self, script: Script, node: Node) -> None:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        status = self.status(script, left)
        self.statement(script, left)
        if status is None and not is_test(script, left) and not only_sets(right):
            # A command that is not a test is taken to succeed, except where it only guards a setting.
            if operator == "&&" or not only_leaves(script, right):
                self.statement(script, right)
            return
        self.branch(script, left, status if operator == "&&" else _negate(status), [right], [])

    def on_if_statement(self, script: Script, node: Node) -> None:
        conditions = node.all("condition")
        seen_then = False
        body: list[Node] = []
        otherwise: list[Node] = []
        for child in node.children:
            if child.type == "then":
                seen_then = True
            elif child.type in ("elif_clause", "else_clause"):
                otherwise.append(child)
            elif seen_then and child.type != "fi":
                body.append(child)
        self.branches(script, [child for child in conditions if child.is_named], body, otherwise)

    def branches(
        self, script: Script, conditions: list[Node], body: list[Node], otherwise: list[Node]
    ) -> None:
        status: bool | None = None
        for condition in conditions:
            self.statement(script, condition)
            status = self.status(script, condition)
        self.branch(script, conditions[-1] if conditions else None, status, body, otherwise)

    def on_elif_clause(self, script: Script, node: Node, otherwise: list[Node] | None = None) -> None:
        then = next((i for i, child in enumerate(node.children) if child.type == "then"), len(node.children))
        conditions = [child for child in node.children[1:then] if child.is_named]
        self.branches(script, conditions, node.children[then + 1 :], otherwise or [])

    def on_else_clause(self, script: Script, node: Node) -> None:
        self.children(script, node)

    def on_case_statement(self, script: Script, node: Node) -> None:
        subject = node.field("value")
        value = expand_one(script.part(subject), self) if subject is not None else standing("", None)
        items = [child for child in node.named_children if child.type == "case_item"]
        for item in items:
            patterns = [script.part(child).text for child in item.all("value")]
            close = next((i for i, child in enumerate(item.children) if child.type == ")"), 0)
            body = item.children[close + 1 :]
            if value.unknown is None and not any(char in pattern for pattern in patterns for char in "$`"):
                plain = [pattern.strip("\"'") for pattern in patterns]
                if any(matches(value.text, pattern) for pattern in plain):
                    return self.block(script, body)
                continue
            if "*" in patterns:
                return self.block(script, body)
            if ends(script, body) or not matters(script, body):
                self.apart(lambda body=body: self.block(script, body))  # type: ignore[misc]
                continue
            asked = ""
            if subject is not None:
                asked = f"case {script.part(subject).text} in {'|'.join(patterns)})"
            if len(self.assumed) >= self.splits:
                self.unsplit(script, asked, body, [])
            elif self.decide(script, item, None, asked):
                return self.block(script, body)
        return None

    def on_for_statement(self, script: Script, node: Node) -> None:
        variable, body = node.field("variable"), node.field("body")
        if variable is None or body is None:
            return
        name = script.part(variable).text
        words: list[Text] = []
        for child in node.all("value"):
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

    def on_c_style_for_statement(self, script: Script, node: Node) -> None:
        self.on_while_statement(script, node)

    def on_while_statement(self, script: Script, node: Node) -> None:
        self.forget(script, [node], "changes in a loop")
        body = node.field("body")
        if body is not None:
            self.statement(script, body)
        self.forget(script, [node], "changes in a loop")

    def on_ERROR(self, script: Script, node: Node) -> None:  # noqa: N802 - named after the node's type
        part = script.part(node)
        self.remarks.append(
            Problem(
                message="a part of the script that cannot be read",
                location=part.place(0, min(len(part.text), 80)),
            )
        )
        self.children(script, node)
        self.forget(script, [node], "is set in a part of the script that cannot be read")

    def children(self, script: Script, node: Node) -> None:
        self.block(script, node.children)

    # Conditions.

    def status(self, script: Script, node: Node) -> bool | None:
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
        if kind in ASSIGNMENTS:
            return True
        if kind == "command":
            words = [script.part(child) for child in node.named_children]
            name = words[0].text if words else ""
            if name in ("true", ":", "export", "set", "shift"):
                return True
            if name == "false":
                return False
            if name == "test" or (name == "[" and words[-1].text == "]"):
                last = len(words) - (name == "[")
                return test_words([expand_one(word, self) for word in words[1:last]])
        return None
        return None

    def decide(self, script: Script, node: Node, status: bool | None, shown: str = "") -> bool:
        """Which way an open condition goes on this way through the script."""
        if status is not None:
            return status
        taken = self.decisions[len(self.assumed)] if len(self.assumed) < len(self.decisions) else True
        part = script.part(node)
        shown = " ".join((shown or part.text).split())[:60]
        self.assumed.append((shown, part.place(), taken))
        return taken

    def branch(
        self,
        script: Script,
        condition: Node | None,
        status: bool | None,
        body: list[Node],
        otherwise: list[Node],
    ) -> None:
        if status is None and (ends(script, body) or not matters(script, [*body, *otherwise])):
            # Where a way ends the script, or changes nothing, the rest goes on as if the other was taken.
            self.apart(lambda: self.block(script, body))
            self.otherwise(script, otherwise)
        elif status is None and ends(script, otherwise):
            self.apart(lambda: self.otherwise(script, otherwise))
            self.block(script, body)
        elif status is None and len(self.assumed) >= self.splits:
            self.unsplit(
                script, script.part(condition).text if condition is not None else "", body, otherwise
            )
        elif self.decide(script, condition if condition is not None else body[0], status):
            self.block(script, body)
        else:
            self.otherwise(script, otherwise)

    def otherwise(self, script: Script, nodes: list[Node]) -> None:
        """Follow what an `if` does when its condition is false: the next `elif`, or the `else`."""
        if nodes and nodes[0].type == "elif_clause":
            self.on_elif_clause(script, nodes[0], nodes[1:])
        else:
            self.block(script, nodes)

    def unsplit(self, script: Script, condition: str, body: list[Node], otherwise: list[Node]) -> None:
        """Past so many open conditions: what further ones set is unknown from here on."""
        self.unsplits += 1
        shown = " ".join(condition.split())[:60]
        why = f"depends on `{shown}`"
        for nodes in (body, otherwise):
            self.apart(lambda nodes=nodes: self.block(script, nodes))  # type: ignore[misc]
            self.forget(script, nodes, why)

    def forget(self, script: Script, nodes: list[Node], why: str) -> None:
        """Make every variable that is set below these nodes unknown."""
        for node in nodes:
            for found in descend(node):
                if found.type in ("variable_assignment", "for_statement"):
                    field_name = "name" if found.type == "variable_assignment" else "variable"
                    target = found.field(field_name)
                    if target is None:
                        continue
                    part = script.part(target)
                    value = self.state.variables.get(part.text)
                    unknown = missing(f"`{part.text}` {why}", part.place())
                    # An array that grows in there keeps what it holds already.
                    grows = isinstance(value, tuple) and "+=" in script.raw(found)[: len(part.text) + 40]
                    self.assign(
                        part.text, (*value, unknown) if grows and isinstance(value, tuple) else unknown
                    )


def _negate(status: bool | None) -> bool | None:
    return None if status is None else not status
