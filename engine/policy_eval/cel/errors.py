"""Errors of expressions: what went wrong, where in the expression's text."""

from __future__ import annotations

from typing import Literal

from policy_eval.errors import Location, PolicyEvalError, Problem

Kind = Literal["syntax", "check", "limit", "evaluation"]

EXPRESSION = "<expression>"


class EvaluationError(Exception):
    """What a CEL function raises: a message without a place. `&&`, `||`, `all` and `exists` may absorb it.

    The evaluator adds the span of the sub-expression that failed.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.span: tuple[int, int] | None = None


class LimitExceeded(EvaluationError):
    """A limit of the evaluation was reached. Nothing absorbs it, else a limit could be argued away."""


class Undecided(Exception):
    """The generated code cannot say; the walker must."""


class Error(PolicyEvalError):
    """A problem with one expression.

    ``kind`` is ``syntax``, ``check``, ``limit`` or ``evaluation``. ``start`` and ``end`` are character offsets
    in the expression, end exclusive; ``line`` and ``column`` are those of ``start``, counted from 1, or None
    where only the tree of the expression is known, not its text.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        expression: str | None = None,
        start: int = 0,
        end: int = 0,
        help: str | None = None,
    ) -> None:
        location = None
        if expression is not None:
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
        self.line = location.line if location else None
        self.column = location.column if location else None


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
