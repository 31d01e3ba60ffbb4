"""What flows along the line: documents in; policies; findings and reports out. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from policy_eval.errors import Location, Problem

CONFIG_SCHEMA = "policy-eval/config/v1"

How = Literal["stated", "default", "derived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where one fact of a document comes from.

    ``stated``: the input says so at ``location``, in the words ``text``. ``default``: nothing says so and the
    engine's own default holds; ``why`` names its source. ``derived``: it follows from other facts; ``why``
    is the reason given by the derivation.
    """

    how: How
    location: Location | None = None
    text: str | None = None
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of the ``provenance`` entries in ``schemas/config.schema.json``."""
        found: dict[str, Any] = {"how": self.how}
        if self.location:
            found |= self.location.to_dict()
        if self.text is not None:
            found["text"] = self.text
        if self.why is not None:
            found["why"] = self.why
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One engine (or trainer) configuration, normalized: ``value`` follows ``schemas/config.schema.json``.

    ``name`` is how a report calls it (``Deployment/vllm container main``). ``provenance`` maps JSON Pointers
    of ``value`` to where the fact was found. ``errors`` are problems that make the configuration unusable
    (the engine would refuse to start: an unknown option, a value out of its choices); ``warnings`` are
    remarks that do not (an option the engine silently ignores).
    """

    name: str
    value: dict[str, Any]
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def place(self, pointer: str) -> Provenance | None:
        """Where the fact at ``pointer`` comes from; else the nearest enclosing fact's place."""
        while pointer:
            if found := self.provenance.get(pointer):
                return found
            pointer = pointer.rpartition("/")[0]
        return self.provenance.get("")

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON data, its provenance included."""
        if not self.provenance:
            return dict(self.value)
        places = {pointer: place.to_dict() for pointer, place in self.provenance.items()}
        return {**self.value, "provenance": places}
