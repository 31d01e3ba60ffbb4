"""What a reader is given and what it gives back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from policy_eval import load
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import MAX_BYTES, load_json, read_text
from policy_eval.model import Document
from policy_eval.normalize.item import Item, members
from policy_eval.normalize.launch import Launch
from policy_eval.normalize.text import Text, file_text
from policy_eval.record import record

MAX_ENGINES = 200
_MAX_INCLUDES = 100


@record
class Fact:
    """One fact that an input states by itself, not through an engine's options: a trainer's setting.

    ``pointer`` leads into the normalized document; ``text`` is where it is written. ``why`` is set where it follows
    from something else. ``value`` is UNKNOWN_FACT where it cannot be known; ``why`` then says why.
    """

    pointer: str
    value: Any
    text: Text | None = None
    why: str | None = None


UNKNOWN_FACT = object()


@record
class Way:
    """One way an engine may be started: its launch, and facts stated beside it.

    ``only_facts``: the input does not start the engine; the document holds nothing but the facts.
    """

    launch: Launch
    facts: tuple[Fact, ...] = ()
    only_facts: bool = False


@record
class Found:
    """An engine that an input configures, in each of the ways the input may turn out.

    ``assumed`` are the conditions that decide between the ways, and where they stand.
    """

    ways: tuple[Way, ...]
    assumed: tuple[tuple[str, Location | None], ...] = ()


@record
class Shape:
    """One kind of input: how it is recognised and how it is read.

    ``read`` gives an engine for each one that the input starts, and documents where it states facts itself;
    it raises PolicyEvalError for an input of this shape that cannot be used.
    """

    name: str
    description: str
    matches: Callable[[Input], bool]
    read: Callable[[Input], Sequence[Found | Document]]


class Input:
    """A file (or standard input): its text, its name, and the folder that includes may not leave (None: none)."""

    def __init__(self, *, text: str, file: str, folder: str | None = None) -> None:
        self.text = text
        self.file = file
        self.folder = folder
        self._items: list[Item] | None = None
        self._error: PolicyEvalError | None = None
        self._whole: Text | None = None
        self._included: list[int] = []

    @property
    def suffix(self) -> str:
        """The lower-case end of the file's name, with its dot; empty when it has none."""
        return os.path.splitext(self.file)[1].lower()

    @property
    def whole(self) -> Text:
        """The text with its places."""
        if self._whole is None:
            self._whole = file_text(self.text, self.file)
        return self._whole

    def items(self) -> list[Item]:
        """The YAML or JSON documents in the text; raises PolicyEvalError when it is neither."""
        if self._items is None and self._error is None:
            try:
                self._items = self._load()
            except PolicyEvalError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._items or []

    def mappings(self) -> list[Item]:
        """The YAML or JSON documents that are mappings; none where the text is neither."""
        try:
            return [item for item in self.items() if isinstance(item.value, dict)]
        except PolicyEvalError:
            return []

    def _load(self) -> list[Item]:
        if self.text.lstrip()[:1] in ("{", "[") and self.suffix not in (".yaml", ".yml"):
            try:
                source = load_json(self.text, self.file)
                return members(Item(source.value, "", source))
            except PolicyEvalError:
                if self.suffix == ".json":
                    raise
        sources = load.load_yaml_all(self.text, self.file)
        return [item for source in sources for item in members(Item(source.value, "", source))]

    def include(self, name: str, location: Location | None) -> Text | None:
        """The text of a file that the input names, relative to it; None when it is not to be had.

        Only files that lie, symbolic links resolved, in ``folder`` are read.
        """
        path = self.path(name)
        if path is None or not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            return None
        self._included.append(1)
        if len(self._included) > _MAX_INCLUDES:
            problem = Problem(message=f"more than {_MAX_INCLUDES} files read in", location=location)
            raise PolicyEvalError(problem)
        shown = os.path.join(os.path.dirname(self.file), name)
        return file_text(read_text(path), shown) if path else None

    def path(self, name: str) -> str | None:
        """The real path of a file that the input names; None when it lies outside ``folder``."""
        if self.folder is None or not name or "\0" in name or len(name) > 1000:
            return None
        here = os.path.dirname(self.file) or "."
        folder = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(here, name))
        inside = path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
        return path if inside else None

    def required(self, name: str, location: Location | None) -> Text:
        """As ``include``, but raises PolicyEvalError where the file is not to be had."""
        if self.folder is None:
            raise PolicyEvalError(
                Problem(
                    message=f"`{name[:80]}` is named here, but standard input has no folder to find it in",
                    location=location,
                    help="pass the file by its path",
                )
            )
        if self.path(name) is None:
            raise PolicyEvalError(
                Problem(
                    message=f"`{name[:80]}` lies outside the folder that may be read",
                    location=location,
                    help="only files in the same folder, or below it, are read",
                )
            )
        text = self.include(name, location)
        if text is None:
            raise PolicyEvalError(
                Problem(message=f"cannot read `{name[:80]}`: no such file", location=location)
            )
        return text


def kinds(items: Sequence[Item]) -> Iterator[tuple[str, Item]]:
    """Each Kubernetes object among the documents, those inside lists too, with its kind."""
    for item in items:
        kind, version = item.string("kind"), item.string("apiVersion")
        if kind is None or version is None:
            continue
        if kind == "List" or (kind.endswith("List") and isinstance(item.dig("items"), list)):
            yield from kinds(list(item.items("items")))
        else:
            yield kind, item
