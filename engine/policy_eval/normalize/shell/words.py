"""Shell words: quotes, escapes, variables and field splitting as bash does them. Nothing is ever run.

What cannot be known before the script runs (an unset variable, the output of a command, file names that match a
pattern) becomes a part of unknown text that says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from policy_eval.errors import Location
from policy_eval.normalize.shell.arithmetic import arithmetic
from policy_eval.normalize.shell.quoting import double_end, expansion_end, find
from policy_eval.normalize.text import Text, join, missing, standing

Value = Text | tuple[Text, ...]
"""A variable's value: text, or the members of an array."""

SCRIPT_FOLDER = "the folder of the script is known only when it runs"

_SPACE = " \t\n"
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?:\[(?P<index>[^\]]*)\])?(?P<op>:?[-=+?])?", re.DOTALL
)
_SCRIPT_FOLDER = re.compile(r"dirname\b.*(\$\{?0\b|BASH_SOURCE)")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_MAX_NESTING = 30


class Scope(Protocol):
    """Where words find their variables."""

    def lookup(self, name: str) -> Value | None:
        """The value of a variable or positional parameter; None where it is not set as far as is known."""
        ...

    def is_unset(self, name: str) -> bool:
        """Whether a variable is known not to be set, whatever the environment says."""
        ...

    def assign(self, name: str, value: Value) -> None:
        """Set a variable (``${name:=word}``)."""
        ...

    def defaulted(self, name: str, location: Location | None) -> None:
        """Note that a default was taken for a variable that may be set from outside."""
        ...


class _Fields:
    """The fields a word becomes: pieces of the open one, and those that are finished."""

    def __init__(self) -> None:
        self.done: list[Text] = []
        self.open: list[Text] | None = None

    def add(self, text: Text) -> None:
        if self.open is None:
            self.open = []
        self.open.append(text)

    def close(self) -> None:
        if self.open is not None:
            self.done.append(join(self.open))
        self.open = None

    def split(self, text: Text) -> None:
        """Add the result of an unquoted expansion: white space separates fields."""
        if not text.text:
            return
        if text.text[0] in _SPACE:
            self.close()
        parts = text.split(_SPACE)
        for number, part in enumerate(parts):
            if number:
                self.close()
            self.add(_globbed(part))
        if text.text[-1] in _SPACE:
            self.close()


def expand(word: Text, scope: Scope, *, nesting: int = 0) -> list[Text]:
    """The fields that a word of a command becomes."""
    fields = _Fields()
    if (found := _unquoted_braces(word.text)) is not None:
        fields.add(missing("the shell expands the braces here; put quotes around them", word.place(*found)))
    else:
        _scan(word, scope, fields, quoted=False, nesting=nesting)
    fields.close()
    return fields.done


def expand_one(word: Text, scope: Scope, *, nesting: int = 0) -> Text:
    """What a word becomes where no field splitting takes place (assignments, tests, the word after `case`)."""
    fields = _Fields()
    _scan(word, scope, fields, quoted=False, nesting=nesting, splitting=False)
    fields.close()
    if len(fields.done) == 1:
        return fields.done[0]
    return _spaced(fields.done) if fields.done else word.slice(0, 0)


def _spaced(parts: list[Text]) -> Text:
    """Fields joined with single spaces, as ``$*`` and assignments of ``$@`` do."""
    pieces: list[Text] = []
    for number, part in enumerate(parts):
        if number:
            pieces.append(Text(" ", part.slice(0, 0).runs))
        pieces.append(part)
    return join(pieces)


