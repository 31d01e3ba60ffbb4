"""Errors of expressions: what went wrong, where in the expression's text."""

from __future__ import annotations

from typing import Literal

from policy_eval.errors import Location, PolicyEvalError, Problem

Kind = Literal["syntax", "check", "limit", "evaluation"]

EXPRESSION = "<expression>"


class EvaluationError(Exception):
    """What a CEL function raises: a message without a place. `&&`, `||`, `all` and `exists` may absorb it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class LimitExceeded(EvaluationError):
    """A limit of the evaluation was reached. Nothing absorbs it, else a limit could be argued away."""


class Undecided(Exception):  # noqa: N818 (a signal between two evaluators, never shown to a user)
    """The generated code cannot say; the walker must."""


class Error(PolicyEvalError):
    """A problem with one expression.

    ``kind`` is ``syntax``, ``check``, ``limit`` or ``evaluation``. ``start`` and ``end`` are character offsets
    in the expression, end exclusive; ``line`` and ``column`` are those of ``start``, counted from 1.
    """

    def __init__(
        self, kind: Kind, message: str, *, expression: str, start: int = 0, end: int = 0, help: str | None = None
    ) -> None:
        start = min(max(start, 0), len(expression))
        end = min(max(end, start), len(expression))
        location = locate(expression, start, end)
        super().__init__(Problem(message=message, location=location, help=help))
        self.kind: Kind = kind
        self.message = message
        self.help = help
        self.expression = expression
        self.start = start
        self.end = end
        self.line = location.line or 1
        self.column = location.column or 1


def locate(expression: str, start: int, end: int) -> Location:
    """The lines and columns of the span ``start:end`` (character offsets) of an expression."""
    line = expression.count("\n", 0, start) + 1
    first = expression.rfind("\n", 0, start) + 1
    last = expression.rfind("\n", 0, end) + 1
    newline = expression.find("\n", first)
    return Location(
        file=EXPRESSION,
        line=line,
        column=start - first + 1,
        end_line=line + expression.count("\n", start, end),
        end_column=end - last + 1,
        source_line=expression[first : newline if newline >= 0 else len(expression)],
    )
