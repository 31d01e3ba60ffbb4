"""What flows along the line: documents in; policies; findings and reports out. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from policy_eval.errors import Location, Problem
from policy_eval.record import record

CONFIG_SCHEMA = "policy-eval/config/v1"

How = Literal["stated", "default", "derived"]


@record
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


@record
class Document:
    """One engine (or trainer) configuration, normalized: ``value`` follows ``schemas/config.schema.json``.

    ``name`` is how a report calls it (``Deployment/vllm container main``). ``provenance`` maps JSON Pointers
    of ``value`` to where the fact was found. ``errors`` are problems that make the configuration unusable
    (the engine would refuse to start: an unknown option, a value out of its choices); ``warnings`` are
    remarks that do not (an option the engine silently ignores).
    """

    name: str
    value: dict[str, Any]
    provenance: Mapping[str, Provenance] = MappingProxyType({})
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def place(self, pointer: str) -> Location | None:
        """Where the input states the fact at ``pointer``; else a part of it; else what encloses it."""
        at = pointer
        while True:
            found = self.provenance.get(at)
            if found and found.location:
                return found.location
            if at == pointer:
                below = (one for key, one in self.provenance.items() if key.startswith(f"{pointer}/"))
                if part := next((one for one in below if one.location and one.how == "stated"), None):
                    return part.location
            if not at:
                return None
            at = at.rpartition("/")[0]

    def origin(self, pointer: str) -> str | None:
        """Why the fact at ``pointer`` is what it is, where the input does not state it."""
        found = self.provenance.get(pointer)
        if found is None and not self._states(pointer):
            return "default: not stated here"
        if found is None or found.how == "stated" or not found.why:
            return None
        if any(one.how == "stated" for key, one in self.provenance.items() if key.startswith(f"{pointer}/")):
            return None
        return f"{found.how}: {found.why}"

    def _states(self, pointer: str) -> bool:
        at: Any = self.value
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(at, dict) and name not in at:
                return pointer in at.get("unknown", ()) if at is self.value else False
            at = at[name] if isinstance(at, dict) else None
        return True

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON data, its provenance included."""
        if not self.provenance:
            return dict(self.value)
        places = {pointer: place.to_dict() for pointer, place in self.provenance.items()}
        return {**self.value, "provenance": places}


Severity = Literal["error", "warning", "info"]
FindingOutcome = Literal["failed", "indeterminate", "error", "waived"]
Outcome = Literal["approved", "rejected", "indeterminate", "not applicable", "error"]

REPORT_SCHEMA = "policy-eval/report/v1"

# From harmless to worst; the outcome of a run is the worst of its documents.
OUTCOMES: tuple[Outcome, ...] = ("not applicable", "approved", "rejected", "indeterminate", "error")


@record
class Step:
    """One sub-expression that decided: its text, its value as JSON text, and where the fact comes from."""

    text: str
    value: str
    location: Location | None = None
    origin: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The step as ``schemas/report.schema.json`` describes it."""
        return {
            "text": self.text,
            "value": self.value,
            "location": _place(self.location),
            "origin": self.origin,
        }


@record
class Explanation:
    """Why an expression came out as it did: the sub-expressions that decided, in the order of its text."""

    expression: str
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """The explanation as ``schemas/report.schema.json`` describes it."""
        return {"expression": self.expression, "steps": [step.to_dict() for step in self.steps]}


@record
class Finding:
    """One rule that did not pass, and everything a reader needs to act on it.

    ``rule`` is the rule's id, or the name of a match condition that could not be decided. ``location`` is the
    place in the input, ``policy_location`` the place of the rule. ``unknown`` names the facts that were
    needed and are unknown; ``releases`` is given when the document states no release and the finding holds
    for some of the known ones only. ``origin`` says where the fact at ``path`` comes from when the input does not
    state it: the engine's default, or what it was derived from.
    """

    rule: str
    policy: str
    severity: Severity
    outcome: FindingOutcome
    message: str
    path: str | None = None
    location: Location | None = None
    policy_location: Location | None = None
    reason: str | None = None
    fix: tuple[Mapping[str, Any], ...] = ()
    unknown: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    origin: str | None = None
    explanation: Explanation | None = None

    def to_dict(self) -> dict[str, Any]:
        """The finding as ``schemas/report.schema.json`` describes it."""
        found: dict[str, Any] = {
            "rule": self.rule,
            "policy": self.policy,
            "severity": self.severity,
            "outcome": self.outcome,
            "message": self.message,
            "path": self.path,
            "location": _place(self.location),
            "policy_location": _place(self.policy_location),
            "reason": self.reason,
            "fix": [dict(fix) for fix in self.fix],
            "unknown": list(self.unknown),
        }
        if self.releases:
            found["releases"] = list(self.releases)
        if self.origin:
            found["origin"] = self.origin
        if self.explanation:
            found["explanation"] = self.explanation.to_dict()
        return found


@record
class DocumentReport:
    """The verdict on one document. ``problems`` say why it could not be judged (outcome ``error``)."""

    name: str
    engine: str | None
    version: str | None
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document's entry as ``schemas/report.schema.json`` describes it."""
        found: dict[str, Any] = {
            "name": self.name,
            "engine": {"name": self.engine, "version": self.version},
            "outcome": self.outcome,
            "findings": [finding.to_dict() for finding in self.findings],
            "passed": list(self.passed),
            "not_applicable": list(self.not_applicable),
        }
        if self.problems:
            found["problems"] = [problem_dict(problem) for problem in self.problems]
        if self.warnings:
            found["warnings"] = [problem_dict(problem) for problem in self.warnings]
        return found


@record
class Report:
    """The result of a run: the verdict on each document, in the order given.

    ``problems`` are inputs that could not be read at all, so that no document came of them.
    """

    documents: tuple[DocumentReport, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the documents; ``error`` where an input could not be read or there was none."""
        if self.problems or not self.documents:
            return "error"
        return max((document.outcome for document in self.documents), key=OUTCOMES.index)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all documents, in order."""
        return tuple(finding for document in self.documents for finding in document.findings)

    def exit_code(self, fail_on: Literal["error", "warning"] = "error") -> int:
        """0 approved or not applicable, 1 rejected, 2 could not decide; 2 outranks 1.

        With ``fail_on="warning"`` a finding of severity warning counts as one of severity error does.
        """
        outcomes = {self.outcome}
        if fail_on == "warning":
            for finding in self.findings:
                if finding.severity == "warning" and finding.outcome != "waived":
                    outcomes.add("rejected" if finding.outcome == "failed" else "indeterminate")
        if outcomes & {"error", "indeterminate"}:
            return 2
        return 1 if "rejected" in outcomes else 0

    def to_dict(self) -> dict[str, Any]:
        """The report as ``schemas/report.schema.json`` describes it."""
        found: dict[str, Any] = {
            "schema": REPORT_SCHEMA,
            "outcome": self.outcome,
            "documents": [document.to_dict() for document in self.documents],
        }
        if self.problems:
            found["problems"] = [problem_dict(problem) for problem in self.problems]
        return found


def _place(location: Location | None) -> dict[str, str | int] | None:
    return location.to_dict() if location else None


def problem_dict(problem: Problem) -> dict[str, Any]:
    """A problem as JSON data: message, location, help."""
    return {"message": problem.message, "location": _place(problem.location), "help": problem.help}
