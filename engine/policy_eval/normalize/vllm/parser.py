"""Python's argparse (the behaviour and wording of 3.11) over an option table, keeping the place of every value.

The standard parser is not used: it forgets which word a value came from, its wording changes between releases of
Python, and it stops at the first error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from policy_eval.errors import PolicyEvalError
from policy_eval.normalize.text import UNKNOWN
from policy_eval.normalize.vllm.table import Option, Table
from policy_eval.normalize.vllm.tokens import Token, refuse
from policy_eval.normalize.vllm.values import BadValue, Hole, convert
from policy_eval.record import record, value_record

_MAX_ERRORS = 20
_NEGATIVE = re.compile(r"^-\d+$|^-\d*\.\d+$")


@record
class Given:
    """What the command line says of one option: its value, the words of the value, and the option's own word."""

    option: Option
    value: Any
    tokens: tuple[Token, ...]
    spelled: Token | None


class Parsed:
    """The outcome: what was given, by dest (the last one wins); what would have made argparse stop.

    ``open`` is a word that cannot be known and stands where it may be any option; ``after_open`` are the dests
    that are known nevertheless, because later words set them again.
    """

    __slots__ = ("after_open", "errors", "given", "open")

    def __init__(self) -> None:
        self.given: dict[str, Given] = {}
        self.errors: list[PolicyEvalError] = []
        self.open: Token | None = None
        self.after_open: set[str] = set()


@value_record
class _Match:
    """An option string found in a word: the option, its spelling there, and the value after ``=``."""

    option: Option | None
    name: str
    explicit: Token | None


def parse(tokens: Sequence[Token], table: Table) -> Parsed:
    """Read the words that follow ``serve``."""
    run = _Run(tokens, table)
    run.all()
    return run.parsed


