"""The options of `vllm serve`, release by release, from the tables in ``options/``."""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from functools import cache
from typing import Any

from policy_eval.record import record

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "options")
_MISSING: Any = object()


@record
class Option:
    """One option (or the positional model, which has no names), as ``options/make_options.py`` describes it.

    ``nargs`` is None for one value, 0 for a flag, else ``?`` or ``+``. ``has_default`` is false where the
    engine's default is an object that JSON does not express.
    """

    names: tuple[str, ...]
    dest: str
    action: str = "store"
    nargs: int | str | None = None
    choices: tuple[str, ...] | None = None
    type: str = "str"
    optional: bool = False
    none_choice: bool = True
    default: Any = None
    has_default: bool = False

    @property
    def title(self) -> str:
        """How argparse names the option in an error."""
        return "/".join(self.names) or self.dest


@record
class Table:
    """The options of one release; ``names`` keeps the order of the table, ``ordered`` is the alphabet's."""

    release: str
    options: tuple[Option, ...]
    names: dict[str, Option]
    ordered: tuple[str, ...]
    positional: Option

    def starting_with(self, prefix: str) -> list[str]:
        """The names of options that begin with ``prefix``, in the order of the table."""
        start = bisect_left(self.ordered, prefix)
        found = set()
        for name in self.ordered[start:]:
            if not name.startswith(prefix):
                break
            found.add(name)
        return [name for name in self.names if name in found] if found else []

    def source(self, name: str) -> str:
        """Where a default is documented, for people."""
        return f"vLLM {self.release} option table: {name}"


@cache
def releases() -> tuple[str, ...]:
    """The releases that have a table, oldest first."""
    found = [name.removesuffix(".json") for name in os.listdir(_FOLDER) if name.endswith(".json")]
    return tuple(sorted(found, key=lambda release: [int(part) for part in release.split(".")]))


@cache
def load_table(release: str) -> Table:
    """The table of a release that ``releases()`` lists."""
    with open(os.path.join(_FOLDER, f"{release}.json"), encoding="utf-8") as file:
        data = json.load(file)
    options = tuple(_option(row) for row in data["options"])
    names = {name: option for option in options for name in option.names}
    positional = next(option for option in options if not option.names)
    return Table(
        release=data["release"],
        options=options,
        names=names,
        ordered=tuple(sorted(names)),
        positional=positional,
    )


def _option(row: dict[str, Any]) -> Option:
    default = row.get("default", _MISSING)
    choices = row.get("choices")
    return Option(
        names=tuple(row["names"]),
        dest=row["dest"],
        action=row.get("action", "store"),
        nargs=row.get("nargs"),
        choices=None if choices is None else tuple(choices),
        type=row.get("type", "str"),
        optional=row.get("optional", False),
        none_choice=row.get("none_choice", True),
        default=None if default is _MISSING else default,
        has_default=default is not _MISSING,
    )
