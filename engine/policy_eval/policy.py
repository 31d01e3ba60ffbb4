"""A policy file -> a Policy: schema-checked, ids unique, every expression checked against the document's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policy_eval import cel
from policy_eval.cel import tree, types
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.model import Severity
from policy_eval.record import record, replace
from policy_eval.schema import config_type, no_such_fact, schema_problems


@record
class Expression:
    """A checked CEL expression: its text, its tree, and where its file has it."""

    text: str
    node: cel.Node
    location: Location


@record
class Named:
    """A match condition or a variable."""

    name: str
    expression: Expression


@record
class Rule:
    """One validation: passes when ``expression`` is true of a document. ``location`` is its id's."""

    id: str
    location: Location
    expression: Expression
    message: str
    message_expression: Expression | None = None
    severity: Severity = "error"
    versions: str = ""
    reason: str | None = None
    path: str | None = None
    fix: tuple[Mapping[str, Any], ...] = ()
    links: tuple[str, ...] = ()


@record
class Policy:
    """Ordered rules for one engine. ``versions`` are PEP 440 specifiers over its release; empty means all.

    ``location`` is its name's.
    """

    name: str
    title: str
    engine: str
    location: Location
    versions: str = ""
    conditions: tuple[Named, ...] = ()
    variables: tuple[Named, ...] = ()
    rules: tuple[Rule, ...] = ()


def parse_policy(source: Source) -> Policy:
    """The policy in a file; raises PolicyEvalError with every problem of the file, in its order."""
    problems = schema_problems(source.value, "policy", source, source.file)
    if problems:
        raise PolicyEvalError(*problems)
    data: dict[str, Any] = source.value
    spec = data["spec"]
    reader = ExpressionReader(source)
    check_versions(spec.get("versions"), source, "/spec/versions", reader.problems)
    conditions = tuple(
        Named(name=item["name"], expression=found)
        for at, item in enumerate(spec.get("matchConditions", ()))
        if (found := reader.read(f"/spec/matchConditions/{at}/expression", types.BOOL))
    )
    variables = reader.variables("/spec/variables", spec.get("variables", ()))
    rules = tuple(_rules(reader, spec["validations"]))
    unique(
        source,
        "match condition",
        "/spec/matchConditions",
        spec.get("matchConditions", ()),
        "name",
        reader.problems,
    )
    unique(source, "rule", "/spec/validations", spec["validations"], "id", reader.problems)
    if reader.problems:
        raise PolicyEvalError(*in_order(reader.problems))
    return Policy(
        name=data["metadata"]["name"],
        title=data["metadata"]["title"],
        engine=spec["engine"],
        location=source.location("/metadata/name"),
        versions=spec.get("versions", ""),
        conditions=conditions,
        variables=variables,
        rules=rules,
    )


def _rules(reader: ExpressionReader, items: list[dict[str, Any]]) -> Iterable[Rule]:
    for at, item in enumerate(items):
        pointer = f"/spec/validations/{at}"
        check_versions(item.get("versions"), reader.source, f"{pointer}/versions", reader.problems)
        check_pointer(item.get("path"), reader.source, f"{pointer}/path", reader.problems)
        expression = reader.read(f"{pointer}/expression", types.BOOL)
        message = None
        if "messageExpression" in item:
            message = reader.read(f"{pointer}/messageExpression", types.STRING)
        if expression is not None:
            yield Rule(
                id=item["id"],
                location=reader.source.location(f"{pointer}/id"),
                expression=expression,
                message=item["message"].strip(),
                message_expression=message,
                severity=item.get("severity", "error"),
                versions=item.get("versions", ""),
                reason=item["reason"].strip() if "reason" in item else None,
                path=item.get("path"),
                fix=tuple(item.get("fix", ())),
                links=tuple(item.get("links", ())),
            )


