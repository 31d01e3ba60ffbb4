"""Checked policies kept as data, so that an unchanged policy file is neither parsed nor checked again.

An entry is JSON (never code), keyed by the text of the file, the version of this package and the config schema
that its expressions were checked against. Entries of the bundled policies ship with the package; others live
in the user's cache folder (XDG_CACHE_HOME), written whole under a new name and then renamed, so that writers
and readers never meet half an entry. An entry that cannot be used is ignored.
"""

from __future__ import annotations

import json
import os
from functools import cache
from hashlib import sha256
from typing import Any

from policy_eval import __version__
from policy_eval.cel import Node, from_data, to_data
from policy_eval.errors import Location, PolicyEvalError
from policy_eval.policy import Expression, Named, Policy, Rule
from policy_eval.resources import data_folder

# Raise it when the form of an entry or the meaning of a tree changes within a version.
_FORMAT = 1
_MAX_ENTRY = 16 * 1024 * 1024

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled.json")


def key(text: str) -> str:
    """The key of a policy file with this text."""
    return sha256(f"{_context()}\0{text}".encode()).hexdigest()


@cache
def _context() -> str:
    with open(os.path.join(data_folder("schemas"), "config.schema.json"), "rb") as file:
        schema = sha256(file.read()).hexdigest()
    return f"{__version__} {_FORMAT} {schema}"


def read(entry: str, file: str) -> Policy | None:
    """The policy kept under a key, as if read from ``file``; None when there is none that can be used."""
    found = _shipped().get(entry)
    if found is None:
        path = os.path.join(_folder(), f"{entry}.json")
        try:
            if os.path.getsize(path) > _MAX_ENTRY:
                return None
            with open(path, encoding="utf-8") as stream:
                found = json.load(stream)
        except (OSError, ValueError, RecursionError):
            return None
    try:
        return policy_from_data(found, file)
    except (PolicyEvalError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def write(entry: str, policy: Policy) -> None:
    """Keep a policy under a key. A folder that cannot be written is no error: the next run parses again."""
    folder = _folder()
    path = os.path.join(folder, f"{entry}.json")
    part = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(part, "x", encoding="utf-8") as stream:
            json.dump(policy_to_data(policy), stream, separators=(",", ":"))
        os.replace(part, path)
    except OSError:
        return


def _folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "policy-eval")


@cache
def _shipped() -> dict[str, Any]:
    try:
        with open(SHIPPED, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def policy_to_data(policy: Policy) -> dict[str, Any]:
    """A policy as JSON data; the inverse of `policy_from_data`."""
    return {
        "name": policy.name,
        "title": policy.title,
        "engine": policy.engine,
        "versions": policy.versions,
        "conditions": [[one.name, _expression(one.expression)] for one in policy.conditions],
        "variables": [[one.name, _expression(one.expression)] for one in policy.variables],
        "rules": [
            {
                "id": rule.id,
                "expression": _expression(rule.expression),
                "message": rule.message,
                "message_expression": _expression(rule.message_expression)
                if rule.message_expression
                else None,
                "severity": rule.severity,
                "versions": rule.versions,
                "reason": rule.reason,
                "path": rule.path,
                "fix": list(rule.fix),
                "links": list(rule.links),
            }
            for rule in policy.rules
        ],
    }


def _expression(expression: Expression) -> list[Any]:
    where = expression.location
    place = [where.line, where.column, where.end_line, where.end_column, where.pointer, where.source_line]
    return [expression.text, place, to_data(expression.node)]


def policy_from_data(data: dict[str, Any], file: str) -> Policy:
    """The policy in an entry. Raises one of several errors when the data is not an entry."""

    def expression(item: list[Any]) -> Expression:
        text, (line, column, end_line, end_column, pointer, source_line), tree = item
        where = Location(
            file=file,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            pointer=pointer,
            source_line=source_line,
        )
        node: Node = from_data(tree, text)
        return Expression(text=text, node=node, location=where)

    def named(items: list[Any]) -> tuple[Named, ...]:
        return tuple(Named(name=name, expression=expression(item)) for name, item in items)

    rules = []
    for item in data["rules"]:
        message = item["message_expression"]
        changed = {
            "expression": expression(item["expression"]),
            "message_expression": expression(message) if message else None,
            "fix": tuple(item["fix"]),
            "links": tuple(item["links"]),
        }
        rules.append(Rule(**(item | changed)))
    return Policy(
        name=data["name"],
        title=data["title"],
        engine=data["engine"],
        file=file,
        versions=data["versions"],
        conditions=named(data["conditions"]),
        variables=named(data["variables"]),
        rules=tuple(rules),
    )
