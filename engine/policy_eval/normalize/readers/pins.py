"""Releases that a lock file or a requirements line beside an input states."""

from __future__ import annotations

import re

from policy_eval.normalize.readers.shape import Input
from policy_eval.normalize.text import Text

_FILES = ("uv.lock", "poetry.lock", "pylock.toml", "requirements.lock", "requirements.txt", "constraints.txt")


def pinned_release(source: Input, package: str) -> Text | None:
    """The release of a package that a lock or requirements file in the input's folder pins; the first that does."""
    if source.folder is None:
        return None
    line = re.compile(rf"^{package}(?:\[[^\]]*\])?\s*==\s*([0-9][0-9A-Za-z.+]*)", re.MULTILINE)
    entry = re.compile(
        rf'^\[\[packages?\]\]\s*\nname = "{package}"\s*\nversion = "([0-9][0-9A-Za-z.+]*)"', re.MULTILINE
    )
    for name in _FILES:
        text = source.include(name, None)
        if text is None:
            continue
        pattern = line if name.endswith((".txt", "requirements.lock")) else entry
        if found := pattern.search(text.text):
            return text.slice(*found.span(1))
    return None
