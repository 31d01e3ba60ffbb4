"""One document from several ways an input may turn out: what they agree on is known, the rest is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policy_eval.errors import Location, Problem
from policy_eval.model import Document, How, Provenance
from policy_eval.normalize.readers.shape import UNKNOWN_FACT, Fact
from policy_eval.record import replace

_ABSENT = object()


def merged(documents: Sequence[Document], assumed: Sequence[tuple[str, Location | None]]) -> Document:
    """The facts that all documents agree on; the others are listed under ``unknown``.

    ``assumed`` are the conditions that decide between the documents; they are named in a warning.
    """
    first = documents[0]
    if len(documents) == 1:
        return first
    value, differing = _common([document.value for document in documents], "")
    listed = [pointer for document in documents for pointer in document.value.get("unknown", [])]
    unknown = sorted(dict.fromkeys([*listed, *differing]))
    value = {key: item for key, item in value.items() if key != "unknown"}
    if unknown:
        value["unknown"] = unknown
    warnings = list(dict.fromkeys(warning for document in documents for warning in document.warnings))
    if differing:
        named = "; ".join(f"`{condition}`" for condition, _ in assumed[:5])
        warnings.append(
            Problem(
                message=f"{', '.join(f'`{pointer}`' for pointer in differing[:5])} depends on {named}, "
                "known only when it runs",
                location=assumed[0][1] if assumed else None,
                help="state the fact with --set, or judge each case by itself",
            )
        )
    places = {
        pointer: place
        for pointer, place in first.provenance.items()
        if not any(pointer == gone or pointer.startswith(gone + "/") for gone in differing)
    }
    why = " and ".join(f"depends on `{condition}`" for condition, _ in assumed[:3])
    for pointer in differing:
        stated = next(
            (
                place
                for document in documents
                if (place := document.provenance.get(pointer)) and place.location
            ),
            None,
        )
        places[pointer] = Provenance(how="stated", location=stated.location if stated else None, why=why)
    errors = tuple(dict.fromkeys(error for document in documents for error in document.errors))
    return Document(name=first.name, value=value, provenance=places, errors=errors, warnings=tuple(warnings))


def with_facts(document: Document, facts: Sequence[Fact]) -> Document:
    """The document with facts added that the input states beside the engine's options."""
    if not facts:
        return document
    value, provenance = document.value, dict(document.provenance)
    unknown = list(value.get("unknown", []))
    for fact in facts:
        where = fact.text.place() if fact.text is not None else None
        written = fact.text.text if fact.text is not None else None
        if fact.value is UNKNOWN_FACT:
            unknown.append(fact.pointer)
            provenance[fact.pointer] = Provenance(how="stated", location=where, why=fact.why)
            continue
        value = _with(value, fact.pointer.split("/")[1:], fact.value)
        how: How = "stated" if fact.why is None else "derived"
        provenance[fact.pointer] = Provenance(how=how, location=where, text=written, why=fact.why)
    if unknown:
        value = {**value, "unknown": list(dict.fromkeys(unknown))}
    return replace(document, value=value, provenance=provenance)


def _with(value: dict[str, Any], path: Sequence[str], fact: Any) -> dict[str, Any]:
    inner = value.get(path[0])
    added = fact if len(path) == 1 else _with(inner if isinstance(inner, dict) else {}, path[1:], fact)
    return {**value, path[0]: added}


def _common(values: Sequence[Any], pointer: str) -> tuple[Any, list[str]]:
    """What some mappings agree on, and pointers to what they do not."""
    found: dict[str, Any] = {}
    differing: list[str] = []
    for key in dict.fromkeys(key for value in values for key in value):
        if pointer == "" and key in ("unknown", "provenance"):
            continue
        below = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
        members = [value.get(key, _ABSENT) for value in values]
        if all(isinstance(member, dict) for member in members):
            found[key], inner = _common(members, below)
            differing += inner
        elif all(_same(member, members[0]) for member in members[1:]):
            found[key] = members[0]
        else:
            differing.append(below)
    return found, differing


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
