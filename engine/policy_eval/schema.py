"""The JSON Schemas: located findings for people, a quick test for machines, and the types CEL is checked against."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any

from policy_eval.cel import types as cel
from policy_eval.errors import Location, Problem
from policy_eval.load import MAX_DEPTH, MAX_VALUES, Source
from policy_eval.resources import data_folder

Check = Callable[[object], bool]


@cache
def load_schema(name: str) -> dict[str, Any]:
    """The schema ``schemas/<name>.schema.json``. Shared by all callers: never change it."""
    with open(os.path.join(data_folder("schemas"), f"{name}.schema.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def schema_problems(value: object, schema: str, source: Source | None, name: str) -> list[Problem]:
    """Everything in ``value`` that ``schemas/<schema>.schema.json`` does not allow, in the order of the text.

    ``source`` gives the places; without one, ``name`` stands for the input and the pointer for the place.
    """
    if problem := _not_json(value, name):
        return [problem]
    return _problems(value, schema, source, name)


def _problems(value: object, schema: str, source: Source | None, name: str) -> list[Problem]:
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(load_schema(schema)).iter_errors(value)
    found: list[Problem] = []
    for error in errors:
        pointer = "".join(f"/{_escape(str(part))}" for part in error.absolute_path)
        for message, advice, key in _explain(error):
            at = f"{pointer}/{_escape(key)}" if key is not None else pointer
            if source is not None:
                where = source.location(at, key=key is not None)
            else:
                where = Location(file=name, pointer=at)
                message = f"{message} at `{at or '/'}`"
            found.append(Problem(message=message, location=where, help=advice))
    found.sort(key=lambda problem: _order(problem.location))
    return found


def _order(where: Location | None) -> tuple[int, int]:
    return (where.line or 0, where.column or 0) if where else (0, 0)


def _explain(error: Any) -> Iterable[tuple[str, str | None, str | None]]:
    """Message, help and the key to point at, for one error of the jsonschema library."""
    keyword, expected, value = error.validator, error.validator_value, error.instance
    if keyword == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        for key in sorted(set(value) - set(known), key=list(value).index):
            yield f"unknown key `{key[:80]}`", _did_you_mean(key, known), key
    elif keyword == "required":
        missing = next(key for key in expected if f"'{key}'" in error.message and key not in value)
        text = error.schema.get("properties", {}).get(missing, {}).get("description")
        yield f"missing key `{missing}`", text, None
    elif keyword == "type":
        names = [expected] if isinstance(expected, str) else expected
        yield f"expected {_either([_KINDS[name] for name in names])}, found {show(value)}", None, None
    elif keyword in ("enum", "const"):
        options = [expected] if keyword == "const" else expected
        advice = _did_you_mean(value, [option for option in options if isinstance(option, str)])
        yield f"expected {_either([show(option) for option in options])}, found {show(value)}", advice, None
    elif keyword == "pattern":
        yield f"{show(value)} is not of the form `{expected}`", None, None
    else:
        yield (
            _BOUNDS.get(keyword, "not allowed here: {value}").format(bound=expected, value=show(value)),
            None,
            None,
        )


_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = {
    "minimum": "expected at least {bound}, found {value}",
    "maximum": "expected at most {bound}, found {value}",
    "minLength": "expected at least {bound} characters, found {value}",
    "maxLength": "longer than {bound} characters",
    "minItems": "expected at least {bound} item(s)",
    "maxItems": "more than {bound} items",
    "minProperties": "expected at least {bound} key(s)",
}


def show(value: object) -> str:
    """A value as a message shows it: short, and in the words of JSON."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, (bool, int, float, str)):
        text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
        return f"`{text[:80]}{'…' if len(text) > 80 else ''}`" if text else "an empty string"
    return "a value that JSON does not have"


