"""Facts that one option states, as ``facts.json`` lists them, in the words of vLLM's configuration classes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from policy_eval.model import Provenance
from policy_eval.normalize.vllm.facts import Facts
from policy_eval.normalize.vllm.stated import Stated, Statement
from policy_eval.normalize.vllm.table import Table
from policy_eval.normalize.vllm.values import BadValue, Hole, as_bool, as_int, as_text


@cache
def knowledge() -> dict[str, Any]:
    """What ``facts.json`` says; never change it."""
    with open(
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json"), encoding="utf-8"
    ) as file:
        found: dict[str, Any] = json.load(file)
    return found


def check_keys(facts: Facts, stated: Stated, table: Table) -> None:
    """Keys of configuration objects that only some releases have."""
    from packaging.specifiers import SpecifierSet

    for row in knowledge()["keys"]:
        given = stated.option(row["dest"])
        found, _ = below(given.value, row["path"])
        if found and not SpecifierSet(row["versions"]).contains(table.release):
            assert given.given is not None
            option = given.given.option
            key = row["path"][1:].replace("/", ".")
            message = (
                f"argument {option.title}: 1 validation error for {option.type}\n{key}\n"
                "  Unexpected keyword argument"
            )
            facts.refuse(
                message, given.location(row["path"], key=True), f"vLLM {table.release} has no such key"
            )


def below(value: Any, path: str) -> tuple[bool, Any]:
    """Whether there is a value at a JSON Pointer, and the value."""
    for key in path.split("/")[1:]:
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, value


def option_fact(facts: Facts, stated: Stated, row: Mapping[str, Any]) -> None:
    """State the fact that one row of ``facts.json`` describes."""
    given = stated.option(row["dest"])
    if row.get("quiet") and given.is_default and given.opened is None:
        return
    within = row.get("within")
    if within and facts.get(within) is None:
        return
    pointer, path = row["pointer"], row.get("path", "")
    value, place = given.value, given.provenance(path)
    if path and not isinstance(value, Hole):
        found, value = below(value, path)
        if not found:
            if "default" not in row:
                return
            value, place = row["default"], Provenance(how="default", why=given.default_source)
    if value is None and given.is_default and given.opened is None and "default" not in row:
        place = Provenance(how="default", why=given.default_source)
    try:
        facts.put(pointer, _read(row, given, path, value), place)
    except BadValue as error:
        where = place.location
        facts.refuse(str(error), where, f"`{path.rpartition('/')[2] or row['dest']}` is wrong")


def _read(row: Mapping[str, Any], given: Statement, path: str, value: Any) -> Any:
    kind = row["read"]
    if isinstance(value, Hole):
        return value
    if isinstance(given.hole(path, value), Hole) and kind not in ("presence", "texts", "object"):
        return given.hole(path, value)
    if kind == "presence":
        return {} if value not in (None, False) else None
    if value is None:
        return None
    return _READERS[kind](row, given, value)


def _number(row: Mapping[str, Any], _given: Statement, value: Any) -> Any:
    found = as_int(value)
    if "minimum" in row and found < row["minimum"]:
        raise BadValue(f"Input should be greater than or equal to {row['minimum']}")
    if abs(found) >= 2**63:
        raise BadValue("Input should be a valid integer, unable to parse string as an integer")
    return found


def _texts(_row: Mapping[str, Any], given: Statement, value: Any) -> Any:
    for item in value:
        if isinstance(item, Hole):
            # How many there are is known, and that is what matters; which one it is stays unknown.
            return item
        as_text(item)
    return list(value)


def _mode(_row: Mapping[str, Any], _given: Statement, value: Any) -> Any:
    names = knowledge()["compilation_modes"]
    if isinstance(value, str) and value.upper() in names:
        return names[value.upper()]
    if isinstance(value, int) and value in names.values():
        return int(value)
    raise BadValue(f"Input should be {', '.join(map(str, names.values()))}")


def _level(_row: Mapping[str, Any], _given: Statement, value: Any) -> Any:
    if str(value).strip() in ("0", "1", "2", "3"):
        return int(value)
    raise BadValue("Input should be 0, 1, 2 or 3")


def _object(_row: Mapping[str, Any], _given: Statement, value: Any) -> Any:
    if isinstance(value, dict):
        return {}
    raise BadValue("Input should be an object")


def _float(_row: Mapping[str, Any], _given: Statement, value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise BadValue("Input should be a valid number")


_READERS: dict[str, Callable[[Mapping[str, Any], Statement, Any], Any]] = {
    "bool": lambda _row, _given, value: as_bool(value),
    "int": _number,
    "number": _float,
    "text": lambda _row, _given, value: as_text(value),
    "upper": lambda _row, _given, value: as_text(value).upper(),
    "texts": _texts,
    "compilation_mode": _mode,
    "optimization_level": _level,
    "object": _object,
}
