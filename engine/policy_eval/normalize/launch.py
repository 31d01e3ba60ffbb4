"""What a reader finds of one engine: the words of its command line, its environment, and where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from policy_eval.errors import Location, Problem
from policy_eval.record import record

Engine = Literal["vllm", "sglang"]


@record
class Word:
    """One word of a command line, one value of an environment variable, or the text of a file.

    ``text`` is None where it cannot be resolved; ``unknown`` then says why, naming the variable, and ``raw``
    is the text with one character U+10FFFD for each part that is unknown (None where nothing of it is known).
    ``placer`` gives the place of the characters from one offset of ``text`` (or ``raw``) to another.
    """

    text: str | None
    location: Location | None = None
    unknown: str | None = None
    raw: str | None = None
    placer: Callable[[int, int], Location | None] | None = None

    def place(self, start: int, end: int) -> Location | None:
        """The place of the characters from ``start`` to ``end`` (exclusive); the word's where it knows no better."""
        found = self.placer(start, end) if self.placer is not None else None
        return found or self.location


@record
class Launch:
    """One start of an engine, as an input states it, before anything is made of its options.

    ``name`` is its place (``Deployment/vllm container main``). ``argv`` is what follows the program's name: for
    vLLM ``serve`` and the options. ``env`` holds the variables that are set; ``image`` and ``version`` what
    tells the release. ``files`` are contents that the input carries under names used in ``argv`` (ConfigMaps);
    ``base`` is the folder that files named in ``argv`` may be read from, None for none.
    """

    name: str
    engine: Engine | None
    argv: tuple[Word, ...]
    env: Mapping[str, Word] = MappingProxyType({})
    image: Word | None = None
    version: Word | None = None
    files: Mapping[str, Word] = MappingProxyType({})
    location: Location | None = None
    warnings: tuple[Problem, ...] = ()
    base: str | None = None
