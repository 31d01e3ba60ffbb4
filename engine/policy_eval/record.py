"""Frozen, slotted records, for what every start of the command needs.

They behave as dataclasses with ``frozen=True, slots=True`` do, but importing ``dataclasses`` and having it write
and compile half a dozen methods a class took a third of the time of ``policy-eval config.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class with annotated fields a record, built by keywords.

    Fields of its bases come first; defaults are shared, so they must never change; ``__post_init__`` is called.
    """
    return _made(cls, "*, ")


@dataclass_transform(frozen_default=True)
def value_record(cls: type[T]) -> type[T]:
    """As `record`, for small things that are built by position."""
    return _made(cls, "")


def _made(cls: type[T], marker: str) -> type[T]:
    own = list(cls.__annotations__)
    inherited: tuple[str, ...] = getattr(cls, "_fields", ())
    defaults = {
        **getattr(cls, "_defaults", {}),
        **{name: cls.__dict__[name] for name in own if name in cls.__dict__},
    }
    dropped = {*own, "__dict__", "__weakref__"}
    body = {name: part for name, part in cls.__dict__.items() if name not in dropped}
    body |= {
        "__slots__": tuple(own),
        "_fields": (*inherited, *own),
        "_defaults": defaults,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__reduce__": _reduce,
        "__match_args__": (),
    }
    for name, method in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _show)):
        if getattr(cls, name) is None or getattr(cls, name) is getattr(object, name):
            body[name] = method
    made: type[T] = type(cls.__name__, cls.__bases__, body)
    if "__init__" not in body:
        made.__init__ = _initializer(made, marker, defaults)  # type: ignore[method-assign]
    return made


def _initializer(cls: Any, marker: str, defaults: dict[str, Any]) -> Any:
    """``__init__`` as one would write it, setting slots directly: records are made by the hundred."""
    names: dict[str, Any] = {f"default_{name}": default for name, default in defaults.items()}
    names |= {f"set_{name}": getattr(cls, name).__set__ for name in cls._fields}
    taken = ", ".join(f"{name}=default_{name}" if name in defaults else name for name in cls._fields)
    lines = [f"    set_{name}(self, {name})" for name in cls._fields]
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec(
        f"def __init__(self, {marker if cls._fields else ''}{taken}):\n" + "\n".join(lines or ["    pass"]),
        names,
    )
    return names["__init__"]


def replace(item: T, **changes: Any) -> T:
    """A record like another but for some of its fields."""
    return type(item)(**{**{name: getattr(item, name) for name in fields(item)}, **changes})


def fields(item: Any) -> tuple[str, ...]:
    """The names of the fields of a record or of its class, in order."""
    found: tuple[str, ...] = item._fields
    return found


def _refuse(self: Any, name: str, *_value: Any) -> NoReturn:
    raise AttributeError(f"`{name}` of a {type(self).__name__} cannot be changed")


def _values(self: Any) -> Iterator[Any]:
    return (getattr(self, name) for name in self._fields)


def _equal(self: Any, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return tuple(_values(self)) == tuple(_values(other))


def _hash(self: Any) -> int:
    return hash((type(self), *_values(self)))


def _show(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
    return f"{type(self).__name__}({shown})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _build, (type(self), {name: getattr(self, name) for name in self._fields})


def _build(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)
