"""Shell conditions: true, false, or known only when the script runs (None)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from policy_eval.normalize.shell.syntax import Node, Script
from policy_eval.normalize.shell.words import Scope, expand_one
from policy_eval.normalize.text import Text

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")


def test(node: Node, script: Script, scope: Scope) -> bool | None:
    """What ``[[ … ]]`` comes to."""
    return _expression(node.children, script, scope, 0)


def _expression(parts: list[Node], script: Script, scope: Scope, depth: int) -> bool | None:
    """Words and operators between brackets: ``||`` binds loosest, then ``&&``, then ``!``."""
    if not parts or depth > 20:
        return None
    for operator, combine in (("||", either), ("&&", both)):
        at = _outside(parts, operator)
        if at is not None:
            rest = parts[at + 1 :]
            left = _expression(parts[:at], script, scope, depth + 1)
            return combine(left, partial(_expression, rest, script, scope, depth + 1))
    if parts[0].type == "word" and script.raw(parts[0]) == "!":
        value = _expression(parts[1:], script, scope, depth + 1)
        return None if value is None else not value
    if parts[0].type == "(" and parts[-1].type == ")":
        return _expression(parts[1:-1], script, scope, depth + 1)
    if any(part.type != "word" for part in parts):
        return None
    words = [script.part(part) for part in parts]
    if len(words) == 3:
        pattern = not any(char in words[2].text for char in "\"'")
        return _compare(
            words[1].text, expand_one(words[0], scope), _pattern(words[2], scope), pattern=pattern
        )
    return test_words([expand_one(word, scope) for word in words])


def _outside(parts: list[Node], operator: str) -> int | None:
    """Where an operator stands that is in no brackets."""
    depth = 0
    for at, part in enumerate(parts):
        depth += {"(": 1, ")": -1}.get(part.type, 0)
        if part.type == operator and depth == 0:
            return at
    return None


def test_words(words: list[Text]) -> bool | None:
    """What ``test word…`` (or ``[`` read as a plain command) comes to."""
    for operator, combine in (("-o", either), ("-a", both)):
        texts = [word.text for word in words]
        if len(words) > 3 and operator in texts[1:]:
            at = texts.index(operator, 1)
            return combine(test_words(words[:at]), partial(test_words, words[at + 1 :]))
    if words and words[0].text == "!" and not words[0].unknown:
        value = test_words(words[1:])
        return None if value is None else not value
    if len(words) == 1:
        return _nonempty(words[0])
    if len(words) == 2:
        return _unary_value(words[0].text, words[1])
    if len(words) == 3:
        return _compare(words[1].text, words[0], words[2], pattern=False)
    return None


def both(left: bool | None, right: Any) -> bool | None:
    """``&&`` of a value and one that is worked out on demand."""
    if left is False:
        return False
    value: bool | None = right()
    return value if left else (False if value is False else None)


def either(left: bool | None, right: Any) -> bool | None:
    """``||`` of a value and one that is worked out on demand."""
    if left is True:
        return True
    value: bool | None = right()
    return value if left is False else (True if value is True else None)


def _unary_value(operator: str, value: Text) -> bool | None:
    filled = _nonempty(value)
    if operator == "-n":
        return filled
    if operator == "-z":
        return None if filled is None else not filled
    return None


def _nonempty(value: Text) -> bool | None:
    if value.unknown is None:
        return bool(value.text)
    # Known characters beside the unknown ones make it non-empty whatever those are.
    return True if sum(1 for run in value.runs if run.reason) < len(value.text) else None


def _pattern(word: Text, scope: Scope) -> Text:
    """The right side of a comparison, in which `*` and `?` are not matched against file names."""
    if any(char in word.text for char in "*?[") and not any(char in word.text for char in "$\"'`\\"):
        return word
    return expand_one(word, scope)


def _compare(operator: str, left: Text, right: Text, *, pattern: bool) -> bool | None:
    if left.unknown or right.unknown:
        return None
    if operator in ("=", "==", "!="):
        if pattern and any(char in right.text for char in "*?["):
            equal = matches(left.text, right.text)
        else:
            equal = left.text == right.text
        return equal if operator != "!=" else not equal
    if not (_INTEGER.match(left.text) and _INTEGER.match(right.text)):
        return None
    first, second = int(left.text), int(right.text)
    found = {
        "-eq": first == second,
        "-ne": first != second,
        "-lt": first < second,
        "-le": first <= second,
        "-gt": first > second,
        "-ge": first >= second,
    }
    return found.get(operator)


def matches(text: str, pattern: str) -> bool:
    """Whether a shell pattern matches a text; both are short, so that no pattern takes long."""
    if len(pattern) > 200 or len(text) > 2000 or pattern.count("*") > 8:
        return False
    return fnmatchcase(text, pattern.replace("[^", "[!"))
