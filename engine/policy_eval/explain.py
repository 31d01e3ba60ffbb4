"""Why a rule came out as it did: the sub-expressions that decided, their values, and where the input has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy_eval import cel
from policy_eval.model import Document, Explanation, Step
from policy_eval.policy import Expression, Named

_MAX_STEPS = 20
_MAX_VALUE = 80
_LINK = r"""\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)|\s*\[\s*["']([^"'\\\\]*)["']\s*\]"""
_CHAIN = re.compile(rf"(?:has\()?config((?:{_LINK})+)\)?")
_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSWORD", re.IGNORECASE)
_MASK = "(hidden)"


def explain(
    document: Document, config: Mapping[str, Any], expression: Expression, variables: Sequence[Named]
) -> Explanation:
    """How an expression came to its value over a complete document, variables by name, bounded.

    Values of environment variables whose names look like secrets are hidden, wherever they turn up.
    """
    hidden = _secrets(config)
    steps: list[Step] = []
    for step in _steps(document, config, expression, variables, set(), hidden):
        if len(steps) == _MAX_STEPS:
            break
        if step not in steps:
            steps.append(step)
    return Explanation(expression=expression.text.strip(), steps=tuple(steps))


def _steps(
    document: Document,
    config: Mapping[str, Any],
    expression: Expression,
    variables: Sequence[Named],
    seen: set[str],
    hidden: frozenset[str],
) -> Iterator[Step]:
    bound = [(variable.name, variable.expression.node) for variable in variables]
    trace = cel.explain(expression.node, {"config": config}, bound, text=expression.text)
    named = {f"variables.{variable.name}": variable for variable in variables}
    for found in trace.deciding():
        text = " ".join(found.text.split())
        if text in ("true", "false") or not text:
            continue
        pointer = _pointer(text)
        yield Step(
            text=text,
            value=_shown(found.value, text, hidden),
            location=document.place(pointer) if pointer else None,
            origin=document.origin(pointer) if pointer else None,
        )
        if text in named and text not in seen:
            seen.add(text)
            yield from _steps(document, config, named[text].expression, variables, seen, hidden)


def _pointer(text: str) -> str | None:
    found = _CHAIN.fullmatch(text)
    if found is None:
        return None
    names = ("".join(link) for link in re.findall(_LINK, found[1]))
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def _secrets(config: Mapping[str, Any]) -> frozenset[str]:
    """The values that must not be shown: of environment variables with a telling name."""
    env = config.get("env")
    pairs = env.items() if isinstance(env, dict) else ()
    return frozenset(
        value for name, value in pairs if _SECRET.search(name) and isinstance(value, str) and value
    )


def _shown(value: object, text: str, hidden: frozenset[str]) -> str:
    if isinstance(value, cel.Unknown):
        return "unknown: " + ", ".join(sorted(value.pointers))
    if isinstance(value, (cel.EvaluationError, cel.Error)):
        return f"error: {value.message}"
    if _SECRET.search(text) and text.startswith("config.env"):
        return _MASK
    shown = json.dumps(value, ensure_ascii=False, default=_plain)
    for secret in hidden:
        shown = shown.replace(json.dumps(secret, ensure_ascii=False)[1:-1], _MASK)
    return shown if len(shown) <= _MAX_VALUE else shown[: _MAX_VALUE - 1] + "…"


def _plain(value: object) -> str:
    return "unknown" if isinstance(value, cel.Unknown) else str(value)
