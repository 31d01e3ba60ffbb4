"""What was stated of an option, or its default, with the place of each part of the value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from policy_eval.errors import Location, PolicyEvalError
from policy_eval.load import Source, load_json
from policy_eval.load.source import line_starts
from policy_eval.model import Provenance
from policy_eval.normalize.text import UNKNOWN
from policy_eval.normalize.vllm.parser import Given, Parsed
from policy_eval.normalize.vllm.table import Option, Table
from policy_eval.normalize.vllm.tokens import Token
from policy_eval.normalize.vllm.values import Hole, has_hole
from policy_eval.record import record


@record
class Statement:
    """The value of one option and where it comes from; a Hole where it cannot be known."""

    value: Any
    default_source: str
    given: Given | None = None
    opened: Token | None = None

    @property
    def is_default(self) -> bool:
        """Whether nothing was stated."""
        return self.given is None

    def location(self, pointer: str = "", *, key: bool = False) -> Location | None:
        """The place of the value, or of the part of it (or its key) at a JSON Pointer."""
        token = self._token()
        if token is None:
            return None
        if not pointer:
            return token.location
        return _inner_place(token, pointer, key) or token.location

    def provenance(self, pointer: str = "") -> Provenance:
        """Where the value, or the part of it at a JSON Pointer, comes from."""
        token = self._token()
        if token is None:
            return Provenance(how="default", why=self.default_source)
        where = self.location(pointer)
        text = token.text if len(token.text) <= 200 else token.text[:199] + "…"
        if pointer and where is not None and where != token.location:
            text = _excerpt(where) or text
        return Provenance(how="stated", location=where, text=text.replace(UNKNOWN, "…"))

    def hole(self, pointer: str, value: Any) -> Any:
        """``value``, or a Hole where part of it is unknown."""
        if not _holes(value):
            return value
        token = self._token()
        for leaf in token.leaves if token is not None else ():
            if leaf.unknown and leaf.location == self.location(pointer):
                return Hole(leaf.unknown)
        return Hole((token.unknown if token is not None else None) or "it cannot be resolved")

    def _token(self) -> Token | None:
        if self.given is None:
            return self.opened
        return self.given.tokens[0] if self.given.tokens else self.given.spelled


def _holes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_hole(key) or _holes(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_holes, value))
    return isinstance(value, Hole) or has_hole(value)


class Stated:
    """The options of one command line, defaults included."""

    def __init__(self, parsed: Parsed, table: Table) -> None:
        self._parsed, self._table = parsed, table
        self._options = {option.dest: option for option in table.options}

    @property
    def release(self) -> str:
        """The release whose option table is used."""
        return self._table.release

    def choices(self, dest: str) -> tuple[str, ...]:
        """The values an option may have, none aside; empty where any may be given."""
        option = self._options.get(dest)
        listed = option.choices if option is not None and option.choices is not None else ()
        return tuple(choice for choice in listed if choice != "None")

    def known(self, dest: str) -> bool:
        """Whether the release has the option."""
        return dest in self._options

    def option(self, dest: str) -> Statement:
        """What holds for an option of the release, or for one it does not have (None)."""
        option = self._options.get(dest)
        if option is None:
            return Statement(value=None, default_source=f"vLLM {self._table.release} has no such option")
        source = self._table.source(option.names[0] if option.names else dest)
        given, opened = self._parsed.given.get(dest), self._parsed.open
        if opened is not None and not (dest in self._parsed.after_open and _settled(option)):
            reason = f"{opened.unknown or 'a word of the command line is not known'}; it may set any option"
            return Statement(value=Hole(reason), default_source=source, given=None, opened=opened)
        if given is None:
            return Statement(value=option.default if option.has_default else None, default_source=source)
        return Statement(value=given.value, default_source=source, given=given)


def _settled(option: Option) -> bool:
    """Whether a later word decides an option alone: JSON values also come from dotted options."""
    return option.type != "json" and not option.type.endswith("Config")


def _inner_place(token: Token, pointer: str, key: bool) -> Location | None:
    """The place of a part of a JSON value inside a word, or of its key."""
    if token.inner is not None:
        return token.inner(pointer, key)
    source = _json(token.text)
    if source is None:
        return None
    inner = source.location(pointer, key=key)
    if inner.line is None or inner.column is None or inner.end_line is None or inner.end_column is None:
        return None
    starts = line_starts(token.text)
    return token.place(
        starts[inner.line - 1] + inner.column - 1, starts[inner.end_line - 1] + inner.end_column - 1
    )


@lru_cache(maxsize=16)
def _json(text: str) -> Source | None:
    """JSON with places, kept for the next key that is looked up in it; None where it is not strict JSON."""
    try:
        return load_json(text, "")
    except PolicyEvalError:
        return None


def _excerpt(where: Location) -> str | None:
    """The characters of a place on one line."""
    if where.source_line is None or where.column is None or where.end_column is None:
        return None
    if where.end_line != where.line:
        return None
    return where.source_line[where.column - 1 : where.end_column - 1][:200]
