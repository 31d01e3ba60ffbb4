"""The commands of a shell script that matter here: builtins, functions, other shells; the rest is noted down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.shell.state import Command, Return, State, Stop, Variables
from policy_eval.normalize.shell.syntax import Node, Script
from policy_eval.normalize.shell.words import SCRIPT_FOLDER, Include
from policy_eval.normalize.text import UNKNOWN, Text, join, standing

MAX_DEPTH = 100
_CARRIERS = frozenset(
    {"tmux", "screen", "ssh", "su", "runuser", "watch", "script", "kubectl", "gcloud", "pdsh"}
)
_REMOTE = frozenset({"ssh", "pdsh", "kubectl", "gcloud"})
_ENGINE = re.compile(r"\b(?:vllm|sglang)\s+serve\b|-m\s+(?:vllm|sglang)\.")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})


class Runner(Variables):
    """Follows expanded commands; ``block`` and ``statement`` follow the syntax around them."""

    def __init__(self, include: Include | None) -> None:
        super().__init__()
        self.include = include
        self.commands: list[Command] = []
        self.depth = 0
        self.included: set[str] = set()
        self.remarks: list[Problem] = []
        self.calls: list[Location | None] = []

    def block(self, script: Script, nodes: list[Node]) -> None:
        """Follow statements one after the other."""
        raise NotImplementedError

    def statement(self, script: Script, node: Node) -> None:
        """Follow one statement."""
        raise NotImplementedError

    def apart(self, action: Callable[[], None]) -> None:
        """Run in a subshell: changes to variables do not come back, and ``exit`` leaves only it."""
        kept, self.state = self.state, self.state.copy()
        try:
            action()
        except (Stop, Return):
            pass
        finally:
            self.state = kept

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
                raise Stop if name == "exit" else Return
        elif name == "exec":
            while rest and rest[0].text in ("-c", "-l"):
                rest = rest[1:]
            if rest:
                self.command(rest, extra, location)
                raise Stop
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
        elif name in self.state.functions and self.depth < MAX_DEPTH:
            self.call(name, words, extra, location)
        elif name in ("command", "builtin", "nohup", "time", "setsid", "nice", "sudo") and rest:
            self.wrapped(rest, extra, location)
        elif name == "env":
            self.environment(rest, extra, location)
        elif name.rpartition("/")[2] in _SHELLS and rest:
            self.shell(rest, extra, location)
        elif inner := _inner_shell(words):
            self.shell(words[inner:], extra, location)
        elif (name.rpartition("/")[2] in _CARRIERS) and (carried := _carried(rest)):
            kept, self.state = self.state, self.state.copy()
            if name.rpartition("/")[2] in _REMOTE:
                self.state.exported.clear()
            self.shell([standing("-c", location), carried], extra, location)
            self.state = kept
        else:
            self.note(words, extra, location)

    def wrapped(self, rest: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        """Follow the command that another one runs (`nohup`, `time`), its options left out."""
        while rest and rest[0].text.startswith("-"):
            rest = rest[1:]
        if rest:
            self.command(rest, extra, location)

    def environment(self, rest: list[Text], extra: dict[str, Text], location: Location | None) -> None:
        """Follow `env NAME=value command`."""
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
        """Note down a command that is not followed further."""
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
        """Follow a function: its body with the call's words as arguments."""
        script, body = self.state.functions[name]
        kept = self.state.arguments
        self.state.arguments = tuple(words)
        for variable, value in extra.items():
            self.assign(variable, value)
        self.calls.append(location)
        try:
            self.statement(script, body)
        except Return:
            pass
        finally:
            self.calls.pop()
            self.state.arguments = kept

    def inline(self, text: Text) -> None:
        """Read text as part of this script (``eval``, ``source``)."""
        if self.depth >= MAX_DEPTH:
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
        """Follow a file that is read in; what cannot be had is remarked on."""
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
        except Return:
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
        self.state = State(variables=dict(env), exported=set(env), arguments=arguments)
        self.included.add(rest[0].text)
        try:
            self.inline(text)
        except (Stop, Return):
            pass
        finally:
            self.state = kept
            self.included.discard(rest[0].text)


def _with_spaces(parts: list[Text]) -> Iterator[Text]:
    for number, part in enumerate(parts):
        if number:
            yield Text(" ", part.slice(0, 0).runs)
        yield part


def _named(name: str) -> str:
    return f"argument {name} of the script" if name.isdigit() else f"`{name}`"


def _carried(words: list[Text]) -> Text | None:
    """The word that is itself a command line with an engine in it (`tmux new -d "vllm serve …"`)."""
    return next((word for word in words if " " in word.text and _ENGINE.search(word.text)), None)


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
