"""A cursor over YAML, JSON or TOML data: each value with its JSON Pointer and its place, nesting included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from policy_eval import load
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.load.source import line_starts
from policy_eval.normalize.text import Run, Text, written
from policy_eval.record import value_record


class Places(Protocol):
    """Where the values of some data are; ``policy_eval.load.Source`` is one."""

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place of the value (or key) at a JSON Pointer, or of a part of the string there."""
        ...


@value_record
class Item:
    """One value of some data. Reading what is not there gives None or nothing, never an error."""

    value: Any
    pointer: str
    places: Places

    def get(self, *path: str | int) -> Item | None:
        """The value below, by keys and indexes; None where a step leads to nothing or to null."""
        value, pointer = self.value, self.pointer
        for step in path:
            keyed = isinstance(value, dict) and isinstance(step, str) and step in value
            if not keyed and not (isinstance(value, list) and isinstance(step, int) and step < len(value)):
                return None
            value = value[step]
            pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
        return None if value is None else Item(value, pointer, self.places)

    def dig(self, *path: str | int, default: Any = None) -> Any:
        """The plain value below, or ``default``."""
        found = self.get(*path)
        return default if found is None else found.value

    def string(self, *path: str | int) -> str | None:
        """The string below; None where there is none or it is another kind of value."""
        found = self.get(*path)
        return found.value if found is not None and isinstance(found.value, str) else None

    def items(self, *path: str | int) -> Iterator[Item]:
        """The members of the list below; nothing where it is no list. Null members are left out."""
        found = self.get(*path)
        if found is not None and isinstance(found.value, list):
            for index in range(len(found.value)):
                if child := found.get(index):
                    yield child

    def pairs(self, *path: str | int) -> Iterator[tuple[str, Item]]:
        """Keys and values of the mapping below; nothing where it is none. Null values are left out."""
        found = self.get(*path)
        if found is not None and isinstance(found.value, dict):
            for key in found.value:
                if child := found.get(key):
                    yield key, child

    def location(self, *, key: bool = False) -> Location:
        """The place of the value, or of its key."""
        return self.places.location(self.pointer, key=key)

    def key_text(self, spelling: str) -> Text:
        """``spelling`` standing for the value's key, at the key's place."""
        places, pointer = self.places, self.pointer
        return Text(spelling, standing_at(lambda: places.location(pointer, key=True)))

    def text(self) -> Text:
        """A scalar as text: strings as they are, numbers and booleans as JSON writes them."""
        places, pointer = self.places, self.pointer
        if isinstance(self.value, str) and self.value:
            return written(self.value, lambda start, end: places.location(pointer, start, end))
        return Text(scalar_text(self.value), standing_at(lambda: places.location(pointer)))

    @property
    def is_scalar(self) -> bool:
        """Whether this is a string, a number, true or false."""
        return isinstance(self.value, (str, int, float))


def standing_at(where: Callable[[], Location]) -> tuple[Run]:
    """The runs of a text that stands for one place, which is looked up only when asked for."""
    return (Run(0, lambda _start, _end: where(), 0),)


def scalar_text(value: Any) -> str:
    """A scalar as JSON writes it, strings without quotes; lists and mappings as JSON."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


class Below:
    """Places of the data below one value, as if that value were all there is."""

    def __init__(self, places: Places, prefix: str) -> None:
        self._places, self._prefix = places, prefix

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place of the value (or key) at a JSON Pointer that starts below."""
        return self._places.location(self._prefix + pointer, start, end, key=key)


def members(item: Item) -> list[Item]:
    """The mappings of a list that holds nothing else, each as a document of its own; else the item itself."""
    if (
        not isinstance(item.value, list)
        or not item.value
        or not all(isinstance(one, dict) for one in item.value)
    ):
        return [item]
    return [
        Item(one, "", Below(item.places, f"{item.pointer}/{number}")) for number, one in enumerate(item.value)
    ]


class Nested:
    """Data read from a string inside other data: places lie in the outer file."""

    def __init__(self, inner: Source, outer: Text) -> None:
        self._inner, self._outer = inner, outer
        self._lines = line_starts(inner.text)

    def location(
        self, pointer: str, start: int | None = None, end: int | None = None, *, key: bool = False
    ) -> Location:
        """The place in the outer file of the value (or key) at a JSON Pointer of the nested data."""
        return outer_location(self._inner.location(pointer, start, end, key=key), self._outer, self._lines)


def outer_location(inner: Location, outer: Text, lines: list[int]) -> Location:
    """A place in the text of a string as a place in the file that holds the string."""
    if inner.line is None or inner.column is None:
        return outer.place() or inner
    start = lines[inner.line - 1] + inner.column - 1
    end = start + 1
    if inner.end_line is not None and inner.end_column is not None:
        end = lines[inner.end_line - 1] + inner.end_column - 1
    return outer.place(start, end) or inner


def nested_yaml(outer: Text) -> list[Item]:
    """The YAML documents in a string, with their places in the outer file; raises PolicyEvalError there."""
    try:
        sources = load.load_yaml_all(outer.text, "")
    except PolicyEvalError as error:
        lines = line_starts(outer.text)
        raise PolicyEvalError(*(_moved(problem, outer, lines) for problem in error.problems)) from None
    return [Item(source.value, "", Nested(source, outer)) for source in sources]


def _moved(problem: Problem, outer: Text, lines: list[int]) -> Problem:
    where = problem.location and outer_location(problem.location, outer, lines)
    return Problem(message=problem.message, location=where, help=problem.help)
