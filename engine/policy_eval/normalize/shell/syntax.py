"""The syntax tree of a shell script, by tree-sitter, with places in characters of the script."""

from __future__ import annotations

from typing import Any

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.normalize.text import Text

MAX_SCRIPT = 256 * 1024
_MAX_TREE_DEPTH = 150


class Script:
    """A parsed script: ``root`` is tree-sitter's tree, ``part`` gives the text of a node."""

    def __init__(self, text: Text) -> None:
        """Parse; raises PolicyEvalError when the script is too large or nested too deeply."""
        if len(text.text) > MAX_SCRIPT:
            raise PolicyEvalError(
                Problem(
                    message=f"a shell script larger than {MAX_SCRIPT // 1024} KiB",
                    location=text.place(0, 1),
                    help="check that this is the file you meant",
                )
            )
        self.text = text
        data = text.text.encode("utf-8", "replace")
        self._offsets: list[int] | None = None
        if len(data) != len(text.text):
            self._offsets = [
                index
                for index, char in enumerate(text.text)
                for _ in range(len(char.encode("utf-8", "replace")))
            ]
            self._offsets.append(len(text.text))
        self._tree = _parser().parse(data)
        self.root = self._tree.root_node
        self._check_depth()

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node begins and ends, in characters."""
        start, end = node.start_byte, node.end_byte
        if self._offsets is not None:
            return self._offsets[start], self._offsets[end]
        return start, end

    def part(self, node: Any) -> Text:
        """The text of a node."""
        return self.text.slice(*self.span(node))

    def _check_depth(self) -> None:
        cursor, depth = self.root.walk(), 0
        while True:
            if cursor.goto_first_child():
                depth += 1
                if depth > _MAX_TREE_DEPTH:
                    where = self.part(cursor.node).place(0, 1)
                    raise PolicyEvalError(Problem(message="a shell script nested too deeply", location=where))
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                depth -= 1


_parsers: list[Any] = []


def _parser() -> Any:
    if not _parsers:
        import tree_sitter
        import tree_sitter_bash

        _parsers.append(tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())))
    return _parsers[0]
