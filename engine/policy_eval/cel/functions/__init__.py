"""The functions of CEL: the standard library and the extensions, one file a library.

`by_name` gives every form of every function by name. To add a function, write it in the file of its library and list
its forms in that file's ``LIBRARY``; checker and evaluators take it from there. Nothing is imported before
an expression calls a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from policy_eval.cel.types import Overload

_LIBRARIES = [
    "standard",
    "conversions",
    "times",
    "strings",
    "format",
    "math",
    "encoders",
    "lists",
    "optionals",
]


@cache
def by_name() -> Mapping[str, tuple[Overload, ...]]:
    """The forms of every function, by its name."""
    found: dict[str, tuple[Overload, ...]] = {}
    for name in _LIBRARIES:
        library: Iterable[Overload] = import_module(f"{__name__}.{name}").LIBRARY
        for overload in library:
            found[overload.name] = (*found.get(overload.name, ()), overload)
    return MappingProxyType(found)
