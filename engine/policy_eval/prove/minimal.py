"""Configurations as short as they can be written: what the schema has as default is left out."""

from __future__ import annotations

from typing import Any

from policy_eval.cel import types
from policy_eval.schema import config_type


def minimal(document: dict[str, Any]) -> dict[str, Any]:
    """The document without facts that are the schema's default; it means the same."""
    kept = {key: document[key] for key in ("schema", "engine")}
    rest = {key: value for key, value in document.items() if key not in kept}
    return {**kept, **_without_defaults(rest, config_type())}


def _without_defaults(value: dict[str, Any], record: types.Record) -> dict[str, Any]:
    found = {}
    for key, item in value.items():
        field = record.fields.get(key)
        if field is None:
            found[key] = item
            continue
        if type(item) is type(field.default) and item == field.default:
            continue
        inner = field.type.of if isinstance(field.type, types.Nullable) else field.type
        if isinstance(inner, types.Record) and isinstance(item, dict):
            item = _without_defaults(item, inner)
            # An empty mapping still differs from a default of null.
            if not item and field.default == {}:
                continue
        found[key] = item
    return found


def cost(document: dict[str, Any]) -> tuple[int, int]:
    """How far a configuration is from the plainest one: facts that must be stated, and facts that are set."""
    leaves = list(_leaves(minimal(document)))
    return len(leaves), sum(1 for one in leaves if one)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)] or [value]
    return [value]
