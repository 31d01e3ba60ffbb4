"""The CEL specification's test cases: reading them, running them, and saying which of them cannot apply."""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy_eval import cel

_STRINGS = re.compile(
    r"""[bB]?[rR]?(?:'''[\s\S]*?'''|\"\"\"[\s\S]*?\"\"\")|[rR][bB]?(?:'[^']*'|"[^"]*")"""
    r"""|[bB]?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
)
_COMMENT = re.compile(r"//.*")
_MESSAGE = re.compile(r"(?!\bin\b)\b[A-Za-z_][\w.]*\s*\{")
_ENUM = re.compile(r"\b(?:GlobalEnum|NestedEnum)\b|\bstandalone_enum\b")
_EXTENSION = re.compile(r"\bproto\.(?:has|get)Ext\(")
_TYPE_URL = "type.googleapis.com/"
_TIMES = {"google.protobuf.Timestamp": cel.TIMESTAMP, "google.protobuf.Duration": cel.DURATION}
_JSON = ("google.protobuf.Value", "google.protobuf.Struct", "google.protobuf.ListValue")
_WRAPPERS = {
    "google.protobuf.BoolValue": bool,
    "google.protobuf.BytesValue": base64.b64decode,
    "google.protobuf.DoubleValue": float,
    "google.protobuf.FloatValue": float,
    "google.protobuf.Int32Value": int,
    "google.protobuf.Int64Value": int,
    "google.protobuf.StringValue": str,
    "google.protobuf.UInt32Value": lambda value: cel.UInt(int(value)),
    "google.protobuf.UInt64Value": lambda value: cel.UInt(int(value)),
}
_PRIMITIVES = {
    "BOOL": cel.BOOL,
    "BYTES": cel.BYTES,
    "DOUBLE": cel.DOUBLE,
    "INT64": cel.INT,
    "STRING": cel.STRING,
    "UINT64": cel.UINT,
}


class NotApplicable(Exception):
    """The case needs something that is not part of the evaluator; the argument is the reason."""


MESSAGES = "protobuf messages"
ENUMS = "protobuf enums"
EXTENSIONS = "protobuf extensions"
FUNCTIONS = "functions of the case's own"
REASONS = (MESSAGES, ENUMS, EXTENSIONS, FUNCTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. ``expected`` is the value; None for an error. ``deduced`` is the type that the checker must find."""

    section: str
    name: str
    expression: str
    bindings: dict[str, Any]
    environment: dict[str, cel.Type]
    container: str
    checked: bool
    evaluated: bool
    fails: bool
    expected: Any
    deduced: cel.Type | None


def data_file() -> Path | None:
    """The file with the cases: in the folder `CEL_CONFORMANCE`, or in ``shared/cel`` beside the checkout."""
    shared = Path(os.environ.get("POLICY_EVAL_SHARED", Path(__file__).parents[3] / "shared"))
    folder = Path(os.environ.get("CEL_CONFORMANCE", shared / "cel"))
    file = folder if folder.suffix == ".json" else folder / "conformance.json"
    return file if file.is_file() else None


def read(file: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(section, name, case) of every case in a file."""
    for section in json.loads(file.read_text(encoding="utf-8"))["suites"]:
        for group in section.get("suites", []):
            for test in group["tests"]:
                original = test["original"]
                yield section["name"], f"{group['name']}/{original['name']}", original


def prepare(section: str, name: str, data: dict[str, Any]) -> Case:
    """The case as Python values. Raises `NotApplicable`, judged by what is in the case."""
    code = _COMMENT.sub("", _STRINGS.sub("''", data["expr"]))
    if _EXTENSION.search(code):
        raise NotApplicable(EXTENSIONS)
    if _ENUM.search(code):
        raise NotApplicable(ENUMS)
    if _MESSAGE.search(code):
        raise NotApplicable(MESSAGES)
    environment: dict[str, cel.Type] = {}
    for entry in data.get("typeEnv", []):
        if "ident" not in entry:
            raise NotApplicable(FUNCTIONS)
        environment[entry["name"]] = _type(entry["ident"]["type"])
    result = data.get("typedResult", {})
    expected = result.get("result", data.get("value", {"boolValue": True}))
    return Case(
        section=section,
        name=name,
        expression=data["expr"],
        bindings={key: _value(bound["value"]) for key, bound in data.get("bindings", {}).items()},
        environment=environment,
        container=data.get("container", ""),
        checked=not data.get("disableCheck", False),
        evaluated=not data.get("checkOnly", False),
        fails="evalError" in data,
        expected=None if "evalError" in data or "checkOnly" in data else _value(expected),
        deduced=_type(result["deducedType"]) if "deducedType" in result else None,
    )


def _value(data: dict[str, Any]) -> Any:
    ((kind, value),) = data.items()
    if kind in ("boolValue", "stringValue", "nullValue"):
        return value
    if kind == "int64Value":
        return int(value)
    if kind == "uint64Value":
        return cel.UInt(int(value))
    if kind == "doubleValue":
        return float(value)
    if kind == "bytesValue":
        return base64.b64decode(value)
    if kind == "typeValue":
        return cel.TypeValue(value)
    if kind == "listValue":
        return [_value(item) for item in value.get("values", [])]
    if kind == "mapValue":
        return {_value(entry["key"]): _value(entry["value"]) for entry in value.get("entries", [])}
    if kind == "enumValue":
        raise NotApplicable(ENUMS)
    return _message(value)


def _message(data: dict[str, Any]) -> Any:
    """A message of the types that are values of CEL themselves: times, wrappers, JSON."""
    name = data["@type"].removeprefix(_TYPE_URL)
    if name in _TIMES:
        return cel.compile(f"{_TIMES[name].name.rpartition('.')[2].lower()}(text)").evaluate(
            {"text": data["value"]}
        )
    if name in _WRAPPERS:
        return _WRAPPERS[name](data["value"])
    if name in _JSON:
        return _json(data["value"])
    if name == "google.protobuf.Any" and isinstance(data.get("value"), dict) and "@type" in data["value"]:
        return _message(data["value"])
    raise NotApplicable(MESSAGES)


def _json(data: Any) -> Any:
    if isinstance(data, list):
        return [_json(item) for item in data]
    if isinstance(data, dict):
        return {key: _json(value) for key, value in data.items()}
    return float(data) if type(data) is int else data


def _type(data: dict[str, Any]) -> cel.Type:
    ((kind, value),) = data.items()
    if kind == "primitive":
        return _PRIMITIVES[value]
    if kind == "wrapper":
        return cel.Nullable(_PRIMITIVES[value])
    if kind == "null":
        return cel.NULL
    if kind == "dyn":
        return cel.DYN
    if kind == "listType":
        return cel.ListType(_type(value["elemType"]))
    if kind == "mapType":
        return cel.MapType(_type(value["keyType"]), _type(value["valueType"]))
    if kind == "wellKnown":
        return {"TIMESTAMP": cel.TIMESTAMP, "DURATION": cel.DURATION}[value]
    if kind == "abstractType" and value["name"] == "optional_type":
        return cel.OptionalType(_type(value["parameterTypes"][0]))
    if kind == "messageType" and value in _TIMES:
        return _TIMES[value]
    if kind == "messageType" and (value in _WRAPPERS or value in _JSON or value == "google.protobuf.Any"):
        return cel.DYN
    raise NotApplicable(MESSAGES)


def same(found: Any, expected: Any) -> bool:
    """Whether a result is exactly the expected value, kinds of numbers and NaN included."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict):
        return len(found) == len(expected) and all(
            any(same(key, other) and same(value, expected[other]) for other in expected)
            for key, value in found.items()
        )
    if isinstance(found, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return bool(found == expected)


# --- running ------------------------------------------------------------------------------------------------

PASSED, SILENT, FAILED = "passed", "wrong", "failed"


def run(case: Case) -> tuple[str, str]:
    """(`PASSED`, `SILENT` for a value where another value or an error is right, or `FAILED`; what happened)."""
    outcome, told = PASSED, ""
    if case.evaluated:
        outcome, told = _evaluate(case)
    if outcome == PASSED and case.checked and not case.fails:
        outcome, told = _check(case)
    return outcome, told


def _evaluate(case: Case) -> tuple[str, str]:
    try:
        program = cel.compile(case.expression, container=case.container)
        found = program.evaluate(case.bindings)
    except cel.Error as error:
        return (PASSED, "") if case.fails else (FAILED, f"{error.kind}: {error.message}")
    if case.fails:
        return SILENT, f"{found!r} instead of an error"
    if not same(found, case.expected):
        return SILENT, f"{found!r} instead of {case.expected!r}"
    return _generated(case, program.node) if type(found) is bool else (PASSED, "")


def _generated(case: Case, node: cel.Node) -> tuple[str, str]:
    """The generated code says the same as the walker, or that it cannot say."""
    if case.container or any("." in name for name in case.bindings):
        return PASSED, ""
    rules = cel.RuleSet(roots=dict.fromkeys(case.bindings, cel.DYN), rules=[node])
    try:
        first = rules.first(*case.bindings.values())
    except cel.Undecided:
        return PASSED, ""
    if first != (-1 if case.expected else 0):
        return SILENT, f"the generated code finds {first}"
    return PASSED, ""


def _check(case: Case) -> tuple[str, str]:
    environment = dict.fromkeys(case.bindings, cel.DYN) | case.environment
    checked = cel.check_expression(case.expression, environment, container=case.container)
    if checked.errors:
        return FAILED, f"check: {checked.errors[0].message}"
    if case.deduced is not None and checked.type != case.deduced:
        return FAILED, f"the checker finds {checked.type}, not {case.deduced}"
    return PASSED, ""
