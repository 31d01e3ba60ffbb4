"""Read: text -> plain data in which every value has a place. Strict, bounded, located errors only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy_eval.load.json_text import load_json
from policy_eval.load.source import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Node, Source, read_text

if TYPE_CHECKING:
    from policy_eval.load.yaml_text import load_yaml, load_yaml_all

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Node",
    "Source",
    "load_json",
    "load_yaml",
    "load_yaml_all",
    "read_text",
]


def __getattr__(name: str) -> Any:
    # PyYAML takes longer to import than a JSON document takes to judge, so only YAML pays for it.
    if name in ("load_yaml", "load_yaml_all"):
        from policy_eval.load import yaml_text

        return getattr(yaml_text, name)
    raise AttributeError(f"module 'policy_eval.load' has no attribute {name!r}")
