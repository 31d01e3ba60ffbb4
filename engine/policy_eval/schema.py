"""The JSON Schemas: located findings for people, a quick test for machines, and the types CEL is checked against."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
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
        shown = expected.replace("(?![\\s\\S])", "$")
        yield f"{show(value)} is not of the form `{shown}`", error.schema.get("description"), None
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
    "minLength": "expected some text, found {value}",
    "maxLength": "longer than {bound} characters",
    "minItems": "expected at least {bound} item, found an empty list",
    "maxItems": "more than {bound} items",
    "minProperties": "expected at least {bound} key, found an empty mapping",
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
    from difflib import get_close_matches

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
_MAX_SEEN = 1000


@cache
def quick_check(name: str) -> Check:
    """A function that says yes to valid values of a schema in a microsecond or two, and no to every invalid one.

    A no means: ask `schema_problems`. It knows only the keywords that our schemas use; a keyword it does not
    know makes it say no.
    """
    return _check(load_schema(name))


def _types(schema: dict[str, Any]) -> frozenset[type]:
    names = schema.get("type", list(_EXACT))
    return frozenset(kind for name in ([names] if isinstance(names, str) else names) for kind in _EXACT[name])


def _check(schema: dict[str, Any]) -> Check:
    types, test = _parts(schema)
    return lambda value: type(value) in types and (test is None or value is None or test(value))


def _parts(schema: dict[str, Any]) -> tuple[frozenset[type], Check | None]:
    """The exact Python types that a value may have, and what else is to be tested of it unless it is null."""
    types = _types(schema)
    if "enum" in schema or "const" in schema:
        return _one_of(schema["enum"] if "enum" in schema else [schema["const"]])
    if "type" not in schema or (
        types & {dict, list} and not types <= {dict, type(None)} | {list, type(None)}
    ):
        return frozenset(), None
    if dict in types:
        return (types, _mapping(schema)) if list not in types else (frozenset(), None)
    if list in types:
        item = _check(schema["items"]) if "items" in schema else _never
        known = set(schema) <= _ANNOTATIONS | {"items"}
        return types, (lambda value: all(map(item, value))) if known else _never
    tests = [_keyword(key, expected) for key, expected in schema.items() if key not in _ANNOTATIONS]
    if float in types:
        tests.append(_finite)
    return types, _scalar(tests) if tests else None


def _never(_value: object) -> bool:
    return False


def _finite(value: object) -> bool:
    return type(value) is not float or value - value == 0


def _one_of(options: list[Any]) -> tuple[frozenset[type], Check | None]:
    kinds = frozenset(map(type, options))
    # bool and int are told apart by type, since True == 1 in Python but not in JSON.
    if not kinds <= {str, type(None)}:
        return frozenset(), None
    return kinds, frozenset(options).__contains__


def _scalar(tests: list[Check]) -> Check:
    # The same few versions and names come again and again, and a regular expression costs ten times a look-up.
    seen: set[object] = set()

    def check(value: object) -> bool:
        if value in seen:
            return True
        if not all(test(value) for test in tests):
            return False
        if type(value) is str and len(seen) < _MAX_SEEN and len(value) < _MAX_SEEN:
            seen.add(value)
        return True

    return check


def _keyword(keyword: str, expected: Any) -> Check:
    if keyword == "pattern":
        search = re.compile(expected).search
        return lambda value: type(value) is not str or search(value) is not None
    if keyword == "maxLength":
        return lambda value: type(value) is not str or len(value) <= expected
    if keyword == "minimum":
        return lambda value: not isinstance(value, (int, float)) or value >= expected
    return _never


def _mapping(schema: dict[str, Any]) -> Check:
    if not set(schema) <= _ANNOTATIONS | {"properties", "additionalProperties", "required"}:
        return _never
    parts = {key: _parts(part) for key, part in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties", True)
    others = _parts(extra) if isinstance(extra, dict) else None
    required = tuple(schema.get("required", ()))

    def check(value: Any) -> bool:
        for key, item in value.items():
            part = parts.get(key, others)
            if part is None:
                return False
            types, test = part
            if type(item) not in types or (test is not None and item is not None and not test(item)):
                return False
            if others is not None and type(key) is not str:
                return False
        for key in required:  # noqa: SIM110 (a generator costs more than the whole loop)
            if key not in value:
                return False
        return True

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
    return cel.Record(name, fields, _NOT_FACTS if name == "config" else ())


# Keys of the document that say how it came about; rules are about facts.
_NOT_FACTS = {"$schema", "schema", "unknown", "provenance"}


def no_such_fact(pointer: str) -> tuple[str, str] | None:
    """Message and help where a JSON Pointer leads to no fact of the normalized document; else None."""
    found: cel.Type = config_type()
    for raw in pointer.split("/")[1:]:
        part = raw.replace("~1", "/").replace("~0", "~")
        found = found.of if isinstance(found, cel.Nullable) else found
        if isinstance(found, (cel.ListType, cel.MapType)):
            return None
        fields = list(found.fields) if isinstance(found, cel.Record) else []
        if part not in fields:
            owner = found.name if isinstance(found, cel.Record) else "a plain value"
            return f"no fact `{part[:80]}` in `{owner}`", _did_you_mean(
                part, fields
            ) or "end the pointer before it"
        assert isinstance(found, cel.Record)
        found = found.fields[part].type
    return None


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