class _Run:
    def __init__(self, tokens: Sequence[Token], table: Table) -> None:
        self.tokens, self.table = list(tokens), table
        self.parsed = Parsed()
        self.matches: dict[int, _Match] = {}
        self.pattern = self._classify()
        self.extras: list[Token] = []
        self.positional_done = False

    def _classify(self) -> str:
        """One letter a word: O an option, A an argument, - the separator; U unknown, perhaps an option."""
        letters: list[str] = []
        plain = False
        for i, token in enumerate(self.tokens):
            if plain:
                letters.append("A")
            elif token.text == "--":
                letters.append("-")
                plain = True
            elif token.open or _may_be_option(token):
                letters.append("U")
            else:
                try:
                    match = self._option(token)
                except PolicyEvalError as error:
                    self._error(error)
                    match = _Match(None, "", None)
                if match is None:
                    letters.append("A")
                else:
                    self.matches[i] = match
                    letters.append("O")
        return "".join(letters)

    def _option(self, token: Token) -> _Match | None:
        text, names = token.text, self.table.names
        if not text.startswith("-") or len(text) == 1:
            return None
        if text in names:
            return _Match(names[text], text, None)
        name, equals, _ = text.partition("=")
        if equals and name in names:
            return _Match(names[name], name, token.part(len(name) + 1))
        found = self._abbreviated(token)
        if len(found) > 1:
            matches = ", ".join(match.name for match in found)
            message = f"ambiguous option: {text[:200]} could match {matches}"
            raise refuse(message, token, "write the option out")
        if found:
            return found[0]
        if _NEGATIVE.match(text) or " " in text:
            return None
        return _Match(None, text, None)

    def _abbreviated(self, token: Token) -> list[_Match]:
        text, names = token.text, self.table.names
        found = []
        if text.startswith("--"):
            prefix, equals, _ = text.partition("=")
            explicit = token.part(len(prefix) + 1) if equals else None
            found = [_Match(names[name], name, explicit) for name in self.table.starting_with(prefix)]
        else:
            if text[:2] in names:
                found.append(_Match(names[text[:2]], text[:2], token.part(2)))
            found += [_Match(names[name], name, None) for name in self.table.starting_with(text)]
        return found

    def all(self) -> None:
        at, end = 0, len(self.tokens)
        while at < end:
            letter = self.pattern[at]
            if letter == "U":
                self._open(self.tokens[at])
                at += 1
            elif letter == "O":
                at = self._optional(at)
            else:
                at = self._positional(at)
        if self.extras and self.parsed.open is None:
            # Words of what may be an unknown option's values cannot be held against the input.
            words = " ".join(token.text for token in self.extras)
            error = refuse(f"unrecognized arguments: {words[:2000]}", self.extras[0], self._advice())
            self._error(error)

    def _error(self, error: PolicyEvalError) -> None:
        if len(self.parsed.errors) < _MAX_ERRORS:
            self.parsed.errors.append(error)

    def _advice(self) -> str | None:
        from difflib import get_close_matches

        text = self.extras[0].text.partition("=")[0]
        if not text.startswith("-"):
            return "a flag takes no value; only the model is given without an option"
        if close := get_close_matches(text, list(self.table.names), n=1):
            return f"did you mean `{close[0]}`?"
        return f"vLLM {self.table.release} has no such option"

    def _open(self, token: Token) -> None:
        self.parsed.open = token
        # The model that comes first stays the model, whatever follows.
        self.parsed.after_open &= {self.table.positional.dest}

    def _positional(self, at: int) -> int:
        """Arguments up to the next option: the model, unless it is given already, and what is too much."""
        end = at
        while end < len(self.tokens) and self.pattern[end] in "A-":
            end += 1
        words = [i for i in range(at, end) if self.pattern[i] == "A"]
        if words and not self.positional_done:
            self.positional_done = True
            self._take(self.table.positional, (self.tokens[words[0]],), None)
            words = words[1:]
        self.extras += [self.tokens[i] for i in words]
        return end

    def _optional(self, at: int) -> int:
        match, token = self.matches[at], self.tokens[at]
        option, explicit = match.option, match.explicit
        name = match.name
        while explicit is not None and option is not None and option.nargs == 0:
            # `-xyz` may be several flags in one word.
            if name.startswith("--") or not explicit.text:
                return self._stop(option, f"ignored explicit argument {explicit.text[:200]!r}", token, at + 1)
            self._take(option, (), token, name)
            name = f"-{explicit.text[0]}"
            following = self.table.names.get(name)
            if following is None:
                return self._stop(option, f"ignored explicit argument {explicit.text[:200]!r}", token, at + 1)
            option, explicit = following, explicit.part(1) if len(explicit.text) > 1 else None
        if option is None:
            if name:  # an ambiguous one is an error already
                self.extras.append(token)
            return at + 1
        if explicit is not None:
            self._take(option, (explicit,), token, name)
            return at + 1
        start = at + 1
        stop = start
        most = {None: 1, 0: 0, "?": 1}.get(option.nargs, len(self.tokens))
        while stop < len(self.tokens) and stop - start < most and self.pattern[stop] == "A":
            stop += 1
        unknown_next = stop < len(self.tokens) and self.pattern[stop] == "U" and stop - start < most
        if unknown_next and option.nargs is None and not self.tokens[stop].open:
            # One value is needed: an unknown word there can only be it, whatever it is.
            stop += 1
            unknown_next = False
        if stop == start and option.nargs in (None, "+"):
            if unknown_next:
                self._given(option, Hole(self.tokens[stop].unknown or "it cannot be resolved"), (), token)
                return start
            wording = "expected one argument" if option.nargs is None else "expected at least one argument"
            return self._stop(option, wording, token, start)
        self._take(option, tuple(self.tokens[start:stop]), token, name)
        return stop

    def _stop(self, option: Option, message: str, token: Token, after: int) -> int:
        advice = None
        if message.startswith("ignored"):
            advice = f"`{option.names[0]}` takes no value; write `{option.names[-1]}` for false"
        self._error(refuse(f"argument {option.title}: {message}", token, advice))
        return after

    def _take(self, option: Option, tokens: tuple[Token, ...], spelled: Token | None, name: str = "") -> None:
        try:
            value = self._value(option, tokens, name)
        except BadValue as error:
            where = next((token for token in tokens if not _good(option, token)), spelled)
            advice = f"one of {', '.join(option.choices)}" if option.choices else None
            self._error(refuse(f"argument {option.title}: {error}", where, advice))
            return
        self._given(option, value, tokens, spelled)

    def _given(self, option: Option, value: Any, tokens: tuple[Token, ...], spelled: Token | None) -> None:
        self.parsed.given[option.dest] = Given(option=option, value=value, tokens=tokens, spelled=spelled)
        self.parsed.after_open.add(option.dest)

    def _value(self, option: Option, tokens: tuple[Token, ...], name: str) -> Any:
        if option.nargs == 0:
            return not (option.action == "bool" and name.startswith("--no-"))
        values = [convert(option, token) for token in tokens]
        if option.nargs == "+":
            return values
        if option.action == "append":
            before = self.parsed.given.get(option.dest)
            return [*(before.value if before else ()), *values]
        return values[0] if values else None


def _good(option: Option, token: Token) -> bool:
    try:
        convert(option, token)
    except BadValue:
        return False
    return True


def _may_be_option(token: Token) -> bool:
    """Whether a word with unknown parts may turn out to be an option, or no word or several words."""
    at = token.text.find(UNKNOWN)
    if at < 0 or token.argument:
        return False
    if at == 0:
        # `$NAME` may be split into words or be empty; `$NAME/part` is one word that is no option.
        return len(token.text) == 1
    # `--name=…` with an unknown value is that option; `--na…` may be any.
    return token.text.startswith("-") and "=" not in token.text[:at]
