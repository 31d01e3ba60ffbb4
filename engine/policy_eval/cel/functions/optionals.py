"""The optionals extension; ``.?``, ``[?]``, ``optMap`` and ``optFlatMap`` belong to the language's parser."""

from __future__ import annotations

from typing import Any, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import function, method
from policy_eval.cel.types import BOOL, DYN, ListType, OptionalType, Overload, TypeParam
from policy_eval.cel.values import NONE, Duration, Optional, Timestamp

_A: Final = TypeParam("A")


def of_non_zero(value: Any) -> Optional:
    """The value, unless it is null, false, zero or empty."""
    if type(value) in (Timestamp, Duration):
        zero = not value.nanoseconds
    elif type(value) is Optional:
        zero = not value.has_value()
    else:
        zero = not value
    return NONE if zero else Optional.of(value)


def value_of(optional: Optional) -> Any:
    """What it holds. Raises `EvaluationError` when it is empty."""
    if not optional.has_value():
        raise EvaluationError("the optional has no value")
    return optional.value


def unwrap(optionals: list[Any]) -> list[Any]:
    """The values of those that have one."""
    found = []
    for optional in optionals:
        if type(optional) is not Optional:
            raise EvaluationError("`unwrap` needs a list of optionals")
        if optional.has_value():
            found.append(optional.value)
    return found


LIBRARY: Final[tuple[Overload, ...]] = (
    function("optional.of", (_A,), OptionalType(_A), Optional.of),
    function("optional.none", (), OptionalType(DYN), lambda: NONE),
    function("optional.ofNonZeroValue", (_A,), OptionalType(_A), of_non_zero),
    function("optional.unwrap", (ListType(OptionalType(_A)),), ListType(_A), unwrap),
    method("unwrapOpt", (ListType(OptionalType(_A)),), ListType(_A), unwrap),
    method("hasValue", (OptionalType(DYN),), BOOL, Optional.has_value),
    method("value", (OptionalType(_A),), _A, value_of),
    method(
        "or",
        (OptionalType(_A), OptionalType(_A)),
        OptionalType(_A),
        lambda one, other: one if one.has_value() else other,
    ),
    method("orValue", (OptionalType(_A), _A), _A, lambda one, other: one.value if one.has_value() else other),
)