def _scan(
    word: Text, scope: Scope, fields: _Fields, *, quoted: bool, nesting: int, splitting: bool = True
) -> None:
    """Read a word, or the inside of double quotes, adding what it becomes to ``fields``."""
    text, at, plain = word.text, 0, 0
    length = len(text)

    def flush(to: int) -> None:
        if to > plain:
            part = word.slice(plain, to)
            fields.add(part if quoted or not splitting else _globbed(part))

    while at < length:
        char = text[at]
        if char == "\\" and at + 1 < length:
            if quoted and text[at + 1] not in '$`"\\\n':
                at += 2
                continue
            flush(at)
            if text[at + 1] != "\n":
                fields.add(word.slice(at + 1, at + 2))
            at += 2
        elif char == "'" and not quoted:
            flush(at)
            end = find(text, "'", at + 1)
            fields.add(word.slice(at + 1, end))
            at = end + 1
        elif char == '"' and not quoted:
            flush(at)
            end = double_end(text, at + 1)
            inside = word.slice(at + 1, end)
            if inside.text not in ("$@", "${@}") and not re.fullmatch(r"\$\{\w+\[@\]\}", inside.text):
                fields.add(word.slice(at + 1, at + 1))
            _scan(inside, scope, fields, quoted=True, nesting=nesting)
            at = end + 1
        elif char == "`":
            flush(at)
            end = find(text, "`", at + 1)
            fields.add(_command_output(word.slice(at, end + 1)))
            at = end + 1
        elif char == "$" and at + 1 < length:
            if text[at + 1] == "'" and not quoted:
                flush(at)
                at = _ansi_c(word, at + 2, fields)
            elif text[at + 1] == '"' and not quoted:
                flush(at)
                at += 1
            else:
                end = expansion_end(text, at)
                if end == at:
                    at += 1
                    continue
                flush(at)
                _expansion(word.slice(at, end), scope, fields, quoted or not splitting, nesting)
                at = end
        elif char == "~" and not quoted and at == 0 and (length == 1 or text[1] == "/"):
            fields.add(missing("the home folder `~` is known only where the script runs", word.place(0, 1)))
            at += 1
        else:
            at += 1
            continue
        plain = at
    flush(length)


def _globbed(part: Text) -> Text:
    """Unquoted text as it is, or unknown when the shell would match it against file names."""
    if any(char in part.text for char in "*?[") and part.unknown is None:
        shown = part.text[:60]
        return missing(f"the shell matches the pattern `{shown}` against file names", part.place())
    return part


def _unquoted_braces(text: str) -> tuple[int, int] | None:
    """Where an unquoted ``{a,b}`` or ``{1..3}`` stands, if anywhere."""
    if "{" not in text:
        return None
    bare = list(text)
    at = 0
    while at < len(text):
        char, end = text[at], at + 1
        if char == "\\":
            end = at + 2
        elif char == "'":
            end = find(text, "'", at + 1) + 1
        elif char == '"':
            end = double_end(text, at + 1) + 1
        elif char == "$":
            end = max(expansion_end(text, at), at + 1)
        if end > at + 1:
            bare[at:end] = "x" * len(bare[at:end])
        at = end
    found = _BRACES.search("".join(bare))
    return found.span() if found else None


def _command_output(word: Text) -> Text:
    if _SCRIPT_FOLDER.search(word.text):
        return missing(SCRIPT_FOLDER, word.place())
    shown = " ".join(word.text.split())[:60]
    return missing(f"the output of `{shown.strip('`')}` is known only when it runs", word.place())


def _ansi_c(word: Text, at: int, fields: _Fields) -> int:
    """The text of ``$'…'`` from just after the quote; gives where it ends."""
    text = word.text
    fields.add(word.slice(at, at))
    while at < len(text) and text[at] != "'":
        if text[at] != "\\" or at + 1 >= len(text):
            fields.add(word.slice(at, at + 1))
            at += 1
            continue
        kind = text[at + 1]
        number = re.compile(
            r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})"
        ).match(text, at + 1)
        if number:
            digits = number.group(1) or number.group(2) or number.group(3)
            code = int(digits, 16) if digits else int(number.group(4), 8)
            char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
            end = number.end()
        else:
            char, end = _ESCAPES.get(kind, kind if kind in "\\'\"?" else "\\" + kind), at + 2
        fields.add(Text(char, word.slice(at, at + 1).runs))
        at = end
    return at + 1


def _expansion(part: Text, scope: Scope, fields: _Fields, quoted: bool, nesting: int) -> None:
    """Add what ``$name``, ``${…}`` or ``$(…)`` becomes."""
    text = part.text
    if nesting > _MAX_NESTING:
        fields.add(missing("nested too deeply", part.place()))
    elif text.startswith("$(("):
        fields.add(_sum(part, scope))
    elif text.startswith("$("):
        fields.add(_command_output(part))
    elif not text.startswith("${"):
        _add(_value(text[1:], part, scope), fields, quoted, spread=text == "$@")
    else:
        _parameter(part, scope, fields, quoted, nesting)


def _sum(part: Text, scope: Scope) -> Text:
    """What ``$((…))`` comes to."""

    def lookup(name: str) -> str | None:
        value = scope.lookup(name)
        return value.text if isinstance(value, Text) and value.unknown is None else None

    text = part.text
    value = arithmetic(text[3:-2], lookup) if text.endswith("))") else None
    if value is None:
        return missing(f"the sum `{text[:60]}` is not worked out", part.place())
    return standing(str(value), part.place())


