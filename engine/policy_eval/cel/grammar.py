"""The grammar: cel-python's, with our additions made visible as (its line, our line) pairs.

Only the file ``cel.lark`` of the package ``celpy`` is read; none of its code runs.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Left: the start of a line that must be in cel-python's grammar. Right: what it becomes.
_CHANGES = (
    # Rules with one part stand for that part ("?" in Lark): no tree levels without meaning.
    ("expr           : conditionalor", "?expr          : conditionalor"),
    ("conditionalor  : [", "?conditionalor : ["),
    ("conditionaland : [", "?conditionaland: ["),
    ("relation       : [", "?relation      : ["),
    ("addition       : [", "?addition      : ["),
    ("multiplication : [", "?multiplication: ["),
    ("unary          : member\n", "?unary         : member\n"),
    ("primary        : literal", "?primary       : literal"),
    # `.?field`, `[?index]`, `[?item]`, `{?key: value}`, and field names in backticks.
    (
        "member         : member_dot | member_dot_arg",
        "?member        : member_opt_dot | member_opt_index | member_dot | member_dot_arg",
    ),
    (
        'member_dot     : member "." IDENT\n',
        'member_dot     : member "." (IDENT | QUOTED_IDENT)\n'
        'member_opt_dot : member "." "?" (IDENT | QUOTED_IDENT)\n'
        'member_opt_index : member "[" "?" expr "]"\n'
        "QUOTED_IDENT   : /`[a-zA-Z0-9_.\\/ -]+`/\n",
    ),
    (
        'list_lit       : "[" [exprlist] "]"',
        'list_lit       : "[" [list_items] "]"\n'
        'list_items     : list_item ("," list_item)* [","]\n'
        'list_item      : ["?"] expr',
    ),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*',
        'mapinits       : map_entry ("," map_entry)* [","]\nmap_entry      : ["?"] expr ":" expr',
    ),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*',
        'fieldinits     : field_init ("," field_init)* [","]\n'
        'field_init     : ["?"] (IDENT | QUOTED_IDENT) ":" expr',
    ),
)

# Its string terminals take exponential time on an unterminated string and let a backslash escape in raw
# strings. These match the same literals in linear time.
_STRINGS = r"""
STRING_LIT.3   : /"(?:[^"\\\r\n]|\\[^\r\n])*"/ | /'(?:[^'\\\r\n]|\\[^\r\n])*'/
               | /[rR]"[^"\r\n]*"/ | /[rR]'[^'\r\n]*'/
MLSTRING_LIT.4 : /\"{3}(?:[^"\\]|\\[\s\S]|"(?!""))*\"{3}/ | /'{3}(?:[^'\\]|\\[\s\S]|'(?!''))*'{3}/
               | /[rR]\"{3}(?:[^"]|"(?!""))*\"{3}/ | /[rR]'{3}(?:[^']|'(?!''))*'{3}/
BYTES_LIT.5    : /[bB]/ MLSTRING_LIT | /[bB]/ STRING_LIT
"""


def text() -> str:
    """The whole grammar in Lark's notation."""
    package = find_spec("celpy")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("cel-python is not installed")
    grammar = Path(package.submodule_search_locations[0], "cel.lark").read_text(encoding="utf-8")
    for theirs, ours in _CHANGES:
        theirs, ours = "\n" + theirs, "\n" + ours
        if grammar.count(theirs) != 1:
            raise RuntimeError(f"cel-python's grammar has changed: {theirs!r}")
        grammar = grammar.replace(theirs, ours)
    head, tail = grammar.index("STRING_LIT     :"), grammar.index("// Moved into STRING_LIT")
    return grammar[:head] + _STRINGS + grammar[tail:]


def parser(lowering: object) -> Any:
    """A Lark LALR parser that calls the method of ``lowering`` named like the rule, bottom up."""
    from lark import Lark, Token

    def keyword(token: Any) -> Any:
        """`true` and `false` match IDENT too."""
        return Token.new_borrow_pos("BOOL_LIT", token, token) if token in ("true", "false") else token

    return Lark(
        text(),
        parser="lalr",
        start="expr",
        maybe_placeholders=False,
        keep_all_tokens=True,
        transformer=lowering,
        lexer_callbacks={"IDENT": keyword},
    )
