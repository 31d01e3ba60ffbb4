"""Facts that follow from others, by data: a derivation file -> a Derivation; a document -> the same, completed."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from policy_eval import cel
from policy_eval.cel import types
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.model import Document, Provenance
from policy_eval.policy import (
    Expression,
    ExpressionReader,
    Named,
    check_pointer,
    check_versions,
    facts_read,
    in_order,
    unique,
)
from policy_eval.record import record, replace
from policy_eval.schema import complete, config_type, no_such_fact, schema_problems


@record
class DerivationRule:
    """Where ``when`` is true the fact is ``value``, or the engine does not start and says ``refuses``.

    ``path`` is the JSON Pointer of the fact that a refusal is about.
    """

    id: str
    because: str
    when: Expression | None = None
    value: Expression | None = None
    refuses: Expression | None = None
    path: str | None = None
    versions: str = ""


@record
class Derivation:
    """How the fact at the JSON Pointer ``derives`` follows from others: ordered rules, the first match decides."""

    name: str
    engine: str
    location: Location
    derives: str
    rules: tuple[DerivationRule, ...]
    variables: tuple[Named, ...] = ()


def parse_derivation(source: Source) -> Derivation:
    """The derivation in a file; raises PolicyEvalError with every problem of the file, in its order."""
    problems = schema_problems(source.value, "derivation", source, source.file)
    if problems:
        raise PolicyEvalError(*problems)
    spec: dict[str, Any] = source.value["spec"]
    if found := no_such_fact(spec["derives"]):
        where = source.location("/spec/derives")
        raise PolicyEvalError(Problem(message=found[0], location=where, help=found[1]))
    reader = ExpressionReader(source)
    variables = reader.variables("/spec/variables", spec.get("variables", ()))
    fact = _fact_type(spec["derives"])
    rules = tuple(_rule(reader, f"/spec/rules/{at}", item, fact) for at, item in enumerate(spec["rules"]))
    unique(source, "rule", "/spec/rules", spec["rules"], "id", reader.problems)
    if reader.problems:
        raise PolicyEvalError(*in_order(reader.problems))
    return Derivation(
        name=source.value["metadata"]["name"],
        engine=spec["engine"],
        location=source.location("/metadata/name"),
        derives=spec["derives"],
        rules=rules,
        variables=variables,
    )


def _rule(
    reader: ExpressionReader, pointer: str, item: Mapping[str, Any], fact: types.Type
) -> DerivationRule:
    check_versions(item.get("versions"), reader.source, f"{pointer}/versions", reader.problems)
    check_pointer(item.get("path"), reader.source, f"{pointer}/path", reader.problems)
    if ("value" in item) == ("refuses" in item):
        where = reader.source.location(pointer)
        reader.problems.append(Problem(message="a rule has either `value` or `refuses`", location=where))

    def read(key: str, expect: types.Type) -> Expression | None:
        return reader.read(f"{pointer}/{key}", expect) if key in item else None

    return DerivationRule(
        id=item["id"],
        because=" ".join(item["because"].split()),
        when=read("when", types.BOOL),
        value=read("value", fact),
        refuses=read("refuses", types.STRING),
        path=item.get("path"),
        versions=item.get("versions", ""),
    )


def _fact_type(pointer: str) -> types.Type:
    found: types.Type = config_type()
    for part in pointer.split("/")[1:]:
        found = found.of if isinstance(found, types.Nullable) else found
        assert isinstance(found, types.Record)
        found = found.fields[part].type
    return found


def derive(document: Document, derivations: Iterable[Derivation], version: str | None = None) -> Document:
    """The document with every fact that follows from the others.

    What the document states is kept. A fact that needs others which are unknown is listed under ``unknown``,
    and its provenance names them. ``version`` is the engine's release where the document states none; without
    either, rules that hold for some releases only make a fact unknown. A refusal becomes an error of the
    document, in the engine's words.
    """
    if document.errors:
        return document
    engine = document.value.get("engine", {})
    wanted = {item.derives: item for item in derivations if item.engine == engine.get("name")}
    release = engine.get("version", version)
    todo = [item for pointer, item in wanted.items() if not _stated(document.value, pointer)]
    while todo:
        # A pass settles what needs nothing that is still to be derived.
        results = _pass(document, todo, release, {item.derives for item in todo})
        settled = [(item, found) for item, found in results if not found.waits]
        # Facts that wait for each other are unknown, all of them.
        for item, found in settled or results:
            document = _apply(document, item, found)
        if document.errors or not settled:
            break
        todo = [item for item, found in results if found.waits]
    return document


@record
class _Result:
    """What one derivation comes to: a value, a refusal, or the pointers that are missing."""

    value: Any = None
    known: bool = False
    refusal: str | None = None
    because: str | None = None
    path: str | None = None
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    waits: bool = False


def _stated(value: Mapping[str, Any], pointer: str) -> bool:
    """Whether the document states the fact, or cannot hold it: its parent is null or unknown as a whole."""
    marked = value.get("unknown", ())
    at: Any = value
    parts = pointer.split("/")[1:]
    for depth, part in enumerate(parts):
        if f"/{'/'.join(parts[: depth + 1])}" in marked:
            return True
        if not isinstance(at, Mapping):
            return True
        if part not in at:
            return depth < len(parts) - 1 and _nullable_default(parts[: depth + 1])
        at = at[part]
    return True


def _nullable_default(parts: list[str]) -> bool:
    """Whether a parent that the document leaves out is null or unknown, so that it has no parts."""
    found: types.Type = config_type()
    default: Any = None
    for part in parts:
        found = found.of if isinstance(found, types.Nullable) else found
        assert isinstance(found, types.Record)
        default = found.fields[part].default
        found = found.fields[part].type
    return not isinstance(default, dict)


def _pass(
    document: Document, todo: list[Derivation], release: str | None, pending: set[str]
) -> list[tuple[Derivation, _Result]]:
    value = document.value
    if release is not None and "version" not in value.get("engine", {}):
        value = {**value, "engine": {**value["engine"], "version": release}}
    config = complete(value, _unknown)
    for pointer in pending:
        _hide(config, pointer)
    return [(item, _run(item, config, release, pending)) for item in todo]


def _unknown(pointer: str) -> object:
    return cel.Unknown(frozenset([pointer]))


def _hide(config: dict[str, Any], pointer: str) -> None:
    """Make a fact that is yet to be derived unknown, whatever default the schema has."""
    *parents, last = pointer.split("/")[1:]
    at: Any = config
    for part in parents:
        at = at.get(part) if isinstance(at, dict) else None
    if isinstance(at, dict):
        at[last] = _unknown(pointer)


def _run(item: Derivation, config: dict[str, Any], release: str | None, pending: set[str]) -> _Result:
    """The first rule that matches. A rule that may match is passed over, but its value must then be the same."""
    variables = [(named.name, named.expression.node) for named in item.variables]
    session = cel.Session({"config": config}, variables)

    def evaluate(expression: Expression) -> Any:
        return session.evaluate(expression.node)

    needs: set[str] = set()
    possible: list[Any] = []
    for rule in item.rules:
        held = _covers(rule.versions, release)
        if held is False:
            continue
        matched: Any = True if rule.when is None else evaluate(rule.when)
        if isinstance(matched, cel.Error):
            return _failed(item, rule, matched)
        if matched is False:
            continue
        if held is None:
            needs.add("/engine/version")
        if isinstance(matched, cel.Unknown):
            needs |= matched.pointers
        certain = matched is True and held is True
        if rule.refuses is not None:
            message = evaluate(rule.refuses)
            if certain and not needs and isinstance(message, str):
                return _Result(refusal=message, because=rule.because, path=rule.path)
            if certain:
                needs |= message.pointers if isinstance(message, cel.Unknown) else set()
                break
            possible.append(_REFUSAL)
            continue
        assert rule.value is not None
        value = evaluate(rule.value)
        if isinstance(value, cel.Error):
            return _failed(item, rule, value)
        if isinstance(value, cel.Unknown):
            needs |= value.pointers
        possible.append(value)
        if certain:
            if not isinstance(value, cel.Unknown) and all(
                type(other) is type(value) and other == value for other in possible
            ):
                reads = [] if rule.when is None else facts_read(rule.when.node, item.variables)
                return _Result(value=value, known=True, because=rule.because, reads=tuple(reads))
            break
    return _Result(needs=tuple(sorted(needs)), waits=bool(needs & (pending - {item.derives})))


_REFUSAL = object()


def _failed(item: Derivation, rule: DerivationRule, error: cel.Error) -> _Result:
    why = f"rule `{rule.id}` of {item.location.file} cannot be evaluated: {error.message}"
    return _Result(needs=(item.derives,), because=why)


@cache
def _specifier(versions: str) -> Any:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(versions)


def _covers(versions: str, release: str | None) -> bool | None:
    """Whether a rule speaks about the release; None where the release is not known."""
    if not versions:
        return True
    if release is None:
        return None
    return bool(_specifier(versions).contains(release, prereleases=True))


def _apply(document: Document, item: Derivation, found: _Result) -> Document:
    pointer = item.derives
    if found.refusal is not None:
        where = document.place(found.path) if found.path else None
        problem = Problem(message=found.refusal, location=where, help=found.because)
        return replace(document, errors=(*document.errors, problem))
    value = dict(document.value)
    if found.known:
        *parents, last = pointer.split("/")[1:]
        at = value
        for part in parents:
            at[part] = dict(at.get(part) or {})
            at = at[part]
        at[last] = found.value
        stated = (document.provenance.get(fact) for fact in found.reads)
        where = next((one.location for one in stated if one and one.how == "stated" and one.location), None)
        derived = Provenance(how="derived", location=where, why=found.because)
    else:
        missing = ", ".join(found.needs)
        why = found.because or (f"it follows from {missing}" if missing else "no rule says")
        value["unknown"] = [*value.get("unknown", ()), pointer]
        derived = Provenance(how="derived", why=f"unknown: {why}")
    provenance: Mapping[str, Provenance] = ChainMap({pointer: derived}, document.provenance)  # type: ignore[arg-type]
    return replace(document, value=value, provenance=provenance)
