"""Text to tree: guards before the parser, cel-python's grammar, limits after it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from policy_eval.cel.errors import Error
from policy_eval.cel.limits import DEFAULT, Limits
from policy_eval.cel.tree import Node, measure

# Strings and comments as the grammar has them, an opening quote that nothing closes, and brackets.
_SCAN = re.compile(
    r'[rR]"{3}(?:[^"]|"(?!""))*"{3}'
    r"|[rR]'{3}(?:[^']|'(?!''))*'{3}"
    r'|"{3}(?:[^"\\]|\\[\s\S]|"(?!""))*"{3}'
    r"|'{3}(?:[^'\\]|\\[\s\S]|'(?!''))*'{3}"
    r"|[rR]\"(?!\"\")[^\"\r\n]*\"|[rR]'(?!'')[^'\r\n]*'"
    r'|"(?!"")(?:[^"\\\r\n]|\\[^\r\n])*"'
    r"|'(?!'')(?:[^'\\\r\n]|\\[^\r\n])*'"
    r"|`[^`\r\n]*`|//[^\r\n]*|(?P<quote>[\"'`]{1,3})|(?P<open>[(\[{])|(?P<close>[)\]}])"
)
_PAIRS = {")": "(", "]": "[", "}": "{"}


def parse(expression: str, limits: Limits = DEFAULT) -> Node:
    """The tree of an expression. Raises `Error` of kind ``syntax`` or ``limit``, with its place."""
    if len(expression) > limits.length:
        raise Error(
            "limit",
            f"the expression has {len(expression)} characters, more than the limit of {limits.length}",
            expression=expression,
            help="split it into variables",
        )
    _guard(expression, limits)
    node = _parse(expression)
    count, depth, deepest = measure(node)
    if count > limits.nodes:
        raise Error(
            "limit",
            f"the expression has {count} parts, more than the limit of {limits.nodes}",
            expression=expression,
            end=len(expression),
            help="split it into variables",
        )
    if depth > limits.nesting:
        raise _too_deep(expression, deepest.start, deepest.end, limits)
    return node


def _too_deep(expression: str, start: int, end: int, limits: Limits) -> Error:
    return Error(
        "limit",
        f"the expression is nested more than {limits.nesting} deep",
        expression=expression,
        start=start,
        end=end,
        help="split it into variables",
    )


def _guard(expression: str, limits: Limits) -> None:
    """Refuse what would make the lexer or the parser slow or deep, in one linear pass."""
    stack: list[tuple[str, int]] = []
    for match in _SCAN.finditer(expression):
        kind, at = match.lastgroup, match.start()
        if kind == "open":
            stack.append((match.group(), at))
            if len(stack) > limits.nesting:
                raise _too_deep(expression, at, at + 1, limits)
        elif kind == "close":
            if not stack or stack.pop()[0] != _PAIRS[match.group()]:
                raise Error(
                    "syntax", f"`{match.group()}` closes nothing", expression=expression, start=at, end=at + 1
                )
        elif kind == "quote":
            raise Error(
                "syntax",
                "the string is not closed",
                expression=expression,
                start=at,
                end=match.end(),
                help=f"end it with {match.group()}, or write a quote inside it as \\{match.group()[0]}",
            )
    if stack:
        bracket, at = stack[-1]
        raise Error("syntax", f"`{bracket}` is not closed", expression=expression, start=at, end=at + 1)


@cache
def _parser() -> Any:
    from policy_eval.cel import functions, grammar
    from policy_eval.cel.lower import Lower

    return grammar.parser(Lower(frozenset(name for name in functions.by_name() if "." in name)))


def _parse(expression: str) -> Node:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    from policy_eval.cel.lower import Fault

    try:
        node: Node = _parser().parse(expression)
    except Fault as fault:
        raise Error(
            "syntax", fault.message, expression=expression, start=fault.start, end=fault.end, help=fault.help
        ) from None
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise Error(
            "syntax",
            f"`{expression[at]}` is not expected here",
            expression=expression,
            start=at,
            end=at + 1,
            help=_HINTS.get(expression[at : at + 2].strip(), _HINTS.get(expression[at])),
        ) from None
    except UnexpectedToken as error:
        raise _unexpected(expression, error.token) from None
    return node


_HINTS = {
    "=": "compare with `==`",
    "&": "write `&&`",
    "|": "write `||`",
    "and": "write `&&`",
    "or": "write `||`",
    "not": "write `!`",
    "None": "write `null`",
    "True": "write `true`",
    "False": "write `false`",
    "is": "compare with `==`",
}


def _unexpected(expression: str, token: Any) -> Error:
    if token.type == "$END":
        at = len(expression.rstrip())
        message = "an expression is needed" if not at else "the expression ends too early"
        return Error("syntax", message, expression=expression, start=at, end=at)
    at, text = token.start_pos, str(token)
    before = expression[:at].split()[-1:] or [""]
    return Error(
        "syntax",
        f"`{text}` is not expected here",
        expression=expression,
        start=at,
        end=token.end_pos,
        help=_HINTS.get(text) or _HINTS.get(before[0]),
    )