class ExpressionReader:
    """Reads the expressions of one file in order, gathering problems and the types of variables."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.environment: dict[str, types.Type] = {"config": config_type()}
        self._variables: dict[str, types.Field] = {}

    def read(self, pointer: str, expect: types.Type | None) -> Expression | None:
        """The checked expression at a pointer, or None with its problems noted at their places in the file."""
        text = value_at(self.source.value, pointer)
        environment = self.environment
        if self._variables:
            environment = {**environment, "variables": types.Record("variables", self._variables)}
        checked = cel.check_expression(text, environment, expect=expect)
        for error in checked.errors:
            where = self.source.location(pointer, error.start, max(error.end, error.start + 1))
            self.problems.append(Problem(message=error.message, location=where, help=error.help))
        if checked.node is None or checked.errors:
            return None
        where = replace(self.source.location(pointer), pointer=pointer)
        self._last_type = checked.type
        names = {"config", *(f"variables.{name}" for name in self._variables)}
        return Expression(text=text, node=cel.prepare(checked.node, names), location=where)

    def variables(self, pointer: str, items: Iterable[dict[str, Any]]) -> tuple[Named, ...]:
        """The variables of a file; each may use those before it."""
        found = []
        items = list(items)
        for at, item in enumerate(items):
            expression = self.read(f"{pointer}/{at}/expression", None)
            kind = types.DYN
            if expression is not None:
                kind = self._last_type
                found.append(Named(name=item["name"], expression=expression))
            # A variable that did not check still has a name, so that its uses are not reported as unknown.
            self._variables = {**self._variables, item["name"]: types.Field(kind)}
        unique(self.source, "variable", pointer, items, "name", self.problems)
        return tuple(found)


def facts_read(node: cel.Node, variables: Iterable[Named] = ()) -> list[str]:
    """JSON Pointers of the facts that an expression reads, in the order of its text, variables included."""
    named = {variable.name: variable for variable in variables}
    found: dict[str, None] = {}

    def visit(node: cel.Node) -> None:
        parts: list[str] = []
        at: Any = node
        while True:
            if isinstance(at, (tree.Select, tree.Has)):
                parts.append(at.field)
            elif (
                isinstance(at, tree.Index)
                and isinstance(at.index, tree.Literal)
                and type(at.index.value) is str
            ):
                parts.append(at.index.value)
            else:
                break
            at = at.of
        if isinstance(at, tree.Name):
            names = [*at.name.split("."), *reversed(parts)]
            if names[0] == "config" and len(names) > 1:
                found["".join(f"/{name}" for name in names[1:])] = None
            elif names[0] == "variables" and len(names) > 1 and names[1] in named:
                visit(named[names[1]].expression.node)
            return
        for child in tree.children(node):
            visit(child)

    visit(node)
    return list(found)


def value_at(value: Any, pointer: str) -> Any:
    """The value at a JSON Pointer made by this module, so without escapes."""
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def unique(
    source: Source,
    what: str,
    pointer: str,
    items: Iterable[dict[str, Any]],
    key: str,
    problems: list[Problem],
) -> None:
    """Note every item whose ``key`` an earlier item has already."""
    seen: dict[str, int] = {}
    for at, item in enumerate(items):
        name = item[key]
        if name in seen:
            first = source.location(f"{pointer}/{seen[name]}/{key}")
            where = source.location(f"{pointer}/{at}/{key}")
            message = f"{what} `{name}` is there already, at line {first.line}"
            problems.append(Problem(message=message, location=where, help="give each its own name"))
        seen.setdefault(name, at)


def check_versions(text: str | None, source: Source, pointer: str, problems: list[Problem]) -> None:
    """Note a version specifier that PEP 440 does not allow."""
    if text is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        problems.append(
            Problem(
                message=f"not a version specifier: `{text}`",
                location=source.location(pointer),
                help="write comparisons joined by commas, such as `>=0.28,<0.32`",
            )
        )


def check_pointer(pointer: str | None, source: Source, at: str, problems: list[Problem]) -> None:
    """Note a pointer to a fact that the normalized document does not have."""
    if pointer is not None and (found := no_such_fact(pointer)):
        problems.append(Problem(message=found[0], location=source.location(at), help=found[1]))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Problems in the order of the text."""
    return sorted(
        problems, key=lambda p: (p.location.line or 0, p.location.column or 0) if p.location else (0, 0)
    )
