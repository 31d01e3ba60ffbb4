"""The report for people at a terminal: the verdict first, then each finding with its place, reason and fix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from textwrap import wrap

from policy_eval.errors import Location, Problem, caret
from policy_eval.model import OUTCOMES, DocumentReport, Explanation, Finding, Report

Paint = Callable[[str, str], str]

_WIDTH = 100
_COLORS = {
    "approved": "32;1",
    "rejected": "31;1",
    "indeterminate": "33;1",
    "not applicable": "36;1",
    "error": "31;1",
    "warning": "33",
    "info": "36",
    "place": "36",
    "mark": "31",
}


def render(report: Report, *, color: bool = False, quiet: bool = False) -> str:
    """The report as text for a terminal. ``quiet`` leaves only the verdicts; ``color`` adds ANSI colours."""
    paint = _paint if color else _plain
    lines: list[str] = []
    for problem in report.problems:
        lines += [
            f"{paint('error', 'error')}  {_one_line(problem, paint)}",
            *_problem_rest(problem, paint),
            "",
        ]
    for document in report.documents:
        lines.append(_verdict(document, paint))
        if not quiet:
            lines += _details(document, paint)
            lines.append("")
    if report.documents and len(report.documents) + len(report.problems) > 1:
        lines.append(_summary(report, paint))
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _plain(_style: str, text: str) -> str:
    return text


def _paint(style: str, text: str) -> str:
    return f"\x1b[{_COLORS[style]}m{text}\x1b[0m"


def safe(text: str) -> str:
    """Text without characters that could steer a terminal; newlines stay."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def _verdict(document: DocumentReport, paint: Paint) -> str:
    engine = " ".join(part for part in (document.engine, document.version) if part)
    if document.engine and not document.version and not document.problems:
        engine += ", any known release"
    counted = len(document.passed)
    rules = f"{counted} rule{'' if counted == 1 else 's'} passed" if counted else ""
    notes = ", ".join(part for part in (engine, rules) if part)
    return (
        paint(document.outcome, document.outcome)
        + f"  {safe(document.name)}"
        + (f"  ({notes})" if notes else "")
    )


def _details(document: DocumentReport, paint: Paint) -> Iterator[str]:
    if document.outcome == "not applicable":
        names = ", ".join(document.not_applicable)
        yield f"  nothing to check: the conditions under which these policies apply do not hold: {names}"
    for problem in document.problems:
        yield f"  {_one_line(problem, paint)}"
        yield from ("  " + line for line in _problem_rest(problem, paint))
    for finding in document.findings:
        yield ""
        yield from _finding(finding, paint)
    for problem in document.warnings:
        yield ""
        yield f"  {paint('warning', 'note')}  {_one_line(problem, paint)}"
        yield from ("  " + line for line in _problem_rest(problem, paint))


def _finding(finding: Finding, paint: Paint) -> Iterator[str]:
    label = finding.rule
    if finding.outcome != "failed":
        label += f" {finding.outcome}"
    style = "rejected" if finding.outcome == "failed" else "indeterminate"
    if finding.severity != "error":
        label += f" {finding.severity}"
        style = finding.severity
    yield from _block(f"  {paint(style, label)}  ", finding.message, len(f"  {label}  "))
    if finding.location:
        yield from ("    " + line for line in _place(finding.location, paint))
    if finding.path and (finding.location is None or finding.location.source_line is None):
        yield f"    at {finding.path}"
    if finding.origin and not finding.unknown:
        yield from _block("    ", finding.origin)
    if finding.releases:
        yield f"    releases: {', '.join(finding.releases)}"
    if finding.outcome == "error" and finding.policy_location:
        yield from ("    " + line for line in _place(finding.policy_location, paint))
    for pointer in finding.unknown:
        hint = "--engine-version VERSION" if pointer == "/engine/version" else f"--set {pointer}=VALUE"
        yield f"    state it: {safe(hint)}"
    if "/hf_config" in finding.message:
        yield "    or let it be read from the model's config.json: --hf-config DIR"
    if finding.explanation:
        yield from _explanation(finding.explanation, paint)
    if finding.reason:
        yield from _block("    why: ", finding.reason)
    for at, fix in enumerate(finding.fix):
        yield from _block("    fix: " if at == 0 else "     or: ", str(fix.get("text", "")))
        if "flag" in fix:
            yield f"         {safe(fix['flag'])}"
        for name, value in fix.get("env", {}).items():
            yield f"         unset {safe(name)}" if value is None else f"         {safe(name)}={safe(value)}"
        if "flag" not in fix and "env" not in fix:
            for pointer, value in fix.get("set", {}).items():
                yield f"         {safe(pointer)}: {safe(json.dumps(value, ensure_ascii=False))}"


def _explanation(explanation: Explanation, paint: Paint) -> Iterator[str]:
    """The expression, and under it each part that decided with its value and its place."""
    lines = [line.strip() for line in explanation.expression.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        yield ("    rule: " if at == 0 else "          ") + safe(line)
    width = min(max((len(step.text) for step in explanation.steps), default=0), 56)
    for step in explanation.steps:
        where = paint("place", safe(str(step.location))) if step.location else ""
        notes = "  ".join(part for part in (where, f"({safe(step.origin)})" if step.origin else "") if part)
        yield f"          {safe(step.text):{width}} = {safe(step.value)}" + (f"   {notes}" if notes else "")


def _place(where: Location, paint: Paint) -> Iterator[str]:
    yield paint("place", safe(str(where)))
    marks = caret(where)
    for at, line in enumerate(marks):
        yield line if at == 0 else paint("mark", line)


def _one_line(problem: Problem, paint: Paint) -> str:
    place = paint("place", safe(str(problem.location))) + ": " if problem.location else ""
    return place + safe(problem.message)


def _problem_rest(problem: Problem, paint: Paint) -> Iterator[str]:
    marks = caret(problem.location)
    for at, line in enumerate(marks):
        yield line if at == 0 else paint("mark", line)
    if problem.help:
        yield from _block("  help: ", problem.help)


def _block(prefix: str, text: str, indent: int | None = None) -> Iterator[str]:
    """Wrapped text behind a prefix; lines after the first are indented to it."""
    margin = len(prefix) if indent is None else min(indent, 6)
    words = wrap(
        " ".join(safe(text).split()), _WIDTH - margin, break_long_words=False, break_on_hyphens=False
    )
    for at, line in enumerate(words or [""]):
        yield (prefix if at == 0 else " " * margin) + line


def _summary(report: Report, paint: Paint) -> str:
    counts = dict.fromkeys(reversed(OUTCOMES), 0)
    for document in report.documents:
        counts[document.outcome] += 1
    parts = [f"{count} {paint(outcome, outcome)}" for outcome, count in counts.items() if count]
    if report.problems:
        parts.append(
            f"{len(report.problems)} problem{'' if len(report.problems) == 1 else 's'} with other input"
        )
    total = len(report.documents)
    return f"{total} document{'' if total == 1 else 's'}: {', '.join(parts)}"
