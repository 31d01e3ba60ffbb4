"""Timestamps and durations: reading and writing them, and the getters with time zones.

Own arithmetic on nanoseconds, because Python's `datetime` stops at microseconds and at the last day of year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import method
from policy_eval.cel.types import DURATION, INT, STRING, TIMESTAMP, Overload
from policy_eval.cel.values import SECOND, TIME_MAX, TIME_MIN, Duration, Timestamp

if TYPE_CHECKING:
    from datetime import tzinfo

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,40}))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_PART: Final = re.compile(r"([0-9]{0,40})(?:(\.)([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)")
_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DAY: Final = 86_400
_EARLY: Final = TIME_MIN // SECOND + 2 * _DAY
_LATE: Final = TIME_MAX // SECOND - 2 * _DAY
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _show(text: str) -> str:
    return f"`{text[:40]}…`" if len(text) > 40 else f"`{text}`"


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339: ``2009-02-13T23:31:30Z``. Raises `EvaluationError`."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise EvaluationError(f"{_show(text)} is not a timestamp such as `2009-02-13T23:31:30Z`")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    possible = 1 <= month <= 12 and 1 <= day <= _MONTHS[month - 1] + (month == 2 and leap)
    offset = int(offset_hours or 0) * 60 + int(offset_minutes or 0)
    if (
        not possible
        or hour > 23
        or minute > 59
        or second > 59
        or offset > 1439
        or int(offset_minutes or 0) > 59
    ):
        raise EvaluationError(f"{_show(text)} is not a possible time")
    seconds = _days(year, month, day) * _DAY + hour * 3600 + minute * 60 + second
    seconds -= offset * 60 * (-1 if sign == "-" else 1)
    return Timestamp(seconds * SECOND + int((fraction or "")[:9].ljust(9, "0")))


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 in UTC, with as many digits of the second as are not zero."""
    seconds, nanoseconds = divmod(value.nanoseconds, SECOND)
    days, rest = divmod(seconds, _DAY)
    year, month, day = _date(days)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{_fraction(nanoseconds)}Z"


def parse_duration(text: str) -> Duration:
    """Numbers with units, as Go reads them: ``1h30m``, ``-1.5s``, ``100ms``. Raises `EvaluationError`."""
    at = 1 if text[:1] in ("+", "-") else 0
    if text[at:] == "0":
        return Duration(0)
    if at == len(text) or len(text) > 1_000:
        raise EvaluationError(f"{_show(text)} is not a duration such as `1h30m` or `1.5s`")
    total = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or not (part[1] or part[3]):
            raise EvaluationError(f"{_show(text)} is not a duration such as `1h30m` or `1.5s`")
        unit = _UNITS[part[4]]
        fraction = part[3] or ""
        total += int(part[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        at = part.end()
    return Duration(-total if text[0] == "-" else total)


def duration_text(value: Duration) -> str:
    """Seconds: ``5400s``, ``-1.5s``."""
    seconds, nanoseconds = divmod(abs(value.nanoseconds), SECOND)
    return f"{'-' if value.nanoseconds < 0 else ''}{seconds}{_fraction(nanoseconds)}s"


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar, whose years begin in March here."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """The inverse of `_days`."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return era * 400 + year_of_era + (month <= 2), month, day


# --- getters ------------------------------------------------------------------------------------------------


def _offset(at: Timestamp, zone: str) -> int:
    """How many seconds a zone is ahead of UTC: ``+01:30``, ``-08:00``, ``02:00`` or a name as ``Europe/Berlin``."""
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        hours, minutes = int(match[2]), int(match[3])
        if hours > 23 or minutes > 59:
            raise EvaluationError(f"{_show(zone)} is not a time zone")
        return (hours * 3600 + minutes * 60) * (-1 if match[1] == "-" else 1)
    from datetime import UTC, datetime, timedelta

    # Python's `datetime` cannot leave the years 1 to 9999, not even by the offset of a zone.
    seconds = min(max(at.nanoseconds // SECOND, _EARLY), _LATE)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    offset = moment.astimezone(_zone(zone)).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    # These mean the machine's own zone, and then the same expression would have a different value elsewhere.
    if len(name) < 100 and name.lower() not in ("", "local", "localtime", "posixrules"):
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            pass
    raise EvaluationError(f"{_show(name)} is not a time zone such as `Europe/Berlin` or `+01:00`")


Getter = Callable[[int, int], int]

# From the days since 1970 and the second of the day, in the zone. Months and days count from zero, as the
# specification has it, but for ``getDate``; weeks begin on Sunday, and 1970 began on a Thursday.
_GETTERS: Final[dict[str, Getter]] = {
    "getFullYear": lambda days, second: _date(days)[0],
    "getMonth": lambda days, second: _date(days)[1] - 1,
    "getDayOfMonth": lambda days, second: _date(days)[2] - 1,
    "getDate": lambda days, second: _date(days)[2],
    "getDayOfWeek": lambda days, second: (days + 4) % 7,
    "getDayOfYear": lambda days, second: days - _days(_date(days)[0], 1, 1),
    "getHours": lambda days, second: second // 3600,
    "getMinutes": lambda days, second: second % 3600 // 60,
    "getSeconds": lambda days, second: second % 60,
}


def _getter(get: Getter) -> Callable[..., int]:
    def call(at: Timestamp, zone: str = "+00:00") -> int:
        return get(*divmod(at.nanoseconds // SECOND + _offset(at, zone), _DAY))

    return call


def _milliseconds(at: Timestamp, zone: str = "+00:00") -> int:
    _offset(at, zone)
    return at.nanoseconds % SECOND // 1_000_000


def _total(unit: int) -> Callable[[Duration], int]:
    """The whole units of a duration, towards zero."""

    def call(of: Duration) -> int:
        found = abs(of.nanoseconds) // unit
        return -found if of.nanoseconds < 0 else found

    return call


def _duration_milliseconds(of: Duration) -> int:
    found = abs(of.nanoseconds) % SECOND // 1_000_000
    return -found if of.nanoseconds < 0 else found


LIBRARY: Final[tuple[Overload, ...]] = (
    *(method(name, (TIMESTAMP,), INT, _getter(get)) for name, get in _GETTERS.items()),
    *(method(name, (TIMESTAMP, STRING), INT, _getter(get)) for name, get in _GETTERS.items()),
    method("getMilliseconds", (TIMESTAMP,), INT, _milliseconds),
    method("getMilliseconds", (TIMESTAMP, STRING), INT, _milliseconds),
    method("getHours", (DURATION,), INT, _total(3600 * SECOND)),
    method("getMinutes", (DURATION,), INT, _total(60 * SECOND)),
    method("getSeconds", (DURATION,), INT, _total(SECOND)),
    method("getMilliseconds", (DURATION,), INT, _duration_milliseconds),
)
