"""A parser of shell scripts: statements, commands and words.

After the grammar of POSIX sh with bash's arrays, `[[`, `((`, `select` and `function`. It takes time in proportion to
the script and fails on none but those nested too deeply: what is no shell becomes an ``ERROR`` node. (tree-sitter's
grammar for bash was tried first: some scripts crash it, and others of 16 KiB take it ten seconds.)
"""

from __future__ import annotations

import re

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.normalize.shell.quoting import closing, double_end, expansion_end, find
from policy_eval.normalize.shell.tree import ENDINGS, Node
from policy_eval.normalize.text import Text

_MAX_DEPTH = 50
_COMPOUND = ("if", "for", "while", "until", "case")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?=)")
_REDIRECT = re.compile(r"(?:[0-9]{1,9}|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())|&>>?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_META = frozenset(" \t\n;&|<>()")


def parse(text: Text) -> Node:
    """The syntax of a script; raises PolicyEvalError when it is nested too deeply."""
    return _Parser(text).program()


class _Parser:
    """Recursive descent over characters; every loop moves forward."""

    def __init__(self, text: Text) -> None:
        self.whole = text
        self.text = text.text
        self.at = 0
        self.depth = 0
        self.heredocs: list[tuple[str, bool]] = []

    def program(self) -> Node:
        root = Node("program", 0, len(self.text))
        while self.at < len(self.text):
            root.children += self.statements(frozenset())
            if self.at < len(self.text):
                # A word or bracket that closes nothing.
                start = self.at
                self.at += max(1, len(self.peek_word()))
                root.children.append(Node("ERROR", start, self.at))
        return root

    # Characters and words.

    def blank(self) -> None:
        """Pass over spaces, tabs and continued lines."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text.startswith("\\\r\n", self.at):
                self.at += 3
            else:
                return

    def lines(self, into: list[Node]) -> None:
        """Pass over blank space, line ends and comments; comments are kept."""
        while True:
            self.blank()
            if self.at >= len(self.text):
                return
            if self.text[self.at] == "\n":
                self.line_end()
            elif self.text[self.at] == "#":
                into.append(self.comment())
            else:
                return

    def line_end(self) -> None:
        """Pass over the end of a line, and the bodies of the here-documents that the line opened."""
        self.at += 1
        for delimiter, stripped in self.heredocs:
            while self.at < len(self.text):
                end = find(self.text, "\n", self.at)
                line = self.text[self.at : end].rstrip("\r")
                self.at = min(end + 1, len(self.text))
                if (line.lstrip("\t") if stripped else line) == delimiter:
                    break
        self.heredocs = []

    def comment(self) -> Node:
        start = self.at
        self.at = find(self.text, "\n", self.at)
        return Node("comment", start, self.at)

    def peek_word(self) -> str:
        """The word here, if it is plain characters only; where a keyword may stand."""
        end = self.at
        while end < len(self.text) and end - self.at < 20 and self.text[end] not in _META:
            end += 1
        word = self.text[self.at : end]
        return "" if word.startswith("#") else word

    def word(self) -> Node:
        """A word: everything up to unquoted space or an operator."""
        start, text = self.at, self.text
        while self.at < len(text):
            char = text[self.at]
            if char == "\\":
                self.at = min(self.at + 2, len(text))
            elif char == "'":
                self.at = self.closed(find(text, "'", self.at + 1))
            elif char == '"':
                self.at = self.closed(double_end(text, self.at + 1))
            elif char == "`":
                self.at = self.closed(find(text, "`", self.at + 1))
            elif char == "$":
                if text.startswith("$'", self.at):
                    self.at = self.ansi_end(self.at + 2)
                else:
                    self.at = max(expansion_end(text, self.at), self.at + 1)
            elif (char in "<>" and text.startswith("(", self.at + 1)) or (
                char in "?*+@!" and self.at > start and text.startswith("(", self.at + 1)
            ):
                self.at = closing(text, self.at + 1)
            elif char in _META:
                break
            else:
                self.at += 1
        return Node("word", start, self.at)

    def closed(self, end: int) -> int:
        """Just after the quote at ``end``, which closes the one here; the shell runs no script without it."""
        if end < len(self.text):
            return end + 1
        where = self.whole.place(self.at, self.at + 1)
        raise PolicyEvalError(Problem(message=f"`{self.text[self.at]}` is not closed", location=where))

    def ansi_end(self, at: int) -> int:
        """Where the ``$'…'`` ends whose inside begins at ``at``."""
        while at < len(self.text) and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        return min(at + 1, len(self.text))

    def keyword(self, node: Node, word: str) -> bool:
        """Take a keyword if it stands here; it becomes a child."""
        if self.peek_word() != word:
            return False
        node.add(Node(word, self.at, self.at + len(word)))
        self.at += len(word)
        return True

    # Statements.

    def statements(self, endings: frozenset[str], closer: str = "") -> list[Node]:
        """Statements up to one of the keywords, or the closing characters; neither is taken."""
        found: list[Node] = []
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            where = self.whole.place(self.at, self.at + 1)
            raise PolicyEvalError(Problem(message="a shell script nested too deeply", location=where))
        while True:
            self.lines(found)
            text, at = self.text, self.at
            if at >= len(text) or (closer and text.startswith(closer, at)) or text[at] == ")":
                break
            word = self.peek_word()
            if word in endings or word in ENDINGS:
                break
            if text.startswith((";;", ";&"), at):
                if closer == ";;":
                    break
                self.at += 2
                continue
            if text[at] in ";&|":
                found.append(Node(text[at], at, at + 1))
                self.at += 1
                continue
            found.append(self.and_or())
            if self.at == at:
                self.at += 1
                found.append(Node("ERROR", at, self.at))
        self.depth -= 1
        return found

    def and_or(self) -> Node:
        """Pipelines joined by ``&&`` and ``||``."""
        left = self.pipeline()
        while True:
            self.blank()
            operator = self.text[self.at : self.at + 2]
            if operator not in ("&&", "||"):
                return left
            node = Node("list", left.start, left.end)
            node.add(left)
            node.add(Node(operator, self.at, self.at + 2))
            self.at += 2
            comments: list[Node] = []
            self.lines(comments)
            node.add(self.pipeline())
            left = node

    def pipeline(self) -> Node:
        """Commands joined by ``|``, with ``!`` before them."""
        start = self.at
        if self.peek_word() == "!":
            self.at += 1
            self.blank()
            node = Node("negated_command", start, self.at, [Node("!", start, start + 1)])
            node.add(self.pipeline_of_commands())
            return node
        return self.pipeline_of_commands()

    def pipeline_of_commands(self) -> Node:
        first = self.command()
        node: Node | None = None
        while True:
            self.blank()
            if self.text.startswith("||", self.at) or not self.text.startswith("|", self.at):
                return node or first
            if node is None:
                node = Node("pipeline", first.start, first.end, [first])
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            comments: list[Node] = []
            self.lines(comments)
            node.add(self.command())

    def command(self) -> Node:
        """One command, simple or compound, with its redirections."""
        start, text = self.at, self.text
        if text.startswith("((", start):
            self.at = closing(text, start)
            return self.redirected(Node("compound_statement", start, self.at, [Node("((", start, start + 2)]))
        if text.startswith("(", start):
            self.at += 1
            node = Node("subshell", start, self.at)
            self.body(node, self.statements(frozenset(), ")"))
            self.close(node, ")")
            return self.redirected(node)
        word = self.peek_word()
        compound = {
            "if": self.if_statement,
            "while": self.while_statement,
            "until": self.while_statement,
            "for": self.for_statement,
            "select": self.for_statement,
            "case": self.case_statement,
            "{": self.group,
            "[[": self.test_command,
            "function": self.function,
        }.get(word)
        if compound is not None:
            return self.redirected(compound())
        name = _NAME.match(text, start)
        if name and (brackets := _PARENTHESES.match(text, name.end())):
            node = Node("function_definition", start, brackets.end())
            node.add(Node("word", start, name.end()), "name")
            self.at = brackets.end()
            return self.function_body(node)
        return self.simple()

    def body(self, node: Node, statements: list[Node]) -> None:
        for statement in statements:
            node.add(statement)

    def close(self, node: Node, closer: str) -> None:
        """Take the closing character or keyword; without it the node ends where the script does."""
        taken = self.peek_word() == closer if closer.isalpha() or closer == "}" else None
        if taken or (taken is None and self.text.startswith(closer, self.at)):
            node.add(Node(closer, self.at, self.at + len(closer)))
            self.at += len(closer)
        elif self.at >= len(self.text):
            where = self.whole.place(node.start, node.start + 1)
            message = f"a `{closer}` is missing: what begins here is not closed"
            raise PolicyEvalError(Problem(message=message, location=where))
        else:
            node.add(Node("ERROR", self.at, min(self.at + 1, len(self.text))))
        node.end = max(node.end, self.at)

    def redirected(self, node: Node) -> Node:
        """Pass over the redirections of a compound command."""
        while True:
            self.blank()
            if not self.redirection():
                return node

    def redirection(self) -> bool:
        """Pass over one redirection, if one stands here."""
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            return False
        self.at = found.end()
        self.blank()
        start = self.at
        target = self.word()
        if found.group(1) in ("<<", "<<-"):
            delimiter = re.sub(r"['\"\\]", "", self.text[start : target.end])
            self.heredocs.append((delimiter, found.group(1) == "<<-"))
        return True

    def if_statement(self) -> Node:
        node = Node("if_statement", self.at, self.at)
        self.keyword(node, "if")
        for child in self.statements(frozenset({"then"})):
            node.add(child, "condition" if child.is_named and child.type != "comment" else None)
        self.keyword(node, "then")
        self.body(node, self.statements(frozenset({"elif", "else", "fi"})))
        while self.peek_word() == "elif":
            clause = Node("elif_clause", self.at, self.at)
            self.keyword(clause, "elif")
            self.body(clause, self.statements(frozenset({"then"})))
            self.keyword(clause, "then")
            self.body(clause, self.statements(frozenset({"elif", "else", "fi"})))
            node.add(clause)
        if self.peek_word() == "else":
            clause = Node("else_clause", self.at, self.at)
            self.keyword(clause, "else")
            self.body(clause, self.statements(frozenset({"fi"})))
            node.add(clause)
        self.close(node, "fi")
        return node

    def while_statement(self) -> Node:
        node = Node("while_statement", self.at, self.at)
        self.keyword(node, self.peek_word())
        for child in self.statements(frozenset({"do"})):
            node.add(child, "condition")
        self.do_group(node)
        return node

    def do_group(self, node: Node) -> None:
        group = Node("do_group", self.at, self.at)
        if not self.keyword(group, "do"):
            node.add(Node("ERROR", self.at, min(self.at + 1, len(self.text))))
            return
        self.body(group, self.statements(frozenset({"done"})))
        self.close(group, "done")
        node.add(group, "body")

    def for_statement(self) -> Node:
        node = Node("for_statement", self.at, self.at)
        self.keyword(node, self.peek_word())
        self.blank()
        if self.text.startswith("((", self.at):
            node.type = "c_style_for_statement"
            self.at = closing(self.text, self.at)
        else:
            node.add(self.word(), "variable")
            comments: list[Node] = []
            self.lines(comments)
            if self.keyword(node, "in"):
                self.blank()
                while self.at < len(self.text) and self.text[self.at] not in "\n;&|()<>#":
                    node.add(self.word(), "value")
                    self.blank()
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n;":
            if self.text[self.at] == "\n":
                self.line_end()
            else:
                self.at += 1
        skipped: list[Node] = []
        self.lines(skipped)
        self.do_group(node)
        return node

    def case_statement(self) -> Node:
        node = Node("case_statement", self.at, self.at)
        self.keyword(node, "case")
        self.blank()
        node.add(self.word(), "value")
        comments: list[Node] = []
        self.lines(comments)
        self.keyword(node, "in")
        while True:
            self.lines(comments)
            if self.at >= len(self.text) or self.peek_word() == "esac":
                break
            start = self.at
            item = Node("case_item", start, start)
            if self.text.startswith("(", self.at):
                self.at += 1
            while True:
                self.blank()
                item.add(self.word(), "value")
                self.blank()
                if not self.text.startswith("|", self.at):
                    break
                self.at += 1
            if self.text.startswith(")", self.at):
                item.add(Node(")", self.at, self.at + 1))
                self.at += 1
            self.body(item, self.statements(frozenset({"esac"}), ";;"))
            for ending in (";;&", ";;", ";&"):
                if self.text.startswith(ending, self.at):
                    item.add(Node(";;", self.at, self.at + len(ending)))
                    self.at += len(ending)
                    break
            if self.at == start:
                break
            node.add(item)
        self.close(node, "esac")
        return node

    def group(self) -> Node:
        node = Node("compound_statement", self.at, self.at + 1, [Node("{", self.at, self.at + 1)])
        self.at += 1
        self.body(node, self.statements(frozenset({"}"})))
        self.close(node, "}")
        return node

    def function(self) -> Node:
        node = Node("function_definition", self.at, self.at)
        self.keyword(node, "function")
        self.blank()
        node.add(self.word(), "name")
        if brackets := _PARENTHESES.match(self.text, self.at):
            self.at = brackets.end()
        return self.function_body(node)

    def function_body(self, node: Node) -> Node:
        comments: list[Node] = []
        self.lines(comments)
        if self.text.startswith(("{", "(", "[["), self.at) or self.peek_word() in (
            "if",
            "for",
            "while",
            "until",
            "case",
        ):
            node.add(self.command(), "body")
        else:
            node.add(Node("ERROR", self.at, min(self.at + 1, len(self.text))))
        return node

    def test_command(self) -> Node:
        """``[[ … ]]``: its words and operators, in order."""
        node = Node("test_command", self.at, self.at + 2)
        self.at += 2
        while True:
            skipped: list[Node] = []
            self.lines(skipped)
            if self.at >= len(self.text):
                break
            start = self.at
            two, one = self.text[start : start + 2], self.text[start]
            if two in ("&&", "||"):
                node.add(Node(two, start, start + 2))
                self.at += 2
            elif one in "()<>;&|":
                node.add(Node(one, start, start + 1))
                self.at += 1
            else:
                word = self.word()
                if self.text[start : word.end] == "]]":
                    node.end = word.end
                    return node
                node.add(word)
        return node

    def simple(self) -> Node:
        """Assignments, a command's name, its arguments, and redirections between them."""
        node = Node("command", self.at, self.at)
        declares = False
        while True:
            self.blank()
            text, at = self.text, self.at
            if at >= len(text) or text[at] in "\n;|)" or (text[at] == "&" and not text.startswith("&>", at)):
                break
            if text[at] == "#":
                break
            if self.redirection():
                continue
            if text[at] == "(":
                # A bracket where a word should be.
                self.at += 1
                node.add(Node("ERROR", at, self.at))
                continue
            named = node.field("name")
            if (named is None or declares) and (found := _ASSIGNMENT.match(text, at)):
                node.add(self.assignment(found))
                continue
            word = self.word()
            if named is None:
                name = text[word.start : word.end]
                word.type = "command_name"
                node.add(word, "name")
                declares = name in _DECLARATIONS
                if declares:
                    node.type = "declaration_command"
                elif name == "unset":
                    node.type = "unset_command"
            else:
                node.add(word, "argument")
        if node.type == "command" and not any(child.type != "variable_assignment" for child in node.children):
            if len(node.children) == 1:
                return node.children[0]
            node.type = "variable_assignments" if node.children else "command"
        return node

    def assignment(self, found: re.Match[str]) -> Node:
        """``name=value``, ``name+=value``, ``name[index]=value``, ``name=(array)``."""
        node = Node("variable_assignment", found.start(), found.end())
        node.add(Node("variable_name", *found.span(1)), "name")
        if found.group(2):
            node.add(Node("subscript", found.start(2) + 1, found.end(2) - 1), "index")
        node.add(Node(found.group(3), *found.span(3)), "operator")
        self.at = found.end()
        if not self.text.startswith("(", self.at):
            if self.at < len(self.text) and self.text[self.at] not in _META:
                node.add(self.word(), "value")
            return node
        array = Node("array", self.at, self.at + 1)
        self.at += 1
        while True:
            self.lines(array.children)
            if self.at >= len(self.text):
                break
            if self.text[self.at] == ")":
                self.at += 1
                break
            start = self.at
            word = self.word()
            if self.at == start:
                self.at += 1
                word = Node("ERROR", start, self.at)
            array.add(word)
        array.end = self.at
        node.add(array, "value")
        return node
