"""Files of `NAME=value` lines: docker's and compose's env files, systemd's EnvironmentFile."""

from __future__ import annotations

import re

from policy_eval.normalize.text import Text

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=[ \t]*")


def env_file(text: Text, *, quotes: bool = True) -> dict[str, Text]:
    """The variables a file of `NAME=value` lines sets; the last one wins.

    ``quotes``: whether quotes around a value are taken off and ` #` begins a comment (compose, systemd), or
    belong to the value (`docker run --env-file`).
    """
    found: dict[str, Text] = {}
    at = 0
    for line in text.text.split("\n"):
        match = _LINE.match(line)
        if match and not line.lstrip().startswith("#"):
            value = line[match.end() :].rstrip("\r")
            start, end = match.end(), match.end() + len(value.rstrip())
            if quotes and value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
                start, end = start + 1, match.end() + value.find(value[0], 1)
            elif quotes and (comment := re.search(r"\s#", value)):
                end = match.end() + len(value[: comment.start()].rstrip())
            found[match.group(1)] = text.slice(at + start, at + end)
        at += len(line) + 1
    return found
