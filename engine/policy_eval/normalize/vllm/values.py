"""From the text of a value to the value, as vLLM's parser and its configuration classes read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from policy_eval.load import MAX_DEPTH
from policy_eval.normalize.text import UNKNOWN
from policy_eval.record import value_record

if TYPE_CHECKING:
    from policy_eval.normalize.vllm.table import Option
    from policy_eval.normalize.vllm.tokens import Token

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_FACTOR = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MAX_NUMBER = 100
_LARGEST = 2**63 - 1
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


@value_record
class Hole:
    """A value that cannot be known, and why."""

    reason: str


class BadValue(Exception):
    """A value that the engine refuses; the text of the exception is the engine's."""


def has_hole(text: object) -> bool:
    """Whether a value is a text of which a part is unknown."""
    return isinstance(text, str) and UNKNOWN in text


def from_json_or_text(text: str, token: Token) -> Any:
    """A dotted option's value: JSON, else an integer such as ``1k``, else text."""
    try:
        return parse_json(text)
    except BadValue:
        pass
    try:
        return human_int(text)
    except ValueError:
        return text


def parse_json(text: str) -> Any:
    """JSON as Python's parser reads it (duplicate keys: the last wins); BadValue where it is none."""
    if nesting(text) > MAX_DEPTH:
        raise BadValue(f"nested deeper than {MAX_DEPTH} levels")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadValue("not JSON") from None


def nesting(text: str) -> int:
    """How deep brackets nest in a JSON text; at most that, where the text is no JSON."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_QUOTED.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def human_int(text: str) -> int:
    """An integer, or a number with a decimal (``k``) or binary (``K``) suffix; raises ValueError."""
    if len(text) > _MAX_NUMBER:
        raise ValueError
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return int(text)
    number, suffix = match.groups()
    return int(float(number) * _FACTOR[suffix]) if suffix.islower() else int(number) * _FACTOR[suffix]


def convert(option: Option, token: Token) -> Any:
    """The value of one word given to an option, a Hole where it is unknown; raises BadValue."""
    text = token.text
    if option.type == "json" or option.type.endswith("Config"):
        return _structure(option, token)
    if UNKNOWN in text:
        return Hole(token.unknown or "it cannot be resolved")
    if option.optional and text in ("", "None"):
        value = None
    else:
        value = _scalar(option, text)
    if option.choices is not None:
        # The tables hold choices as text, those of numbers too.
        listed = option.none_choice if value is None else str(value) in map(str, option.choices)
        if not listed:
            # argparse shows the value as Python would write it.
            shown = ", ".join(repr(choice) for choice in option.choices)
            raise BadValue(f"invalid choice: {value!r} (choose from {shown})")
    return value


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "int": (int, "<class 'int'>"),
    "float": (float, "<class 'float'>"),
    "human_int": (human_int, "<function human_readable_int at 0xADDR>"),
    "human_int_or_auto": (
        lambda text: -1 if text.strip().lower() in ("-1", "auto") else human_int(text),
        "<function human_readable_int_or_auto at 0xADDR>",
    ),
}
_NAMES = {"human_int": "human_readable_int", "human_int_or_auto": "human_readable_int_or_auto"}


def _scalar(option: Option, text: str) -> Any:
    if option.type not in _READERS:
        return text
    read, shown = _READERS[option.type]
    try:
        if len(text) > _MAX_NUMBER:
            raise ValueError
        return read(text)
    except ValueError:
        if option.optional:
            raise BadValue(f"Value {text[:200]} cannot be converted to {shown}.") from None
        raise BadValue(f"invalid {_NAMES.get(option.type, option.type)} value: {text[:200]!r}") from None


def _structure(option: Option, token: Token) -> Any:
    """JSON given to an option: any value for dictionaries, an object for configuration classes."""
    text = token.text
    if text.strip() == UNKNOWN:
        return Hole(token.unknown or "it cannot be resolved")
    if option.optional and text in ("", "None"):
        return None
    try:
        value = parse_json(_with_text_holes(text))
    except BadValue as error:
        if UNKNOWN in text:
            return Hole(token.unknown or "it cannot be resolved")
        if option.type == "json":
            shown = "<function loads at 0xADDR>"
            raise BadValue(f"Value {text} cannot be converted to {shown}.") from None
        raise BadValue(f"1 validation error for {option.type}\n  Invalid JSON: {error}") from None
    if option.type != "json" and not isinstance(value, dict):
        raise BadValue(f"1 validation error for {option.type}\n  Input should be an object")
    return value


def _with_text_holes(text: str) -> str:
    """The JSON text with each unknown part that stands outside a string made a string of its own."""
    if UNKNOWN not in text:
        return text
    parts: list[str] = []
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char == UNKNOWN:
            parts.append(f'"{UNKNOWN}"')
            continue
        parts.append(char)
    return "".join(parts)


# --- how configuration classes (pydantic, not strict) take a value -----------------------------------------------

_TRUE = {"1", "on", "t", "true", "y", "yes"}
_FALSE = {"0", "off", "f", "false", "n", "no"}


def as_bool(value: Any) -> bool:
    """A truth value; raises BadValue in pydantic's words."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    if isinstance(value, (int, str)):
        raise BadValue("Input should be a valid boolean, unable to interpret input")
    raise BadValue("Input should be a valid boolean")


def as_int(value: Any) -> int:
    """An integer; raises BadValue in pydantic's words, also for one that the document cannot hold."""
    if isinstance(value, (bool, int)) and abs(value) <= _LARGEST:
        return int(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) <= _LARGEST:
            return int(value)
        raise BadValue("Input should be a valid integer, got a number with a fractional part")
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        if re.fullmatch(r"[+-]?[0-9]{1,18}(\.0*)?", text):
            return int(text.partition(".")[0])
        raise BadValue("Input should be a valid integer, unable to parse string as an integer")
    raise BadValue("Input should be a valid integer")


def as_text(value: Any) -> str:
    """A text; raises BadValue in pydantic's words."""
    if isinstance(value, str):
        return value
    raise BadValue("Input should be a valid string")


def one_of(options: tuple[str, ...]) -> Callable[[Any], str]:
    """A reader of a text that must be one of ``options``; it raises BadValue in pydantic's words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in options:
            return value
        shown = [f"'{option}'" for option in options]
        listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
        raise BadValue(f"Input should be {listed}")

    return read
