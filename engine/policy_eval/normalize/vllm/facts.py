"""Collects the facts of one document: their values, where each comes from, and which cannot be known."""

from __future__ import annotations

from typing import Any

from policy_eval.errors import Location, Problem
from policy_eval.model import Provenance
from policy_eval.normalize.vllm.values import Hole


class Facts:
    """A document in the making. ``unknown`` maps JSON Pointers to the reason."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.provenance: dict[str, Provenance] = {}
        self.unknown: dict[str, str] = {}
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def put(self, pointer: str, value: Any, provenance: Provenance) -> None:
        """State a fact; a Hole makes it unknown, for the reason it gives."""
        if isinstance(value, Hole):
            self.unknown[pointer] = value.reason
            self.provenance[pointer] = Provenance(
                how="stated",
                location=provenance.location,
                text=provenance.text,
                why=f"unknown: {value.reason}",
            )
            return
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        at = self.value
        for part in parents:
            child = at.get(part)
            if not isinstance(child, dict):
                child = at[part] = {}
            at = child
        at[last] = _encodable(value)
        self.provenance[pointer] = provenance

    def get(self, pointer: str) -> Any:
        """The value stated so far; None where there is none."""
        at: Any = self.value
        for part in pointer.split("/")[1:]:
            at = at.get(part) if isinstance(at, dict) else None
        return at

    def refuse(self, message: str, location: Location | None, advice: str | None = None) -> None:
        """The engine would not start."""
        self.errors.append(Problem(message=message, location=location, help=advice))


def _encodable(value: Any) -> Any:
    """The value with lone surrogates replaced, which JSON escapes can spell and no file can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    return [_encodable(item) for item in value] if isinstance(value, list) else value
