"""Places in an input, problems at those places, and the one base error of the package."""

from __future__ import annotations

from policy_eval.record import record


@record
class Location:
    """A span of an input. Lines and columns count from 1; columns count characters, not bytes.

    The end is exclusive: ``end_column`` is the column just after the last character.
    ``source_line`` is the text of ``line``, kept so that a caret can be drawn without reading the input
    again (standard input cannot be read twice).
    """

    file: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    pointer: str | None = None
    source_line: str | None = None

    def __str__(self) -> str:
        """``file``, ``file:line`` or ``file:line:column``, whatever is known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def to_dict(self) -> dict[str, str | int]:
        """The keys of the JSON report: file, line, column, end_line, end_column; unknown ones are left out."""
        keys = ("file", "line", "column", "end_line", "end_column")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


@record
class Problem:
    """Something wrong with an input: what was found, where, and what to do about it.

    Messages are lower case without a full stop, with user input in backticks; ``help`` says what to do.
    """

    message: str
    location: Location | None = None
    help: str | None = None

    def __str__(self) -> str:
        """``file:line:column: message``, the source line with a caret, and the help, a line each."""
        place = f"{self.location}: " if self.location else ""
        lines = [place + self.message, *caret(self.location)]
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


class PolicyEvalError(Exception):
    """An input could not be used. Base of every error this package raises on purpose.

    ``problems`` holds every problem found (there is at least one), in the order of the input.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class NothingFound(PolicyEvalError):
    """An input was read, and it configures no engine: an error by itself, nothing to report in a folder of files."""


_WIDTH = 100


def caret(location: Location | None) -> list[str]:
    """The source line of a location and a line of carets under the span; empty when the text is not known.

    Long lines are cut around the span. Tabs and control characters are shown as spaces so that the caret
    stays under its character.
    """
    if location is None or location.source_line is None or location.column is None:
        return []
    text = "".join(char if char.isprintable() else " " for char in location.source_line)
    start = min(location.column - 1, len(text))
    one_line = location.end_line in (None, location.line)
    end = location.end_column - 1 if one_line and location.end_column is not None else len(text)
    end = max(min(end, len(text)), start + 1)
    left = max(0, start - _WIDTH // 2) if len(text) > _WIDTH else 0
    shown = text[left : left + _WIDTH]
    prefix, suffix = "…" if left else "", "…" if left + _WIDTH < len(text) else ""
    marks = " " * (start - left + len(prefix)) + "^" * max(1, min(end, left + _WIDTH) - start)
    gutter = str(location.line)
    return [f"  {gutter} | {prefix}{shown}{suffix}", f"  {' ' * len(gutter)} | {marks}"]
