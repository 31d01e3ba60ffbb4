"""Names: which part of ``a.b.c`` is a variable and which are fields of it.

A variable may have a qualified name (``a.b``), alone or by the container (namespace) of the expression. The
longest match wins; variables of macros hide all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from policy_eval.cel.tree import PARTS, Bind, Has, Literal, Macro, Name, Node, Select
from policy_eval.record import replace

_TYPE_NAMES = """bool int uint double string bytes list map type null_type optional_type
google.protobuf.Timestamp google.protobuf.Duration"""
TYPE_NAMES = frozenset(_TYPE_NAMES.split())


def resolve(node: Node, names: Iterable[str], container: str = "") -> Node:
    """The tree with every chain ``Select(... Name)`` that names one of ``names`` or a type made one `Name`."""
    return _Resolver(frozenset(names) | TYPE_NAMES, container).node(node, frozenset())


class _Resolver:
    def __init__(self, names: frozenset[str], container: str) -> None:
        self.names = names
        self.container = container
        parts = container.split(".") if container else []
        self.prefixes = [".".join(parts[:count]) + "." for count in range(len(parts), 0, -1)] + [""]

    def node(self, node: Node, local: frozenset[str]) -> Node:
        if type(node) is Literal:
            return node
        if type(node) is Name:
            if node.name in local or (node.name in self.names and not self.container and not node.absolute):
                return node
            return self.chain(node, [node], local) or node
        if type(node) in (Select, Has):
            chain: list[Any] = [node]
            while type(chain[-1]) in (Select, Has) and not getattr(chain[-1], "optional", False):
                chain.append(chain[-1].of)
            if type(chain[-1]) is Name:
                found = self.chain(chain[-1], chain[::-1], local)
                if found is not None:
                    return found
        if type(node) is Macro:
            inner = local | set(node.names)
            of = self.node(node.of, local)
            args = tuple(self.node(arg, inner) for arg in node.args)
            return node if of is node.of and _same(args, node.args) else replace(node, of=of, args=args)
        if type(node) is Bind:
            return replace(
                node, value=self.node(node.value, local), body=self.node(node.body, local | {node.name})
            )
        changes: dict[str, Any] = {}
        for name in PARTS[type(node)]:
            value = getattr(node, name)
            if type(value) is tuple:
                new: Any = tuple([self.node(item, local) for item in value])
                if not _same(new, value):
                    changes[name] = new
            else:
                new = self.node(value, local)
                if new is not value:
                    changes[name] = new
        return replace(node, **changes) if changes else node

    def chain(self, name: Name, chain: list[Any], local: frozenset[str]) -> Node | None:
        """``chain`` is the name and the selections on it, innermost first; None: nothing to change."""
        if name.name in local and not name.absolute:
            return None
        whole = chain[:-1] if type(chain[-1]) is Has else chain
        for count in range(len(whole), 0, -1):
            text = ".".join([name.name, *(part.field for part in whole[1:count])])
            for prefix in [""] if name.absolute else self.prefixes:
                if prefix + text in self.names:
                    if count == 1 and not prefix and not name.absolute:
                        return None
                    found: Any = Name(start=name.start, end=whole[count - 1].end, name=prefix + text)
                    for part in chain[count:]:
                        found = replace(part, of=found)
                    return found  # type: ignore[no-any-return]
        return None


def _same(one: tuple[Node, ...], other: tuple[Node, ...]) -> bool:
    return all(a is b for a, b in zip(one, other, strict=True))
