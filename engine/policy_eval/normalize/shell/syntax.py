"""A shell script and its syntax, with places in characters of the script."""

from __future__ import annotations

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.normalize.shell.parser import parse
from policy_eval.normalize.shell.tree import Node
from policy_eval.normalize.text import Text

__all__ = ["Node", "Script"]

MAX_SCRIPT = 256 * 1024


class Script:
    """A parsed script: ``root`` is its syntax, ``part`` gives the text of a node."""

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
        self.root = parse(text)

    def span(self, node: Node) -> tuple[int, int]:
        """Where a node begins and ends, in characters."""
        return node.start, node.end

    def part(self, node: Node) -> Text:
        """The text of a node."""
        return self.text.slice(node.start, node.end)

    def raw(self, node: Node) -> str:
        """The characters of a node."""
        return self.text.text[node.start : node.end]
