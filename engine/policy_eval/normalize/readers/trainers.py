"""What trainers' settings mean: from their own names to facts of a normalized document."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.shape import UNKNOWN_FACT, Fact
from policy_eval.normalize.text import Text

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")


@cache
def trainers() -> dict[str, Any]:
    """What ``trainers.json`` says of each framework."""
    with open(os.path.join(os.path.dirname(__file__), "trainers.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def fact_of(pointer: str, kind: str, text: Text) -> Fact:
    """A setting written as text (a word of a command) as a fact of the kind that the document takes.

    ``kind`` is `number`, `integer`, `boolean` or `string`. Text of another kind is unknown.
    """
    if text.unknown is not None:
        return Fact(pointer=pointer, value=UNKNOWN_FACT, text=text, why=text.unknown)
    plain = text.text.strip()
    value: Any = UNKNOWN_FACT
    if kind == "boolean" and plain.lower() in ("true", "false"):
        value = plain.lower() == "true"
    elif (kind == "integer" and _INTEGER.match(plain)) or (kind == "number" and _INTEGER.match(plain)):
        value = int(plain)
    elif kind == "number" and _NUMBER.match(plain):
        value = float(plain)
    elif kind == "string":
        value = plain
    why = f"expected {_KINDS[kind]}, found `{plain[:60]}`" if value is UNKNOWN_FACT else None
    return Fact(pointer=pointer, value=value, text=text, why=why)


_KINDS = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a string"}


def item_facts(item: Item | None, names: dict[str, Sequence[str]]) -> list[Fact]:
    """The facts that a mapping states: ``names`` gives the pointer and the kind for each key that means one."""
    facts: list[Fact] = []
    if item is None:
        return facts
    for key, (pointer, kind) in names.items():
        value = item.get(*key.split("."))
        if value is None:
            continue
        if (
            kind in _PLAIN
            and isinstance(value.value, _PLAIN[kind])
            and (kind == "boolean" or not isinstance(value.value, bool))
        ):
            facts.append(Fact(pointer=pointer, value=value.value, text=value.text()))
        elif isinstance(value.value, str) and value.value.lower() not in ("none", "null"):
            facts.append(fact_of(pointer, kind, value.text()))
        elif not isinstance(value.value, str):
            why = f"expected {_KINDS[kind]}, found `{value.text().text[:60]}`"
            facts.append(Fact(pointer=pointer, value=UNKNOWN_FACT, text=value.text(), why=why))
    return facts


_PLAIN: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
}
