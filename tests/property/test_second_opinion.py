"""Random expressions over random data, here and in cel-cpp: the same value, or an error in both.

Needs the extra ``bench`` (cel-expr-python). What may differ is listed in ``known_differences.yaml``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expressions import NAMES, bindings, expressions
from hypothesis import HealthCheck, Phase, given, settings

from policy_eval import cel
from policy_eval.cel import values

cpp = pytest.importorskip("cel_expr_python.cel", reason="cel-expr-python is not installed (extra `bench`)")
KNOWN = yaml.safe_load((Path(__file__).parent / "known_differences.yaml").read_text(encoding="utf-8"))
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


@pytest.fixture(scope="module")
def environment() -> Any:
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

    extensions = [
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        ext_math.ExtMath(),
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
    ]
    return cpp.NewEnv(variables=dict.fromkeys(NAMES, cpp.Type.DYN), extensions=extensions)


def ours(expression: str, data: Mapping[str, Any]) -> tuple[str, Any]:
    """("error", message) or (type, value)."""
    try:
        found = cel.compile(expression).evaluate(data)
    except cel.Error as error:
        return "error", error.message
    return str(values.type_of(found)).removeprefix("google.protobuf.").lower(), plain(found)


def theirs(environment: Any, expression: str, data: Mapping[str, Any]) -> tuple[str, Any]:
    """The same by cel-cpp."""
    try:
        found = environment.compile(expression, disable_check=True).eval(data=data)
    except RuntimeError as error:
        return "error", str(error)
    kind = re.sub(r"[<(].*", "", found.type().name()).lower()
    kind = {"null": "null_type", "optional": "optional_type"}.get(kind, kind)
    if found.type() == cpp.Type.ERROR:
        return "error", str(found.value())
    try:
        return kind, plain(found.plain_value())
    except TypeError:  # the package cannot give such a value to Python
        return kind, None


def plain(value: Any) -> Any:
    """A value in a form that is the same for both: doubles as text, times in microseconds, uints as ints."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        pairs = [(plain(key), plain(item)) for key, item in values.entries(value)]
        return {"map": sorted(pairs, key=repr)}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    if type(value) is cel.UInt:
        return ("int", int(value))
    if isinstance(value, (cel.Timestamp, cel.Duration)):
        return int(value.nanoseconds / 1000)
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND
    if isinstance(value, datetime.timedelta):
        return int(value / _MICROSECOND)
    if isinstance(value, (cel.TypeValue, cpp.Type)):
        return "type"
    return (type(value).__name__, value)


def differ(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    if "error" in (one[0], other[0]):
        return one[0] != other[0]
    return one[0] != other[0] or (other[1] is not None and one[1] != other[1])


def known(expression: str, one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    told = {"expression": expression, "ours": str(one[1]), "theirs": str(other[1])}
    return any(
        all(re.search(entry[part], told[part]) for part in told if part in entry)
        for entry in KNOWN
        if not entry.get("unordered") or unordered(one[1]) == unordered(other[1])
    )


def unordered(value: Any) -> Any:
    """A plain value with every list sorted."""
    return sorted(map(unordered, value), key=repr) if isinstance(value, list) else value


@settings(max_examples=1000, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(expression=expressions, data=bindings)
def test_random_expressions(environment: Any, expression: str, data: dict[str, Any]) -> None:
    one, other = ours(expression, data), theirs(environment, expression, data)
    assert not differ(one, other) or known(expression, one, other), (expression, data, one, other)


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry["example"])
def test_known_differences(environment: Any, entry: dict[str, Any]) -> None:
    expression, data = entry["example"], entry["bindings"]
    one, other = ours(expression, data), theirs(environment, expression, data)
    assert differ(one, other)
    assert known(expression, one, other)
