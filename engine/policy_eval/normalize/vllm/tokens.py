"""The words of a command line as vLLM's parser sees them, after its own rewriting, each with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.normalize.launch import Word
from policy_eval.normalize.text import UNKNOWN
from policy_eval.normalize.vllm.values import from_json_or_text
from policy_eval.record import record, replace

MAX_WORDS = 1000
_MAX_DEPTH = 50
_MODEL = re.compile(r"--model(=.+|$)", re.DOTALL)
_CONFIG = re.compile(r"--config(=.+|$)", re.DOTALL)
_SERVED_NAME = re.compile(r"--served[-_]model[-_]name(=.+|$)", re.DOTALL)

Places = Callable[[str, bool], Location | None]


@record
class Token:
    """One word for the parser. Every part that cannot be known is one UNKNOWN character in ``text``.

    ``place`` locates characters of ``text``; ``inner``, where the word is JSON put together from other words or
    from YAML, locates the value (or, with true, the key) at a JSON Pointer. ``unknown`` says why parts are
    unknown. ``open`` marks a stand-in for any number of words (a configuration file that cannot be read),
    ``argument`` one that is known to be no option. ``leaves`` are the words that JSON was put together from.
    """

    text: str
    place: Callable[[int, int], Location | None]
    unknown: str | None = None
    inner: Places | None = None
    open: bool = False
    argument: bool = False
    leaves: tuple[Token, ...] = ()

    @property
    def location(self) -> Location | None:
        """The place of the whole word."""
        return self.place(0, len(self.text))

    def part(self, start: int, end: int | None = None) -> Token:
        """The characters from ``start`` to ``end`` (exclusive) as a word of their own."""
        end = len(self.text) if end is None else end
        return replace(
            self,
            text=self.text[start:end],
            place=lambda first, last: self.place(start + first, start + last),
            unknown=self.unknown if UNKNOWN in self.text[start:end] else None,
            open=False,
        )

    def spelled(self, text: str) -> Token:
        """The same place in other words."""
        return replace(self, text=text, place=lambda _start, _end: self.location)


def from_word(word: Word) -> Token:
    """A word of a launch as a token."""
    if word.text is not None:
        return Token(text=word.text, place=word.place)
    raw = word.raw if word.raw and UNKNOWN in word.raw else UNKNOWN
    return Token(text=raw, place=word.place, unknown=word.unknown or "it cannot be resolved")


def refuse(message: str, token: Token | None, advice: str | None = None) -> PolicyEvalError:
    """The error that the engine's command would end with, at a word."""
    where = token.location if token is not None else None
    return PolicyEvalError(Problem(message=message, location=where, help=advice))


def rewrite(
    tokens: Sequence[Token], load: Callable[[Token], list[Token]], anchor: Token | None
) -> list[Token]:
    """Everything vLLM does to the words before argparse sees them.

    ``--model X`` moves to the front, ``--config FILE`` is replaced by its contents (``load``), ``_`` becomes
    ``-`` in option names, ``-O3`` is spelled out, and dotted options are gathered into JSON at the end. The
    result starts after ``serve``. Raises PolicyEvalError in the words of vLLM's command.
    """
    found = list(tokens)
    serve = bool(found) and found[0].text == "serve"
    if serve:
        found = _model_first(found)
        _check_served_name(found)
    found = _insert_config(found, load, serve, anchor)
    found = found[1:] if serve else found
    if len(found) > MAX_WORDS:
        raise refuse(f"more than {MAX_WORDS} words on the command line", found[MAX_WORDS])
    return _gather_dotted(_dashes(found))


def _model_first(tokens: list[Token]) -> list[Token]:
    at = next((i for i, token in enumerate(tokens) if _MODEL.match(token.text)), None)
    if at is None:
        return tokens
    if tokens[at].text == "--model":
        if at + 1 >= len(tokens):
            raise refuse("argument --model: expected one argument", tokens[at], "name the model")
        model, rest = tokens[at + 1], at + 2
    else:
        model, rest = tokens[at].part(len("--model=")), at + 1
    return [tokens[0], model, *tokens[1:at], *tokens[rest:]]


def _check_served_name(tokens: list[Token]) -> None:
    texts = [token.text for token in tokens]
    if len(texts) < 2 or not texts[1].startswith("-") or any(map(_CONFIG.match, texts)):
        return
    at = next((i for i, text in enumerate(texts) if _SERVED_NAME.match(text)), None)
    if at is not None:
        raise refuse(
            "`model` should be provided as the first positional argument when using `vllm serve`. "
            "i.e. `vllm serve <model> --<arg> <value>`.",
            tokens[at],
            "put the model right after `serve`",
        )


