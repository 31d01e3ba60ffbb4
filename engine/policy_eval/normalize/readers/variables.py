"""`${VAR}` in compose files and the like: what the file itself or an env file says, else unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from policy_eval.normalize.text import Text, join, missing

_VARIABLE = re.compile(
    r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^{}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)"
)


def interpolated(text: Text, env: Mapping[str, Text]) -> Text:
    """Compose's interpolation: `$VAR`, `${VAR}`, `${VAR:-x}`, `${VAR:+x}`, `$$` for a dollar sign."""
    if "$" not in text.text:
        return text
    parts: list[Text] = []
    at = 0
    for found in _VARIABLE.finditer(text.text):
        parts.append(text.slice(at, found.start()))
        at = found.end()
        name = found.group(1) or found.group(4)
        if name is None:
            parts.append(text.slice(found.start(), found.start() + 1))
            continue
        value = env.get(name)
        operator = found.group(2) or ""
        word = text.slice(*found.span(3)) if operator else None
        empty = value is None or (operator.startswith(":") and not value.text)
        if operator.endswith("+"):
            if value is None:
                parts.append(_unset(name, text, found))
            elif not empty and word is not None:
                parts.append(word)
        elif value is not None and not empty:
            parts.append(value)
        elif operator.endswith("-") and word is not None:
            parts.append(word)
        else:
            parts.append(_unset(name, text, found))
    return join([*parts, text.slice(at)])


def _unset(name: str, text: Text, found: re.Match[str]) -> Text:
    return missing(f"`{name}` is not set here", text.place(*found.span()))
