"""The lists extension: ``distinct``, ``flatten``, ``slice``, ``sort`` ... Semantics: cel-go's ``ext/lists``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key
from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import bounded, function, method
from policy_eval.cel.types import INT, ListType, OptionalType, Overload, TypeParam
from policy_eval.cel.values import NONE, Optional, compare, describe, entries, too_deep

_A: Final = TypeParam("A")
_DEPTH: Final = 100


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, where it first is."""
    seen, found = set(), []
    for value in values:
        key = _key(value, 0)
        if key not in seen:
            seen.add(key)
            found.append(value)
    return found


def _key(value: Any, depth: int) -> Any:
    """Something hashable that is equal for values that are equal in CEL."""
    if depth > _DEPTH:
        raise too_deep()
    kind = type(value)
    if kind is list:
        return list, tuple([_key(item, depth + 1) for item in value])
    if kind is dict:
        return dict, frozenset((_key(key, depth + 1), _key(item, depth + 1)) for key, item in entries(value))
    if kind is Optional:
        return Optional, (_key(value.value, depth + 1) if value.has_value() else None)
    if isinstance(value, (int, float)) and kind is not bool:
        return ("number", value) if value == value else ("NaN", object())
    return kind, value


def flatten(values: list[Any], depth: int = 1) -> list[Any]:
    """The elements of the lists in a list, down to ``depth``."""
    if depth < 0:
        raise EvaluationError("`flatten` needs a depth that is not negative")
    found: list[Any] = []
    for item in _flat(values, min(depth, _DEPTH + 1), 0):
        found.append(item)
        bounded(len(found))
    return found


def _flat(values: list[Any], depth: int, level: int) -> Iterator[Any]:
    if level > _DEPTH:
        raise too_deep()
    for item in values:
        if type(item) is list and depth > 0:
            yield from _flat(item, depth - 1, level + 1)
        else:
            yield item


def number_range(count: int) -> list[int]:
    """``[0, 1, ... count - 1]``."""
    bounded(count)
    return list(range(count))


def part(values: list[Any], start: int, end: int) -> list[Any]:
    """The elements from ``start`` up to, without, ``end``."""
    if not 0 <= start <= end <= len(values):
        raise EvaluationError(f"the slice `{start}` to `{end}` does not fit the list of {len(values)}")
    return values[start:end]


def sort(values: list[Any]) -> list[Any]:
    """The elements, all of one kind that has an order, from the least to the greatest."""
    kind = type(values[0]) if values else int
    for value in values:
        if type(value) is not kind:
            raise EvaluationError(
                f"`sort` needs elements of one kind, not {describe(values[0])} and {describe(value)}"
            )
        if compare(value, value) is None:
            raise EvaluationError("`sort` cannot place NaN")
    if kind in (int, float, str):
        return sorted(values)
    return sorted(values, key=cmp_to_key(_order))


def _order(one: Any, other: Any) -> int:
    return compare(one, other) or 0


LIBRARY: Final[tuple[Overload, ...]] = (
    method("distinct", (ListType(_A),), ListType(_A), distinct),
    method("flatten", (ListType(),), ListType(), flatten),
    method("flatten", (ListType(), INT), ListType(), flatten),
    function("lists.range", (INT,), ListType(INT), number_range),
    method("slice", (ListType(_A), INT, INT), ListType(_A), part),
    method("sort", (ListType(_A),), ListType(_A), sort),
    method("reverse", (ListType(_A),), ListType(_A), lambda values: values[::-1]),
    method(
        "first", (ListType(_A),), OptionalType(_A), lambda values: Optional.of(values[0]) if values else NONE
    ),
    method(
        "last", (ListType(_A),), OptionalType(_A), lambda values: Optional.of(values[-1]) if values else NONE
    ),
)
