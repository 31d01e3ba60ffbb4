"""Text whose characters know where they were written, however often they were quoted, expanded or nested."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from policy_eval.errors import Location
from policy_eval.load.source import line_starts, span_location
from policy_eval.record import value_record

Placer = Callable[[int, int], Location | None]

UNKNOWN = "\U0010fffd"
"""Stands in ``Text.text`` for a part that cannot be known; the run says why. Parsers take it for a letter."""


class Run(NamedTuple):
    """Characters from ``start`` on were written, in order, at ``at`` and following of what ``place`` locates.

    ``reason`` is set for a part that cannot be known: one UNKNOWN character stands for it.
    """

    start: int
    place: Placer
    at: int
    reason: str | None = None


@value_record
class Text:
    """A string and the place of each of its characters; immutable."""

    text: str
    runs: tuple[Run, ...]

    @property
    def unknown(self) -> str | None:
        """Why the text is not wholly known; None when it is."""
        reasons = dict.fromkeys(run.reason for run in self.runs if run.reason)
        return "; ".join(reasons) or None

    def place(self, start: int = 0, end: int | None = None) -> Location | None:
        """The place of the characters from ``start`` to ``end`` (exclusive).

        Where they were written in several places (a variable inside a word), the first of them.
        """
        end = len(self.text) if end is None else min(end, len(self.text))
        start = max(0, min(start, end))
        first = self._run(start)
        if first is None:
            return None
        last = self._run(max(end - 1, start)) or first
        begin = first.at + (0 if first.reason else start - first.start)
        if last is first:
            return first.place(begin, begin + (1 if first.reason else end - start))
        here = first.place(begin, begin + (1 if first.reason else self._stop(first) - start))
        finish = last.at + (0 if last.reason else end - 1 - last.start)
        there = last.place(finish, finish + 1)
        if (
            here is None
            or there is None
            or here.file != there.file
            or here.line is None
            or there.line is None
        ):
            return here
        if (here.line, here.column or 0) > (there.line, there.column or 0):
            return here
        # A variable's value far below or above is not part of the word; quotes and escapes within it are.
        if there.line - here.line > end - start:
            return here
        return Location(
            file=here.file,
            line=here.line,
            column=here.column,
            end_line=there.end_line,
            end_column=there.end_column,
            pointer=here.pointer,
            source_line=here.source_line,
        )

    def slice(self, start: int, end: int | None = None) -> Text:
        """The part from ``start`` to ``end`` (exclusive), places kept."""
        end = len(self.text) if end is None else min(end, len(self.text))
        start = max(0, min(start, end))
        if not self.runs:
            return Text(self.text[start:end], ())
        index = self._index(start)
        runs: list[Run] = []
        for run in self.runs[index:]:
            if run.start >= end and runs:
                break
            skipped = max(0, start - run.start)
            at = run.at if run.reason else run.at + skipped
            runs.append(Run(max(run.start - start, 0), run.place, at, run.reason))
        return Text(self.text[start:end], tuple(runs))

    def split(self, separators: str = " \t\n") -> list[Text]:
        """The parts between runs of separator characters, empty parts left out."""
        found, at = [], 0
        length = len(self.text)
        while at < length:
            while at < length and self.text[at] in separators:
                at += 1
            start = at
            while at < length and self.text[at] not in separators:
                at += 1
            if at > start:
                found.append(self.slice(start, at))
        return found

    def strip(self) -> Text:
        """Without white space at both ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self.slice(start, max(start, len(self.text.rstrip())))

    def _index(self, at: int) -> int:
        return max(0, bisect_right(self.runs, at, key=lambda run: run.start) - 1)

    def _run(self, at: int) -> Run | None:
        return self.runs[self._index(at)] if self.runs else None

    def _stop(self, run: Run) -> int:
        index = self.runs.index(run) + 1
        return self.runs[index].start if index < len(self.runs) else len(self.text)


def join(parts: Iterable[Text]) -> Text:
    """Texts one after the other."""
    text: list[str] = []
    runs: list[Run] = []
    length = 0
    for part in parts:
        if part.text or not runs:
            if part.text and runs and runs[0].start == 0 and not length:
                runs.clear()
            runs += [run._replace(start=run.start + length) for run in part.runs]
        text.append(part.text)
        length += len(part.text)
    return Text("".join(text), tuple(runs))


def written(text: str, place: Placer, at: int = 0) -> Text:
    """A text written, character by character, at ``at`` of what ``place`` locates."""
    return Text(text, (Run(0, place, at),))


def standing(text: str, location: Location | None) -> Text:
    """A text that stands for something written at one place as a whole (a number, a key, a typed field)."""
    return Text(text, (Run(0, lambda _start, _end: location, 0),))


def missing(reason: str, location: Location | None) -> Text:
    """A text that cannot be known, for a reason, where it would have been needed."""
    return Text(UNKNOWN, (Run(0, lambda _start, _end: location, 0, reason),))


def file_text(text: str, file: str) -> Text:
    """The whole text of a file."""
    starts: list[int] = []

    def place(start: int, end: int) -> Location:
        if not starts:
            starts.extend(line_starts(text))
        return span_location(file, text, starts, start, end)

    return written(text, place)
