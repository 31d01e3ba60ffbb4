"""What generated code calls where a plain Python operation would not mean what CEL means.

Each helper decides the common case and raises `Undecided` for all others: the walker then decides. The bounds
on sizes keep the cheap cases cheap: what costs no steps here costs none in the walker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from policy_eval.cel.dispatch import call
from policy_eval.cel.errors import EvaluationError, LimitExceeded, Undecided
from policy_eval.cel.values import EXACT, plain_member


class Stop(Exception):
    """The evaluation may take too many steps: only the walker counts them exactly."""


UNDECIDED = Undecided  # the class: one instance for all would keep every traceback
FAILS = (KeyError, IndexError, TypeError, EvaluationError, Undecided)

_LOW, _HIGH = -(2**63), 2**63 - 1
_SHORT = 200
_FEW = 20
_LONG = 1000
_HUGE = 20_000
_NUMBERS = frozenset({int, float})
_PLAIN = frozenset({type(None), bool, int, float, str})
_SIZED = frozenset({str, list, dict})


def misspelt() -> Any:
    """A field is absent, but there are keys that no field has: it may be misspelt."""
    raise UNDECIDED


def absent(known: frozenset[str], record: Any) -> None:
    """Null, the default of an absent field, once it is sure that no key beside it is misspelt."""
    if type(record) is not dict or not known.issuperset(record):
        raise UNDECIDED


def equal(left: Any, right: Any) -> bool:
    """``==`` of null, booleans, numbers and strings."""
    one, other = type(left), type(right)
    if one not in _PLAIN or other not in _PLAIN:
        raise UNDECIDED
    if one is str and other is str and len(left) >= _HUGE:
        raise UNDECIDED
    if one is other:
        return left == right  # type: ignore[no-any-return]
    if one in _NUMBERS and other in _NUMBERS:
        _exact(left, right)
        return left == right  # type: ignore[no-any-return]
    return False


def ordered(left: Any, right: Any) -> None:
    """Make sure that Python's order of two values is CEL's."""
    one, other = type(left), type(right)
    if one in _NUMBERS and other in _NUMBERS:
        if one is not other:
            _exact(left, right)
    elif one is not str or other is not str:
        raise UNDECIDED


def _exact(left: Any, right: Any) -> None:
    """Make sure that an int and a double compare in CEL as in Python: CEL rounds the int to a double first."""
    if abs(left) > EXACT and abs(right) > EXACT:
        raise UNDECIDED


def size(value: Any) -> int:
    """``size(value)``."""
    if type(value) in _SIZED:
        return len(value)
    raise UNDECIDED


def contains(left: Any, right: Any) -> bool:
    """``left in right``."""
    kind = type(right)
    if type(left) is str and (kind is dict or (kind is list and len(right) < _LONG)):
        return left in right
    if kind is list and len(right) < _LONG:
        told = plain_member(left, right)
        if told is not None:
            return told
        if len(right) < _FEW:
            return any(equal(left, item) for item in right)
    raise UNDECIDED


def index(of: Any, at: Any) -> Any:
    """``of[at]``."""
    if type(at) is str and type(of) is dict:
        return of[at]
    if type(at) is int and type(of) is list and at >= 0:
        return of[at]
    raise UNDECIDED


def pairs(of: Any) -> Iterable[tuple[Any, Any]]:
    """The (index, element) or (key, value) pairs that a macro with two variables goes through."""
    if type(of) is list:
        return enumerate(of)
    if type(of) is dict:
        return of.items()
    raise UNDECIDED


def add(left: Any, right: Any) -> Any:
    """``left + right``."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            found = left + right
            if _LOW <= found <= _HIGH:
                return found
        elif kind is float or (kind is str and len(left) + len(right) < _SHORT):
            return left + right
    raise UNDECIDED


def subtract(left: Any, right: Any) -> Any:
    """``left - right``."""
    if type(left) is int and type(right) is int:
        return _fits(left - right)
    if type(left) is float and type(right) is float:
        return left - right
    raise UNDECIDED


def multiply(left: Any, right: Any) -> Any:
    """``left * right``."""
    if type(left) is int and type(right) is int:
        return _fits(left * right)
    if type(left) is float and type(right) is float:
        return left * right
    raise UNDECIDED


def divide(left: Any, right: Any) -> Any:
    """``left / right``: integers towards zero."""
    if type(left) is int and type(right) is int and right:
        found = abs(left) // abs(right)
        return _fits(found if (left < 0) == (right < 0) else -found)
    raise UNDECIDED


def modulo(left: Any, right: Any) -> Any:
    """``left % right``: with the sign of ``left``."""
    if type(left) is int and type(right) is int and right and left > _LOW:
        found = abs(left) % abs(right)
        return -found if left < 0 else found
    raise UNDECIDED


def negate(of: Any) -> Any:
    """``-of``."""
    if type(of) is int:
        return _fits(-of)
    if type(of) is float:
        return -of
    raise UNDECIDED


def _fits(value: int) -> int:
    if _LOW <= value <= _HIGH:
        return value
    raise UNDECIDED


def apply(function: str, member: bool, *args: Any) -> Any:
    """A call of any function."""
    for arg in args:
        kind = type(arg)
        if kind not in _PLAIN or (kind is str and len(arg) >= _LONG):
            raise UNDECIDED
    try:
        if function == "matches" and _search_costs(args):
            raise UNDECIDED
        found = call(function, member, list(args))
    except LimitExceeded:
        raise Stop from None
    if type(found) in (str, bytes, list, dict) and len(found) >= _SHORT:
        raise UNDECIDED
    return found


def _search_costs(args: tuple[Any, ...]) -> bool:
    """Whether the walker charges for a search."""
    from policy_eval.cel.functions.standard import search_steps

    return len(args) == 2 and type(args[0]) is type(args[1]) is str and search_steps(*args) > 0


NAMES: dict[str, Any] = {
    "absent": absent,
    "add": add,
    "apply": apply,
    "contains": contains,
    "divide": divide,
    "equal": equal,
    "index": index,
    "misspelt": misspelt,
    "modulo": modulo,
    "multiply": multiply,
    "negate": negate,
    "ordered": ordered,
    "pairs": pairs,
    "size": size,
    "subtract": subtract,
    "FAILS": FAILS,
    "Stop": Stop,
    "UNDECIDED": UNDECIDED,
}
