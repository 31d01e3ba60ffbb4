"""Engine options that an input spells as keys (Helm values, `engine_kwargs`), as words of a command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from policy_eval.normalize.item import Item
from policy_eval.normalize.text import Text, standing

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def kebab(key: str) -> str:
    """`maxModelLen` or `max_model_len` as `max-model-len`."""
    return _HUMP.sub("-", key).replace("_", "-").lower()


def option_words(key: str, value: Item, *, negative: bool = True) -> list[Text]:
    """The words that set an option to a value: a flag for true, `--no-…` for false, JSON for a mapping.

    ``negative``: whether false is `--no-…`; else false sets nothing.
    """
    flag = value.key_text(f"--{kebab(key)}")
    if value.value is True:
        return [flag]
    if value.value is False:
        return [value.key_text(f"--no-{kebab(key)}")] if negative else []
    if isinstance(value.value, list):
        members = list(value.items())
        if not members:
            return []
        if all(member.is_scalar for member in members):
            return [flag, *(member.text() for member in members)]
    if not value.is_scalar:
        return [flag, json_text(value)]
    return [flag, value.text()]


def json_text(value: Item) -> Text:
    """A mapping or list as one JSON text, standing where it is written."""
    return standing(json.dumps(value.value, ensure_ascii=False), value.location())


def mapped_words(item: Item | None, names: Mapping[str, str]) -> list[Text]:
    """The words for those keys of a mapping that ``names`` gives an option for."""
    words: list[Text] = []
    if item is None:
        return words
    for key, value in item.pairs():
        if key in names:
            words += option_words(names[key], value)
    return words


def listed(item: Item | None) -> list[Text]:
    """A list of words, numbers among them; or one string of words that a shell would split."""
    if item is None:
        return []
    if isinstance(item.value, str):
        return shell_split(item.text())
    return [member.text() for member in item.items() if member.is_scalar]


def shell_split(text: Text) -> list[Text]:
    """The words of a string as a shell would split it, variables that are not set unknown."""
    from policy_eval.normalize.shell.script import read_script

    readings = read_script(_prefixed(text))
    words: Sequence[Text] = readings[0].commands[0].words if readings and readings[0].commands else ()
    return list(words[1:])


def _prefixed(text: Text) -> Text:
    """A list of arguments as a command, so that the shell's grammar applies to it."""
    from policy_eval.normalize.text import join

    return join([standing("arguments ", text.place()), text])
