"""``--config FILE``: the words that vLLM makes of the file, each with its place in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from policy_eval.errors import Location
from policy_eval.load import MAX_DEPTH, read_text
from policy_eval.load.source import decoded_offsets
from policy_eval.normalize.launch import Word
from policy_eval.normalize.text import file_text
from policy_eval.normalize.vllm.tokens import Token, refuse

_MAX_CHARACTERS = 1_000_000
_MAX_VALUES = 20_000
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Placer = Callable[[int, int], Location | None]


def config_words(named: Token, files: Mapping[str, Word], base: str | None) -> list[Token]:
    """The words for the file that ``named`` names; raises PolicyEvalError as vLLM's command would fail.

    The text comes from ``files`` or from the folder ``base``, never from outside of it. Where it is not to be
    had, one token stands for whatever it holds.
    """
    name = named.text
    if named.unknown is not None:
        return [_whatever(named, named.unknown)]
    extension = name.split(".")[-1]
    if extension not in ("yaml", "yml"):
        raise refuse(
            f"Config file must be of a yaml/yml type. {extension[:80]} supplied", named, "rename the file"
        )
    found = _content(name, files, base)
    if found is None or found.text is None:
        reason = f"the file `{name[:200]}` is not known" if found is None else found.unknown
        return [_whatever(named, reason)]
    if len(found.text) > _MAX_CHARACTERS:
        raise refuse(f"larger than {_MAX_CHARACTERS:,} characters", named)
    return _words(found.text, found.place, named)


def _whatever(named: Token, reason: str | None) -> Token:
    return Token(text="", place=lambda _start, _end: named.location, unknown=reason, open=True)


def _content(name: str, files: Mapping[str, Word], base: str | None) -> Word | None:
    if name in files:
        return files[name]
    if base is None or "\0" in name:
        return None
    root = os.path.realpath(base)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.commonpath([root, path]) != root or not os.path.isfile(path):
        return None
    text = read_text(path)
    located = file_text(text, os.path.join(base, name))
    return Word(text=text, location=located.place(0, 1), placer=located.place)


def _words(text: str, place: _Placer, named: Token) -> list[Token]:
    try:
        _check_nesting(text)
        node = yaml.compose(text, Loader=_Loader)
        _check_size(node)
        constructor = yaml.constructor.SafeConstructor()
        value = None if node is None else constructor.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = min(mark.index, len(text)) if mark else 0
        at = Token(text=text[index : index + 1], place=lambda _s, _e: place(index, index + 1))
        raise refuse(f"invalid YAML: {(error.problem or 'cannot be parsed').lower()}", at) from None
    except yaml.reader.ReaderError as error:
        index = error.position if isinstance(error.position, int) else 0
        at = Token(text=" ", place=lambda _s, _e: place(index, index + 1))
        raise refuse("a character that YAML does not allow", at) from None
    except (ValueError, OverflowError, RecursionError):
        raise refuse("a value that YAML cannot express", named) from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(value, dict):
        what = "is empty" if value is None else "is not a mapping of options"
        raise refuse(f"the config file `{named.text[:200]}` {what}", named, "write `option: value` lines")
    nodes: dict[Any, tuple[Any, Any]] = {}
    for key_node, value_node in node.value:
        key = constructor.construct_object(key_node, deep=True)
        first = nodes[key][0] if key in nodes else key_node
        nodes[key] = (first, value_node)
    words: list[Token] = []
    for key, item in value.items():
        key_node, value_node = nodes[key]
        if not isinstance(key, str):
            raise refuse("an option's name must be text", _token(str(key), key_node, text, place))
        words += _option_words(key, item, key_node, value_node, text, place)
    return words


def _option_words(
    key: str, item: Any, key_node: Any, value_node: Any, text: str, place: _Placer
) -> list[Token]:
    option = _token("--" + key, key_node, text, place)
    if isinstance(item, bool):
        return [option] if item else []
    if isinstance(item, list):
        if not item:
            return []
        return [
            option,
            *(
                _token(str(part), node, text, place)
                for part, node in zip(item, value_node.value, strict=True)
            ),
        ]
    if isinstance(item, dict):
        try:
            dumped = json.dumps(item)
        except (TypeError, ValueError):
            raise refuse(f"`{key[:80]}` holds what JSON cannot express", option) from None
        span = (value_node.start_mark.index, value_node.end_mark.index)
        spans = _spans(value_node, "")

        def within(pointer: str, key: bool) -> Location | None:
            return place(*spans[pointer][0 if key else 1]) if pointer in spans else None

        return [option, Token(text=dumped, place=lambda _start, _end: place(*span), inner=within)]
    return [option, _token(str(item), value_node, text, place)]


_Span = tuple[int, int]


def _spans(node: Any, pointer: str) -> dict[str, tuple[_Span, _Span]]:
    """Where each value below a node stands, by JSON Pointer: its key (an item's is itself) and the value."""
    found: dict[str, tuple[_Span, _Span]] = {}
    members: list[tuple[str, Any, Any]] = []
    if isinstance(node, yaml.MappingNode):
        members = [(key.value, key, child) for key, child in node.value if isinstance(key, yaml.ScalarNode)]
    elif isinstance(node, yaml.SequenceNode):
        members = [(str(index), child, child) for index, child in enumerate(node.value)]
    for name, key, child in members:
        at = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        spans = [(part.start_mark.index, part.end_mark.index) for part in (key, child)]
        found[at] = (spans[0], spans[1])
        found |= _spans(child, at)
    return found


def _token(word: str, node: Any, text: str, place: _Placer) -> Token:
    """A word made of one YAML node; its characters are placed one by one where they are the node's own."""
    start, end = node.start_mark.index, node.end_mark.index

    def whole(_first: int, _last: int) -> Location | None:
        return place(start, end)

    if not isinstance(node, yaml.ScalarNode) or node.value != word:
        return Token(text=word, place=whole)

    def exact(first: int, last: int) -> Location | None:
        offsets = decoded_offsets(text[start:end], word, node.style or "")
        if not word or last <= first:
            return place(start, end)
        if first == 0 and last >= len(word):
            return place(start, end)
        return place(start + offsets[min(first, len(word))], start + offsets[min(last, len(word)) - 1] + 1)

    return Token(text=word, place=exact)


def _check_nesting(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(
                    problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=mark
                )
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _check_size(node: Any) -> None:
    """Refuse values that contain themselves, and files that aliases blow up."""
    sizes: dict[int, int] = {}

    def size(item: Any) -> int:
        known = sizes.get(id(item))
        if known == -1:
            raise yaml.MarkedYAMLError(problem="a value contains itself", problem_mark=item.start_mark)
        if known is not None:
            return known
        sizes[id(item)] = -1
        total = 1
        if isinstance(item, yaml.MappingNode):
            total += sum(size(key) + size(child) for key, child in item.value)
        elif isinstance(item, yaml.SequenceNode):
            total += sum(size(child) for child in item.value)
        if total > _MAX_VALUES:
            raise yaml.MarkedYAMLError(
                problem=f"more than {_MAX_VALUES:,} values", problem_mark=item.start_mark
            )
        sizes[id(item)] = total
        return total

    if node is not None:
        size(node)
