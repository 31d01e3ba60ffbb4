"""Shell conditions: true, false, or known only when the script runs (None)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from policy_eval.normalize.shell.syntax import Script
from policy_eval.normalize.shell.words import Scope, expand_one
from policy_eval.normalize.text import Text

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")


def test(node: Any, script: Script, scope: Scope) -> bool | None:
    """What ``[ … ]``, ``[[ … ]]`` or an expression inside them comes to."""
    kind = node.type
    if kind in ("test_command", "parenthesized_expression"):
        if node.children and node.children[0].type in ("((", "$(("):
            return None
        inner = [child for child in node.named_children if child.type != "comment"]
        return test(inner[0], script, scope) if len(inner) == 1 else None
    if kind == "negation_expression" or (kind == "unary_expression" and _operator(node) == "!"):
        inner = node.named_children
        value = test(inner[-1], script, scope) if inner else None
        return None if value is None else not value
    if kind == "unary_expression":
        return _unary(_operator(node), script.part(node.named_children[-1]), scope)
    if kind == "binary_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = _operator(node)
        if left is None or right is None:
            return None
        if operator in ("&&", "-a"):
            return both(test(left, script, scope), lambda: test(right, script, scope))
        if operator in ("||", "-o"):
            return either(test(left, script, scope), lambda: test(right, script, scope))
        pattern = right.type not in ("string", "raw_string", "number", "simple_expansion", "expansion")
        return _binary(operator, script.part(left), script.part(right), scope, pattern=pattern)
    if node.is_named:
        return _nonempty(expand_one(script.part(node), scope))
    return None


def test_words(words: list[Text]) -> bool | None:
    """What ``test word…`` (or ``[`` read as a plain command) comes to."""
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


def _operator(node: Any) -> str:
    operator = node.child_by_field_name("operator")
    if operator is None:
        return ""
    text: bytes = operator.text or b""
    return text.decode("utf-8", "replace")


def _unary(operator: str, operand: Text, scope: Scope) -> bool | None:
    return _unary_value(operator, expand_one(operand, scope))


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


def _binary(operator: str, left: Text, right: Text, scope: Scope, *, pattern: bool) -> bool | None:
    return _compare(operator, expand_one(left, scope), _pattern(right, scope), pattern=pattern)


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
