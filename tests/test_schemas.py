"""The JSON Schemas themselves: valid, strict, and every key described, because editors show the descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = sorted((ROOT / "schemas").glob("*.schema.json"))


def parts(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema of a key, with the path of the key."""
    if isinstance(schema, dict):
        for key, part in schema.get("properties", {}).items():
            yield f"{path}/{key}", part
            yield from parts(part, f"{path}/{key}")
        for key in ("items", "additionalProperties"):
            yield from parts(schema.get(key), f"{path}/{key}")


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.name)
def test_a_schema_is_valid_strict_and_described(file: Path) -> None:
    schema = json.loads(file.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["description"]
    for path, part in parts(schema):
        assert part.get("description"), f"{path} says nothing"
        if "object" in part.get("type", ()):
            assert "additionalProperties" in part, f"{path} does not say whether other keys are allowed"


def test_the_editor_line_of_each_policy_file_leads_to_its_schema() -> None:
    files = list((ROOT / "policies").rglob("*.yaml"))
    assert files
    for path in files:
        first = path.read_text().splitlines()[0]
        prefix = "# yaml-language-server: $schema="
        assert first.startswith(prefix), path
        assert (path.parent / first.removeprefix(prefix)).resolve() in SCHEMAS, path
