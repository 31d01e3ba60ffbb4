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
from policy_eval.cel.tree import Binary, ListLiteral, MapLiteral, Name
from policy_eval.record import fields, replace

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
_EXPECTED = "expected result"  # no expression can have a variable of this name


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case.

    ``outcome``: `PASSED`, `SILENT` (a value where another value or an error is right) or `FAILED`. ``told``: what
    went wrong. ``coded``: generated code decided the case too, and agreed.
    """

    outcome: str
    told: str = ""
    coded: bool = False


def run(case: Case) -> Result:
    """Run a case by the walker, by generated code as far as that goes, and through the checker."""
    result = _evaluate(case) if case.evaluated else Result(PASSED)
    if result.outcome == PASSED and case.checked and not case.fails:
        fault = _check(case)
        if fault is not None:
            return Result(FAILED, fault, result.coded)
    return result


def _evaluate(case: Case) -> Result:
    try:
        program = cel.compile(case.expression, container=case.container)
    except cel.Error as error:
        return Result(PASSED) if case.fails else Result(FAILED, f"{error.kind}: {error.message}")
    try:
        found = program.evaluate(case.bindings)
    except cel.Error as error:
        if not case.fails:
            return Result(FAILED, f"{error.kind}: {error.message}")
    else:
        if case.fails:
            return Result(SILENT, f"{found!r} instead of an error")
        if not same(found, case.expected):
            return Result(SILENT, f"{found!r} instead of {case.expected!r}")
    said = generated(case, program.node)
    if said is None or (said and not case.fails):
        return Result(PASSED, coded=said is not None)
    wanted = "an error" if case.fails else repr(case.expected)
    return Result(SILENT, f"{wanted} by the walker; generated code says {said}")


def generated(case: Case, node: cel.Node) -> bool | None:
    """Whether the generated code finds the expected value; None where it leaves that to the walker.

    Generated code judges rules, so the rule is ``expression == expected``; for an error any rule about the value
    will do, since none can be judged.
    """
    if case.container or any("." in name for name in case.bindings) or case.expected != case.expected:
        return None  # the walker resolves qualified names; NaN equals nothing
    roots = {**case.bindings, _EXPECTED: case.expected}
    left = _with_facts(node, roots)
    at = {"start": node.start, "end": node.end}
    rule = Binary(**at, op="==", left=left, right=Name(**at, name=_EXPECTED))
    rules = cel.RuleSet(roots=dict.fromkeys(roots, cel.DYN), rules=[rule])
    try:
        return rules.first(*roots.values()) == -1
    except cel.Undecided:
        return None


def _with_facts(node: cel.Node, roots: dict[str, Any]) -> cel.Node:
    """The tree with its constant lists and maps as facts of a document (added to ``roots``), as rules meet them.

    Generated code leaves lists and maps that an expression makes to the walker.
    """
    if isinstance(node, (ListLiteral, MapLiteral)):
        found = cel.evaluate_with(node, {})
        if _is_fact(found):
            name = f"fact {len(roots)}"
            roots[name] = found
            return Name(start=node.start, end=node.end, name=name)
    changes: dict[str, Any] = {}
    for field in fields(node):
        part = getattr(node, field)
        if isinstance(part, cel.Node):
            changes[field] = _with_facts(part, roots)
        elif type(part) is tuple and part and isinstance(part[0], cel.Node):
            changes[field] = tuple(_with_facts(item, roots) for item in part)
    return replace(node, **changes) if changes else node


def _is_fact(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_fact, value))
    if type(value) is dict:
        return all(type(key) is str and _is_fact(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, float, str)


def _check(case: Case) -> str | None:
    """What the checker finds wrong with a case that is right."""
    environment = dict.fromkeys(case.bindings, cel.DYN) | case.environment
    checked = cel.check_expression(case.expression, environment, container=case.container)
    if checked.errors:
        return f"check: {checked.errors[0].message}"
    if case.deduced is not None and checked.type != case.deduced:
        return f"the checker finds {checked.type}, not {case.deduced}"
    return None
