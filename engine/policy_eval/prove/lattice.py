"""All configurations that can matter to policies: every combination of the values their facts can take.

Values come from the schema (true and false, the names it lists, null) and from the expressions (what they compare
with, and something else). A product that is too large is cut: facts that the engine in miniature does not
model then vary one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any

from policy_eval.cel import tree, types
from policy_eval.model import CONFIG_SCHEMA
from policy_eval.policy import Policy, facts_read
from policy_eval.prove.facts import MODELLED
from policy_eval.schema import config_type

LIMIT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """``documents`` without repetition; ``total``: how many combinations there are; ``axes``: values of each fact."""

    documents: tuple[dict[str, Any], ...]
    total: int
    axes: Mapping[str, tuple[Any, ...]]


def lattice(policies: Sequence[Policy], engine: str, releases: Sequence[str]) -> Lattice:
    """The configurations over the facts that the policies read and those that the miniature models."""
    read = [pointer for policy in policies for pointer in _facts(policy)]
    pointers = _leaves([*MODELLED, *read])
    literals = list(_literals(policies))
    axes = {pointer: _values(pointer, literals) for pointer in pointers}
    total = _count(axes) * len(releases)
    limit = max(1, LIMIT // len(releases))
    parts = list(islice(_combinations(axes), limit)) if _count(axes) <= limit else _cut(axes, limit)
    documents = tuple(
        {"schema": CONFIG_SCHEMA, "engine": {"name": engine, "version": release}, **part}
        for release in releases
        for part in parts
    )
    return Lattice(documents=documents, total=total, axes=axes)


def _facts(policy: Policy) -> list[str]:
    expressions = [one.expression for one in policy.conditions] + [one.expression for one in policy.rules]
    found = [pointer for one in expressions for pointer in facts_read(one.node, policy.variables)]
    return [pointer for pointer in found if not pointer.startswith("/engine")]


def _leaves(pointers: Iterable[str]) -> list[str]:
    """Each fact once; a mapping that is read as a whole stays only where none of its parts is read."""
    unique = list(dict.fromkeys(pointers))
    return [
        one
        for one in unique
        if _type(one) is not None and not any(other.startswith(f"{one}/") for other in unique)
    ]


def _type(pointer: str) -> types.Type | None:
    found: types.Type = config_type()
    for part in pointer.split("/")[1:]:
        found = found.of if isinstance(found, types.Nullable) else found
        if isinstance(found, types.Record):
            if part not in found.fields:
                return None
            found = found.fields[part].type
        elif isinstance(found, types.MapType):
            found = found.value
        else:
            return None
    return found


_ABSENT = object()


def _values(pointer: str, literals: Sequence[Any]) -> tuple[Any, ...]:
    kind = _type(pointer)
    assert kind is not None
    field = _field(pointer)
    nullable = isinstance(kind, types.Nullable)
    inner = kind.of if isinstance(kind, types.Nullable) else kind
    found: list[Any] = []
    if field is not None and field.default is not types.MISSING:
        found.append(field.default)
    if nullable:
        found.append(None)
    if field is None:
        found.append(_ABSENT)
    texts = [one for one in literals if type(one) is str]
    numbers = [one for one in literals if type(one) in (int, float)]
    if inner == types.BOOL:
        found += [False, True]
    elif field is not None and field.enum:
        found += field.enum
    elif inner == types.STRING:
        found += [*texts[:8], "other"]
    elif inner in (types.INT, types.DOUBLE):
        near = sorted({int(one) + step for one in numbers for step in (-1, 0, 1)} | {0, 1, 2})
        found += near[:12]
    elif isinstance(inner, types.ListType):
        items = ["plugin:First", "plugin:Second"] if inner.elem == types.STRING else [1, 2]
        found += [[], items[:1], items]
    elif isinstance(inner, (types.Record, types.MapType)):
        found.append({})
    unique: list[Any] = []
    for one in found:
        if not any(type(one) is type(other) and one == other for other in unique):
            unique.append(one)
    return tuple(unique) or (_ABSENT,)


def _field(pointer: str) -> types.Field | None:
    """The schema's entry of a fact; None for a key of an open mapping, which may be absent."""
    *parents, last = pointer.split("/")[1:]
    owner = _type("".join(f"/{part}" for part in parents))
    owner = owner.of if isinstance(owner, types.Nullable) else owner
    return owner.fields[last] if isinstance(owner, types.Record) else None


def _literals(policies: Sequence[Policy]) -> Iterable[Any]:
    seen: list[Any] = []
    for policy in policies:
        named = (*policy.conditions, *policy.variables)
        stack = [one.expression.node for one in named] + [rule.expression.node for rule in policy.rules]
        while stack:
            node = stack.pop()
            stack += tree.children(node)
            if isinstance(node, tree.Literal) and type(node.value) in (str, int, float):
                seen.append(node.value)
    return dict.fromkeys(seen)


def _combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (found for found in _records(axes, "") if found is not None)


def _records(axes: Mapping[str, Sequence[Any]], at: str) -> Iterator[dict[str, Any] | None]:
    """Every record at a pointer; None first, where it can be null."""
    if at and isinstance(_type(at), types.Nullable):
        yield None
    names = list(
        dict.fromkeys(pointer[len(at) + 1 :].split("/")[0] for pointer in axes if _below(pointer, at))
    )
    choices: list[list[Any]] = []
    for name in names:
        pointer = f"{at}/{name}"
        choices.append(list(axes[pointer]) if pointer in axes else list(_records(axes, pointer)))
    for chosen in product(*choices):
        yield {name: value for name, value in zip(names, chosen, strict=True) if value is not _ABSENT}


def _below(pointer: str, at: str) -> bool:
    return pointer.startswith(f"{at}/")


def _count(axes: Mapping[str, Sequence[Any]], at: str = "") -> int:
    names = dict.fromkeys(pointer[len(at) + 1 :].split("/")[0] for pointer in axes if _below(pointer, at))
    pointers = [f"{at}/{name}" for name in names]
    found = prod(len(axes[one]) if one in axes else _count(axes, one) for one in pointers)
    return found + (1 if at and isinstance(_type(at), types.Nullable) else 0)


def _cut(axes: Mapping[str, Sequence[Any]], limit: int) -> list[dict[str, Any]]:
    """The modelled facts in full with the others at their first value, then the others one at a time."""
    others = [pointer for pointer in axes if pointer not in MODELLED]
    base = {pointer: values[:1] if pointer in others else values for pointer, values in axes.items()}
    found = list(islice(_combinations(base), limit))
    for pointer in others:
        if len(found) >= limit:
            break
        found += islice(_combinations({**base, pointer: axes[pointer][1:]}), limit - len(found))
    return found
