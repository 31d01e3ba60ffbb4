"""Where quotes, brackets and expansions of shell words end."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")


def find(text: str, char: str, at: int) -> int:
    """Where a character stands, from ``at`` on; the end of the text where it does not."""
    found = text.find(char, at)
    return len(text) if found < 0 else found


def double_end(text: str, at: int) -> int:
    """Where the double quote opened before ``at`` closes; expansions inside may hold quotes of their own."""
    while at < len(text):
        char = text[at]
        if char == '"':
            return at
        if char == "\\":
            at += 2
        elif char == "$" and text[at + 1 : at + 2] in ("(", "{"):
            at = max(expansion_end(text, at), at + 1)
        else:
            at += 1
    return len(text)


def expansion_end(text: str, at: int) -> int:
    """Where the expansion that begins with the ``$`` at ``at`` ends; ``at`` when it is just a dollar sign."""
    opened = text[at + 1 : at + 2]
    if opened in ("(", "{"):
        return closing(text, at + 1)
    name = _NAME.match(text, at + 1)
    return name.end() if name else at


def closing(text: str, at: int) -> int:
    """Just after the bracket that closes the one at ``at``; quotes and escapes are skipped over."""
    stack: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if char == "'" and (not stack or stack[-1] != '"'):
            at = find(text, "'", at + 1)
        elif char == '"':
            if stack and stack[-1] == '"':
                stack.pop()
            else:
                stack.append('"')
        elif char in "({" and (text[at - 1] == "$" or not stack or stack[-1] == ")"):
            stack.append(")" if char == "(" else "}")
        elif stack and char == stack[-1]:
            stack.pop()
            if not stack:
                return at + 1
        at += 1
    return len(text)
