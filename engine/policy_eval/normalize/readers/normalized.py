"""Normalized documents themselves, in JSON or YAML: what `policy-eval normalize` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy_eval.errors import Location, PolicyEvalError
from policy_eval.model import CONFIG_SCHEMA, Document, Provenance
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.schema import quick_check, schema_problems

# What a document that forgot to say `schema` is told by.
_OWN_KEYS = {"schema", "engine", "model_config", "speculative_config", "use_v2_model_runner"}


class Places(Mapping[str, Provenance]):
    """Where each fact of a normalized document is written; worked out when asked for.

    A document that brings its own ``provenance``, as `policy-eval normalize` prints it, is believed.
    """

    def __init__(self, item: Item) -> None:
        self._item = item

    def __getitem__(self, pointer: str) -> Provenance:
        brought = self._item.value.get("provenance")
        if isinstance(brought, dict) and isinstance(brought.get(pointer), dict):
            return _brought(brought[pointer], pointer)
        found = self._find(pointer)
        if found is None:
            raise KeyError(pointer)
        where = found.places.location(self._item.pointer + pointer)
        text = found.text().text if found.is_scalar else None
        return Provenance(how="stated", location=where, text=text)

    def _find(self, pointer: str) -> Item | None:
        value = self._item.value
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
                value = value[int(name[:9])]
            else:
                return None
        return Item(value, self._item.pointer + pointer, self._item.places)

    def __iter__(self) -> Iterator[str]:
        stack: list[tuple[str, Any]] = [("", self._item.value)]
        while stack:
            pointer, value = stack.pop()
            if isinstance(value, dict):
                parts = [(_escape(key), child) for key, child in value.items()]
                stack.extend((f"{pointer}/{key}", child) for key, child in reversed(parts))
            elif pointer:
                yield pointer

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _brought(entry: dict[str, Any], pointer: str) -> Provenance:
    where = None
    if "file" in entry:
        keys = ("file", "line", "column", "end_line", "end_column")
        where = Location(**{key: entry[key] for key in keys if key in entry}, pointer=pointer)
    return Provenance(how=entry["how"], location=where, text=entry.get("text"), why=entry.get("why"))


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def matches(source: Input) -> bool:
    """Whether some document says that it is a normalized one."""
    return any(_claims(item) for item in source.mappings())


def _claims(item: Item) -> bool:
    schema = item.string("schema")
    if schema is not None and schema.startswith("policy-eval/"):
        return True
    return "kind" not in item.value and len(_OWN_KEYS & item.value.keys()) >= 2


def read(source: Input) -> Sequence[Found | Document]:
    """Each document, checked against its schema; raises PolicyEvalError with every fault."""
    found: list[Document] = []
    problems = []
    items = source.items()
    for number, item in enumerate(items):
        if not quick_check("config")(item.value):
            problems += schema_problems(item.value, "config", item.places, source.file)  # type: ignore[arg-type]
        name = source.file if len(items) == 1 else f"{source.file} document {number + 1}"
        found.append(Document(name=name, value=item.value, provenance=Places(item)))
    if problems:
        raise PolicyEvalError(*problems)
    return found


SHAPE = Shape(
    name="normalized",
    description=f"normalized documents ({CONFIG_SCHEMA}), JSON or YAML",
    matches=matches,
    read=read,
)
