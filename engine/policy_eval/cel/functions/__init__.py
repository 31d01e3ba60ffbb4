"""The functions of CEL: the standard library and the extensions, one file a library.

`OVERLOADS` has every form of every function by name. To add a function, write it in the file of its library and list
its forms in that file's ``LIBRARY``; checker and evaluators take it from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from policy_eval.cel.functions import conversions, encoders, lists, math, optionals, standard, strings, times
from policy_eval.cel.functions import format as formatting
from policy_eval.cel.types import Overload


def _by_name(*libraries: Iterable[Overload]) -> Mapping[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for overload in library:
            found[overload.name] = (*found.get(overload.name, ()), overload)
    return MappingProxyType(found)


OVERLOADS: Final[Mapping[str, tuple[Overload, ...]]] = _by_name(
    standard.LIBRARY,
    conversions.LIBRARY,
    times.LIBRARY,
    strings.LIBRARY,
    formatting.LIBRARY,
    math.LIBRARY,
    encoders.LIBRARY,
    lists.LIBRARY,
    optionals.LIBRARY,
)