def _insert_config(
    tokens: list[Token], load: Callable[[Token], list[Token]], serve: bool, anchor: Token | None
) -> list[Token]:
    at = [i for i, token in enumerate(tokens) if token.text == "--config"]
    if not at:
        return tokens
    if len(at) > 1:
        raise refuse("More than one config file specified!", tokens[at[1]], "keep one `--config`")
    index = at[0]
    if index == len(tokens) - 1:
        raise refuse(
            "No config file specified! Please check your command-line arguments.",
            tokens[index],
            "name the file after `--config`",
        )
    added = load(tokens[index + 1])
    rest = tokens[index + 2 :]
    if not serve:
        return [*added, *tokens[:index], *rest]
    if not tokens[1].text.startswith("-"):
        return [*tokens[:2], *added, *tokens[2:index], *rest]
    if not any(token.text == "--model" or token.open for token in added):
        raise refuse(
            "No model specified! Please specify model either as a positional argument or in a config file.",
            tokens[index] if anchor is None else anchor,
            "put the model right after `serve`, or `model:` into the file",
        )
    return [tokens[0], *added, *tokens[1:index], *rest]


def _dashes(tokens: list[Token]) -> list[Token]:
    done: list[Token] = []
    for i, token in enumerate(tokens):
        text = token.text
        if text.startswith("--"):
            done.append(replace(token, text=_dashed(text)))
        elif text.startswith("-O") and text != "-O":
            value = token.part(3 if text[2] == "=" else 2)
            done += [token.part(0, 2).spelled("--optimization-level"), value]
        elif text == "-O" and i + 1 < len(tokens) and tokens[i + 1].text in ("0", "1", "2", "3"):
            done.append(token.spelled("--optimization-level"))
        else:
            done.append(token)
    return done


def _dashed(text: str) -> str:
    """``_`` replaced by ``-`` in the option's name, up to its first dot."""
    name, equals, value = text.partition("=")
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail + equals + value


def _gather_dotted(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    trees: dict[str, dict[str, Any]] = {}
    first: dict[str, Token] = {}
    leaves: dict[str, dict[str, tuple[Token, Token]]] = {}
    i = 0
    while i < len(tokens):
        token = tokens[i]
        i += 1
        name, equals, _ = token.text.partition("=")
        if not token.text.startswith("-") or "." not in name:
            kept.append(token)
            continue
        if equals:
            value = token.part(len(name) + 1)
        else:
            if i >= len(tokens):
                raise refuse("list index out of range", token, f"give `{name[:80]}` a value")
            value = tokens[i]
            i += 1
        key, *path = name.removesuffix("+").split(".")
        if len(path) > _MAX_DEPTH:
            raise refuse(f"more than {_MAX_DEPTH} dots in an option", token)
        if name.endswith("+"):
            parsed: Any = value.text.split(",")
        else:
            parsed = from_json_or_text(value.text, value)
        pointer = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
        leaves.setdefault(key, {})[pointer] = (token.part(0, len(name)), value)
        first.setdefault(key, token)
        for part in reversed(path):
            parsed = {part: parsed}
        _update(trees.setdefault(key, {}), parsed)
    for key, tree in trees.items():
        found = leaves[key]
        values = tuple(value for _, value in found.values())
        reasons = "; ".join(dict.fromkeys(value.unknown for value in values if value.unknown))
        option = first[key].part(0, len(key)).spelled(key)
        value = Token(
            # As vLLM writes it; only the stand-in for unknown parts must stay one character.
            text=json.dumps(tree, ensure_ascii=not reasons),
            place=lambda _start, _end, values=values: values[0].location,  # type: ignore[misc]
            unknown=reasons or None,
            inner=lambda pointer, key, found=found: _leaf_place(pointer, key, found),  # type: ignore[misc]
            leaves=values,
        )
        kept += [option, value]
    return kept


def _leaf_place(pointer: str, key: bool, leaves: dict[str, tuple[Token, Token]]) -> Location | None:
    """The place of the last dotted option that set the value at ``pointer``, or something in or around it."""
    near = leaves.get(pointer)
    if near is None:
        for path, pair in leaves.items():
            if path.startswith(f"{pointer}/") or pointer.startswith(f"{path}/"):
                near = pair
    if near is None:
        return None
    return near[0 if key else 1].location


def _update(original: dict[str, Any], update: dict[str, Any]) -> None:
    """Later keys replace earlier ones; mappings merge, lists are joined."""
    for key, value in update.items():
        old = original.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _update(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            old += value
        else:
            original[key] = value
