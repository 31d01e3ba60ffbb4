"""Checked policy files kept as data, so that an unchanged file is neither parsed nor checked again.

An entry is JSON (never code) and names what it was made from: the text of the file, the version of this package
and the config schema that its expressions were checked against; one made from anything else is not used. Entries
of the bundled files ship with the package; others live in the user's cache folder (XDG_CACHE_HOME), each
written whole under a name of its own and then renamed, so that writers and readers never meet half an entry. An
entry that is damaged is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from typing import Any
from zlib import crc32

from policy_eval import __version__
from policy_eval.cel import Node, from_data, to_data
from policy_eval.derive import Derivation, DerivationRule
from policy_eval.errors import Location, PolicyEvalError
from policy_eval.policy import Expression, Named, Policy, Rule
from policy_eval.record import fields
from policy_eval.releases import Releases
from policy_eval.resources import data_folder

# Raise it when the form of an entry or the meaning of a tree changes within a version.
_FORMAT = 2
_MAX_ENTRY = 16 * 1024 * 1024
_CLASSES = {
    kind.__name__: kind for kind in (Derivation, DerivationRule, Location, Named, Policy, Releases, Rule)
}

Kept = Derivation | Policy | Releases

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled.json")


def read(text: str, file: str) -> Kept | None:
    """What was kept of a policy file with this text, as if read from ``file``; None when nothing can be used."""
    name = _name(text)
    try:
        entry = _shipped().get(name) or _from_disk(name)
        # The name is a checksum: two texts may share it, so the entry holds the whole text it was made from.
        if entry["text"] != text or entry["context"] != _context():
            return None
        found = _decode(entry["found"], file)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, PolicyEvalError):
        return None
    return found if isinstance(found, Kept) else None


def write(text: str, found: Kept) -> None:
    """Keep what a policy file with this text holds. A folder that cannot be written is no error."""
    path = _path(_name(text))
    part = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    content = json.dumps(_entry(text, found), separators=(",", ":"))
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(part, "x", encoding="utf-8") as stream:
            stream.write(f"{crc32(content.encode())}\n{content}")
        os.replace(part, path)
    except OSError:
        return


def ship(files: Iterable[tuple[str, Kept]]) -> str:
    """The content of the file that ships with the package: an entry for each text and what it holds."""
    entries = {_name(text): _entry(text, found) for text, found in files}
    return json.dumps(entries, separators=(",", ":")) + "\n"


def _name(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}-{len(text)}"


def _entry(text: str, found: Kept) -> dict[str, Any]:
    return {"context": _context(), "text": text, "found": _encode(found)}


@cache
def _context() -> str:
    with open(os.path.join(data_folder("schemas"), "config.schema.json"), "rb") as file:
        schema = file.read()
    return f"{__version__} {_FORMAT} {crc32(schema)} {len(schema)}"


def _from_disk(name: str) -> Any:
    path = _path(name)
    if os.path.getsize(path) > _MAX_ENTRY:
        raise ValueError
    with open(path, encoding="utf-8") as stream:
        checksum, content = stream.readline().strip(), stream.read()
    if checksum != str(crc32(content.encode())):
        raise ValueError
    return json.loads(content)


def _path(name: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "policy-eval", f"{name}.json")


@cache
def _shipped() -> dict[str, Any]:
    try:
        with open(SHIPPED, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _encode(value: Any) -> Any:
    """Plain JSON data; ``[class, {field: value}]`` for our classes, ``["Expression", text, location, tree]``."""
    if isinstance(value, Expression):
        return ["Expression", value.text, _encode(value.location), to_data(value.node)]
    if type(value).__name__ in _CLASSES:
        # The file is where the entry is read, not where it was written.
        names = (name for name in fields(value) if name != "file")
        return [type(value).__name__, {name: _encode(getattr(value, name)) for name in names}]
    if isinstance(value, tuple):
        return ["tuple", [_encode(item) for item in value]]
    return ["data", value] if isinstance(value, (list, dict)) else value


def _decode(data: Any, file: str) -> Any:
    if not isinstance(data, list):
        return data
    kind, *parts = data
    if kind == "Expression":
        text, location, tree = parts
        node: Node = from_data(tree, text)
        return Expression(text=text, location=_decode(location, file), node=node)
    (content,) = parts
    if kind == "tuple":
        return tuple(_decode(item, file) for item in content)
    if kind == "data":
        return content
    given = {name: _decode(value, file) for name, value in content.items()}
    if kind == "Location":
        given["file"] = file
    return _CLASSES[kind](**given)
