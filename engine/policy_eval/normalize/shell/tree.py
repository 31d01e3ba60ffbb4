"""The nodes of a shell script's syntax."""

from __future__ import annotations

ENDINGS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_KEYWORDS = ENDINGS | {"if", "for", "select", "while", "until", "case", "in", "function"}


class Node:
    """A piece of a script's syntax: its kind, its span in characters, and what it is made of."""

    __slots__ = ("children", "end", "fields", "start", "type")

    def __init__(self, kind: str, start: int, end: int, children: list[Node] | None = None) -> None:
        self.type = kind
        self.start = start
        self.end = end
        self.children = children if children is not None else []
        self.fields: dict[str, list[Node]] = {}

    @property
    def is_named(self) -> bool:
        """Whether this is more than an operator or a keyword."""
        return self.type[0].isalpha() and self.type not in _KEYWORDS

    @property
    def named_children(self) -> list[Node]:
        """The children that are more than operators and keywords."""
        return [child for child in self.children if child.is_named]

    def field(self, name: str) -> Node | None:
        """The child with a role (`name`, `value`, `body`); the first where there are several."""
        found = self.fields.get(name)
        return found[0] if found else None

    def all(self, name: str) -> list[Node]:
        """All children with a role."""
        return self.fields.get(name, [])

    def add(self, node: Node, role: str | None = None) -> Node:
        """Append a child, with a role where it has one."""
        self.children.append(node)
        self.end = max(self.end, node.end)
        if role is not None:
            self.fields.setdefault(role, []).append(node)
        return node


_KEYWORDS = frozenset(
    {
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "select",
        "while",
        "until",
        "do",
        "done",
        "case",
        "in",
        "esac",
        "function",
    }
)
