"""Facts that the caller states on top of a document: ``--set /pointer=value`` and ``--engine-version``."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Sequence
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.model import Document, Provenance
from policy_eval.record import record, replace

OPTION = "--set"


@record
class Setting:
    """One fact: a JSON Pointer into the document, its value, and the words it was stated in."""

    pointer: str
    value: Any
    text: str


def parse_setting(text: str) -> Setting:
    """``/pointer=value`` as a Setting. The value is JSON; what is not JSON is taken as a string.

    Raises PolicyEvalError when it is not of that form.
    """
    pointer, equals, value = text.partition("=")
    if not equals or not pointer.startswith("/") or len(pointer) > 500:
        raise PolicyEvalError(
            Problem(
                message=f"expected {OPTION} /pointer=value, found `{text[:80]}`",
                help=f"for example {OPTION} /host/platform=cuda",
            )
        )
    try:
        parsed = json.loads(value, parse_constant=_not_json)
    except (ValueError, RecursionError):
        parsed = value
    return Setting(pointer=pointer, value=parsed, text=text)


def _not_json(_text: str) -> None:
    raise ValueError


def apply_settings(document: Document, settings: Sequence[Setting]) -> Document:
    """The document with these facts stated; a stated fact is no longer unknown. The original stays as it was."""
    if not settings:
        return document
    value: Any = document.value
    provenance: dict[str, Provenance] = {}
    for setting in settings:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in setting.pointer.split("/")[1:]]
        value = _with(value, parts, setting)
        unknown = value.get("unknown")
        if isinstance(unknown, list) and setting.pointer in unknown:
            value = {**value, "unknown": [pointer for pointer in unknown if pointer != setting.pointer]}
        where = Location(
            file=OPTION,
            line=1,
            column=1,
            end_line=1,
            end_column=len(setting.text) + 1,
            source_line=setting.text,
        )
        provenance[setting.pointer] = Provenance(how="stated", location=where, text=setting.text)
    return replace(document, value=value, provenance=ChainMap(provenance, document.provenance))  # type: ignore[arg-type]


def _with(value: Any, parts: Sequence[str], setting: Setting, above: str = "") -> Any:
    if not parts:
        return setting.value
    name = parts[0]
    if isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
        at = int(name)
        return [*value[:at], _with(value[at], parts[1:], setting, name), *value[at + 1 :]]
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise PolicyEvalError(
            Problem(message=f"{OPTION} `{setting.text[:80]}`: `{above[:40]}` holds no facts to set")
        )
    return {**value, name: _with(value.get(name, {}), parts[1:], setting, name)}
