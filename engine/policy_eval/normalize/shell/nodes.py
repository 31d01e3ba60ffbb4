"""Questions about statements of a shell script, asked of its syntax alone."""

from __future__ import annotations

from collections.abc import Iterator

from policy_eval.normalize.shell.syntax import Node, Script

_CHANGES = frozenset({"exit", "return", "exec", "eval", "source", ".", "set", "shift", "read"})
_QUESTIONS = frozenset({"[", "test", "grep", "egrep", "which", "type"})
ASSIGNMENTS = frozenset({"variable_assignment", "variable_assignments", "declaration_command"})


def is_test(script: Script, node: Node) -> bool:
    """Whether a statement is there to ask something rather than to do something."""
    if node.type in ("list", "negated_command"):
        return any(is_test(script, child) for child in node.named_children)
    if node.type == "compound_statement":
        return bool(node.children) and node.children[0].type == "(("
    name = node.field("name") if node.type == "command" else None
    return node.type == "test_command" or (name is not None and script.raw(name) in _QUESTIONS)


def ends(script: Script, nodes: list[Node]) -> bool:
    """Whether a way through certainly ends the script: its last command is `exit` or `exec`."""
    last = next((node for node in reversed(nodes) if node.is_named and node.type != "comment"), None)
    if last is not None and last.type in ("else_clause", "compound_statement"):
        return ends(script, last.children)
    if last is None or last.type != "command":
        return False
    words = [script.raw(child) for child in last.named_children if child.type != "comment"]
    return bool(words) and (words[0] == "exit" or (words[0] == "exec" and len(words) > 1))


def matters(script: Script, nodes: list[Node]) -> bool:
    """Whether a way through changes what follows it: sets something, leaves, or reads something in."""
    kinds = ("variable_assignment", "declaration_command", "unset_command", "function_definition")
    for node in nodes:
        for found in descend(node):
            if found.type in kinds:
                return True
            if found.type == "command_name" and script.raw(found) in _CHANGES:
                return True
    return False


def only_sets(node: Node) -> bool:
    """Whether a statement does nothing but set variables."""
    return node.type in ASSIGNMENTS


def only_leaves(script: Script, node: Node) -> bool:
    """Whether the right side of ``||`` ends the script: then the left side is taken to have succeeded."""
    return any(
        script.raw(found) in ("exit", "return") for found in descend(node) if found.type == "command_name"
    )


def descend(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, in the order of the text."""
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(found.children))