def _either(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def _did_you_mean(found: object, known: list[str]) -> str | None:
    if isinstance(found, str) and (close := get_close_matches(found, known, n=1)):
        return f"did you mean `{close[0]}`?"
    return f"known here: {', '.join(f'`{name}`' for name in known[:40])}" if known else None


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _not_json(value: object, name: str) -> Problem | None:
    """Why a value given by a caller is not JSON data within the limits, if it is not. No recursion."""
    stack: list[tuple[object, int, str]] = [(value, 0, "")]
    count = 0
    while stack:
        item, depth, pointer = stack.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_VALUES:
            what = (
                f"nested deeper than {MAX_DEPTH} levels"
                if depth > MAX_DEPTH
                else f"more than {MAX_VALUES:,} values"
            )
            return Problem(message=what, location=Location(file=name, pointer=pointer[:200]))
        if isinstance(item, dict):
            for key, child in item.items():
                if not isinstance(key, str):
                    where = Location(file=name, pointer=pointer)
                    return Problem(
                        message=f"a key that is not a string at `{pointer or '/'}`", location=where
                    )
                stack.append((child, depth + 1, f"{pointer}/{_escape(key)}" if depth < 6 else pointer))
        elif isinstance(item, list):
            stack.extend((child, depth + 1, pointer) for child in item)
        elif isinstance(item, float):
            if item != item or item in (float("inf"), float("-inf")):
                where = Location(file=name, pointer=pointer)
                return Problem(message=f"a number that is not finite at `{pointer or '/'}`", location=where)
        elif not (item is None or isinstance(item, (bool, int, str))):
            where = Location(file=name, pointer=pointer)
            return Problem(
                message=f"a value that JSON does not have at `{pointer or '/'}`",
                location=where,
                help="use dict, list, str, int, float, bool and None",
            )
    return None


# --- the quick test -------------------------------------------------------------------------------------------

_EXACT: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_ANNOTATIONS = {"description", "default", "title", "$schema", "$id", "type", "examples"}


@cache
def quick_check(name: str) -> Check:
    """A function that says yes to most valid values of a schema in a microsecond, and no to every invalid one.

    A no means: ask `schema_problems`. It knows only the keywords that our schemas use on their hot part;
    a keyword it does not know makes it say no.
    """
    return _check(load_schema(name))


def _check(schema: dict[str, Any]) -> Check:
    names = schema.get("type", list(_EXACT))
    types = frozenset(
        kind for name in ([names] if isinstance(names, str) else names) for kind in _EXACT[name]
    )
    tests: list[Check] = []
    for keyword, expected in schema.items():
        if keyword in _ANNOTATIONS or keyword in ("properties", "additionalProperties", "required", "items"):
            continue
        tests.append(_keyword(keyword, expected))
    if dict in types and "type" in schema:
        tests.append(_object_check(schema))
    elif list in types and "type" in schema:
        item = _check(schema["items"]) if "items" in schema else _never
        tests.append(lambda value: type(value) is not list or all(map(item, value)))
    elif "type" not in schema and "const" not in schema and "enum" not in schema:
        return _never

    if not tests:
        return lambda value: type(value) in types
    if len(tests) == 1:
        only = tests[0]
        return lambda value: type(value) in types and only(value)
    return lambda value: type(value) in types and all(test(value) for test in tests)


def _never(_value: object) -> bool:
    return False


def _keyword(keyword: str, expected: Any) -> Check:
    if keyword in ("enum", "const"):
        # bool and int are told apart by type, since True == 1 in Python but not in JSON.
        options = frozenset(
            (type(option), option) for option in ([expected] if keyword == "const" else expected)
        )
        if all(kind in (str, type(None)) for kind, _ in options):
            values = frozenset(option for _, option in options)
            return lambda value: value in values
        return lambda value: (type(value), value) in options
    if keyword == "pattern":
        match = re.compile(expected).search
        return lambda value: type(value) is not str or match(value) is not None
    if keyword == "maxLength":
        return lambda value: type(value) is not str or len(value) <= expected
    if keyword == "minimum":
        return lambda value: not isinstance(value, (int, float)) or value >= expected
    return _never


def _object_check(schema: dict[str, Any]) -> Check:
    """Test a mapping: exact types first, deeper tests only for the keys that have any."""
    types: dict[str, frozenset[type]] = {}
    deeper: dict[str, Check] = {}
    for key, part in schema.get("properties", {}).items():
        simple = set(part) <= _ANNOTATIONS and "type" in part
        names = part.get("type", list(_EXACT))
        types[key] = frozenset(t for n in ([names] if isinstance(names, str) else names) for t in _EXACT[n])
        if not simple or types[key] & {dict, list}:
            deeper[key] = _check(part)
    extra = schema.get("additionalProperties", True)
    other = _check(extra) if isinstance(extra, dict) else _never
    required = tuple(schema.get("required", ()))

    def check(value: object) -> bool:
        if type(value) is not dict:
            return True
        for key, item in value.items():
            allowed = types.get(key)
            if allowed is None:
                if type(key) is not str or not other(item):
                    return False
            elif type(item) not in allowed or (key in deeper and not deeper[key](item)):
                return False
        return all(key in value for key in required)

    return check


# --- the types CEL is checked against, and the complete document ------------------------------------------------


@cache
def config_type() -> cel.Record:
    """The normalized document as CEL sees it: a closed record with the schema's defaults."""
    found = _type("config", load_schema("config"))
    assert isinstance(found, cel.Record)
    return found


def _type(name: str, schema: dict[str, Any]) -> cel.Type:
    names = schema.get("type", "string" if isinstance(schema.get("const"), str) else [])
    names = [names] if isinstance(names, str) else list(names)
    nullable = "null" in names
    kinds = [kind for kind in names if kind != "null"]
    if len(kinds) != 1:
        return cel.DYN
    found = _plain_type(name, kinds[0], schema)
    return cel.Nullable(found) if nullable else found


def _plain_type(name: str, kind: str, schema: dict[str, Any]) -> cel.Type:
    if kind == "array":
        return cel.ListType(_type(f"{name}[]", schema.get("items", {})))
    if kind != "object":
        return {"string": cel.STRING, "integer": cel.INT, "number": cel.DOUBLE, "boolean": cel.BOOL}[kind]
    extra = schema.get("additionalProperties", True)
    if extra is not False:
        value = _type(f"{name}.*", extra) if isinstance(extra, dict) else cel.DYN
        return cel.MapType(cel.STRING, value)
    fields = {
        key: cel.Field(
            _type(f"{name}.{key}", part),
            part.get("default", cel.MISSING),
            tuple(option for option in part["enum"] if option is not None) if "enum" in part else None,
        )
        for key, part in schema.get("properties", {}).items()
        if key not in _NOT_FACTS
    }
    return cel.Record(name, fields)


# Keys of the document that say how it came about; rules are about facts.
_NOT_FACTS = {"$schema", "schema", "unknown", "provenance"}


def complete(document: dict[str, Any], unknown: Callable[[str], object]) -> dict[str, Any]:
    """The document with every fact of the schema present: stated, else the default, else ``unknown(pointer)``.

    What the document lists under ``unknown`` is unknown whatever else it says. The document itself is not
    changed; what the copy shares with it must not be changed either.
    """
    marked = document.get("unknown") or ()
    filled = _fill(document, config_type(), "", unknown)
    for pointer in marked:
        _mark(filled, pointer, unknown)
    return filled


def _fill(
    value: dict[str, Any], record: cel.Record, pointer: str, unknown: Callable[[str], object]
) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for key, field in record.fields.items():
        at = f"{pointer}/{_escape(key)}"
        item = value.get(key, field.default)
        inner = field.type.of if isinstance(field.type, cel.Nullable) else field.type
        if item is cel.MISSING:
            filled[key] = unknown(at)
        elif isinstance(inner, cel.Record) and isinstance(item, dict):
            filled[key] = _fill(item, inner, at, unknown)
        else:
            filled[key] = item
    return filled


def _mark(filled: dict[str, Any], pointer: str, unknown: Callable[[str], object]) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    at: Any = filled
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(at, dict):
            if last:
                at[part] = unknown(pointer)
                return
            child = at.get(part)
            if isinstance(child, (dict, list)):
                # Never write into what is shared with the caller's document.
                at[part] = child = dict(child) if isinstance(child, dict) else list(child)
        elif isinstance(at, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(at):
            if last:
                at[int(part)] = unknown(pointer)
                return
            child = at[int(part)]
            if isinstance(child, (dict, list)):
                at[int(part)] = child = dict(child) if isinstance(child, dict) else list(child)
        else:
            return
        if not isinstance(child, (dict, list)):
            # The fact's parent is null, a scalar, or unknown itself: the pointer makes the parent unknown.
            if isinstance(at, dict) and (child is None or part not in at):
                at[part] = unknown(pointer)
            return
        at = child
