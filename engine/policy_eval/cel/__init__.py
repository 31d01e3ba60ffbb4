"""CEL, the Common Expression Language: compile an expression, evaluate it over plain Python values.

    from policy_eval import cel
    cel.compile("x.size() > 3").evaluate({"x": "four"})  # True

Importing this package imports neither the parser nor the regular expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy_eval.cel.errors import Error, EvaluationError, LimitExceeded, Undecided
from policy_eval.cel.limits import Limits
from policy_eval.cel.tree import Node, from_data, to_data
from policy_eval.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    MISSING,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Field,
    ListType,
    MapType,
    Nullable,
    OptionalType,
    Overload,
    Record,
    Type,
    TypeParam,
)

if TYPE_CHECKING:
    from policy_eval.cel.check import Checked, check_expression
    from policy_eval.cel.program import Program, compile
    from policy_eval.cel.ruleset import Outcomes, RuleSet, Session, evaluate_with, prepare
    from policy_eval.cel.trace import NOT_EVALUATED, Trace, explain
    from policy_eval.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Unknown

_LATER = {
    "Checked": "check",
    "check_expression": "check",
    "NOT_EVALUATED": "trace",
    "Trace": "trace",
    "explain": "trace",
    "Program": "program",
    "compile": "program",
    "Outcomes": "ruleset",
    "RuleSet": "ruleset",
    "Session": "ruleset",
    "evaluate_with": "ruleset",
    "prepare": "ruleset",
    "Duration": "values",
    "Optional": "values",
    "Timestamp": "values",
    "TypeValue": "values",
    "UInt": "values",
    "Unknown": "values",
}

__all__ = [
    "BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "INT", "MISSING", "NOT_EVALUATED", "NULL", "STRING",
    "TIMESTAMP", "TYPE", "UINT", "Checked", "Duration", "Error", "EvaluationError", "Field", "LimitExceeded",
    "Limits", "ListType", "MapType", "Node", "Nullable", "Optional", "OptionalType", "Outcomes", "Overload",
    "Program", "Record", "RuleSet", "Session", "Timestamp", "Trace", "Type", "TypeParam", "TypeValue", "UInt",
    "Undecided", "Unknown", "check_expression", "compile", "evaluate_with", "explain", "from_data", "prepare",
    "to_data",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found