def _parameter(part: Text, scope: Scope, fields: _Fields, quoted: bool, nesting: int) -> None:
    """Add what ``${name…}`` becomes."""
    text = part.text
    found = _PARAMETER.match(text, 2)
    ends = found is not None and (found.group("op") or found.end() == len(text) - 1)
    if found is None or not ends:
        fields.add(missing(f"`{text[:60]}` is not worked out", part.place()))
        return
    name, index, operator = found.group("name", "index", "op")
    spread = name == "@" or index == "@"
    value = _element(name, index, scope)
    if not operator:
        _add(_value(name, part, scope) if value is None else value, fields, quoted, spread=spread)
        return
    word = part.slice(found.end(), len(text) - 1)
    empty = value is not None and (value == () or (isinstance(value, Text) and not value.text))
    absent = value is None or (operator.startswith(":") and empty)
    if operator[-1] == "+":
        if value is None and not scope.is_unset(name):
            fields.add(_unset(name, part))
        elif not absent:
            _word(word, scope, fields, quoted, nesting)
    elif not absent:
        assert value is not None
        _add(value, fields, quoted, spread=spread)
    elif operator[-1] == "?":
        fields.add(_unset(name, part))
    else:
        if value is None and not scope.is_unset(name):
            if not word.text.strip("\"'"):
                # `${NAME:-}` only keeps `set -u` quiet: it is `$NAME`.
                fields.add(_unset(name, part))
                return
            scope.defaulted(name, part.place())
        if operator[-1] == "=":
            scope.assign(name, expand_one(word, scope, nesting=nesting + 1))
        _word(word, scope, fields, quoted, nesting)


def _word(word: Text, scope: Scope, fields: _Fields, quoted: bool, nesting: int) -> None:
    """Add the word of ``${name:-word}``; unquoted, its own white space separates fields."""
    if quoted:
        # Within double quotes the word's own double quotes only quote; they are not part of it.
        fields.add(expand_one(word, scope, nesting=nesting + 1))
        return
    start = at = 0
    text = word.text
    while at <= len(text):
        if at == len(text) or text[at] in _SPACE:
            if at > start:
                _scan(word.slice(start, at), scope, fields, quoted=False, nesting=nesting + 1)
            if at < len(text):
                fields.close()
            at += 1
            start = at
            continue
        char = text[at]
        if char == "\\":
            at += 2
        elif char == "'":
            at = find(text, "'", at + 1) + 1
        elif char == '"':
            at = double_end(text, at + 1) + 1
        elif char == "$":
            at = max(expansion_end(text, at), at + 1)
        else:
            at += 1
        at = min(at, len(text))


def _element(name: str, index: str | None, scope: Scope) -> Value | None:
    """The value of ``name``, or of one of its elements."""
    value = scope.lookup(name)
    if value is None or index in ("@", "*"):
        return (value,) if isinstance(value, Text) and index else value
    if isinstance(value, Text):
        return value if index in (None, "0") else None
    number = index or "0"
    if number.isascii() and number.isdigit() and len(number) < 9:
        return value[int(number)] if int(number) < len(value) else value[0].slice(0, 0) if value else None
    return None


def _value(name: str, part: Text, scope: Scope) -> Value:
    """A variable's value where one is needed: unknown when it is not set in the script."""
    value = scope.lookup(name)
    if value is not None:
        if isinstance(value, tuple) and name not in ("@", "*"):
            return value[0] if value else part.slice(0, 0)
        return value
    return part.slice(0, 0) if scope.is_unset(name) else _unset(name, part)


def _unset(name: str, part: Text) -> Text:
    if name in ("@", "*"):
        why = f"the script's arguments `${name}` are not known"
    elif name.isdigit():
        why = f"argument {name} of the script is not known"
    elif name in "#?$!-":
        why = f"`${name}` is known only when the script runs"
    else:
        why = f"`{name}` is not set here"
    return missing(why, part.place())


def _add(value: Value, fields: _Fields, quoted: bool, *, spread: bool) -> None:
    """Add an expanded value: arrays a field each, unquoted text split at white space."""
    if isinstance(value, Text):
        if quoted:
            fields.add(value)
        else:
            fields.split(value)
        return
    if quoted and not spread:
        fields.add(_spaced(list(value)))
        return
    for number, member in enumerate(value):
        if number:
            fields.close()
        if quoted:
            fields.add(member)
        else:
            fields.split(member)


Include = Callable[[str, Location | None], Text | None]
"""Gives the text of a file named in an input, if it lies in the folder that includes may not leave."""
