"""Reads and writes durations, sizes and times as people write them: "50ms", "10min", "1MiB", "90d",
"2026-11-15T07:48:43.446Z".

The configuration and the commands read settings with it, and say them again with it; logs and answers write times
with it. Text in, numbers out: nothing here asks for the time. It calculates with Decimal, so that a number that is
written and read again is the same.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal

SECONDS_PER = {
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "m": Decimal(60),
    "h": Decimal(3600),
}
BYTES_PER = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
LIFETIME_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
LONGEST = 365 * 24 * 3600.0  # a longer duration is a typo, and timers would overflow

DURATION_HINT = 'a duration such as "50ms", "2s" or "10min"'
LIFETIME_HINT = "a number and min, h, d, w or y, such as 90d"
SIZE_HINT = 'a size such as "64KiB", "1MiB", "2GB", or a number of bytes'

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)\s*")
_LIFETIME = re.compile(r"\s*([1-9][0-9]{0,5})\s*(min|h|d|w|y)\s*")
_BYTES_PER_FOLDED = {unit.lower(): factor for unit, factor in BYTES_PER.items()}


class MissingUnit(ValueError):
    """A duration without a unit. The message says how to write the two that may be meant."""

    def __init__(self, number: str) -> None:
        super().__init__(f"{number} has no unit: write {number}ms or {number}s")


def _quantity(text: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return Decimal(match[1]), match[2]


def parse_duration(value: object) -> float:
    """Returns seconds. Raises ValueError for anything that is not a duration, and MissingUnit for a number without
    a unit, other than 0."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    if not isinstance(value, str):
        raise ValueError(value)
    number, unit = _quantity(value)
    if not unit and number:
        raise MissingUnit(value.strip())
    if unit and unit not in SECONDS_PER:
        raise ValueError(value)
    seconds = float(number * SECONDS_PER[unit or "s"])
    if seconds > LONGEST:
        raise ValueError(value)
    return seconds


def parse_lifetime(text: str) -> float:
    """Returns seconds, given a span in days or years such as the lifetime of an API key. Raises ValueError."""
    match = _LIFETIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(int(match[1]) * LIFETIME_SECONDS[match[2]])


def parse_size(value: object) -> int:
    """Returns bytes. Raises ValueError for anything that is not a whole number of them."""
    if isinstance(value, str):
        number, unit = _quantity(value)
        size = number * _BYTES_PER_FOLDED.get((unit or "B").lower(), Decimal("NaN"))
        if size.is_nan() or size != size.to_integral_value():
            raise ValueError(value)
        return int(size)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(value)


def write_duration(seconds: float) -> str:
    """Writes a duration in the unit that a person would choose. `parse_duration` reads back the same number.

    Minutes and hours are used only for whole numbers of them: 90s reads better than 1.5min.
    """
    exact = Decimal(repr(seconds))
    for unit in ("h", "min"):
        if exact and exact % SECONDS_PER[unit] == 0:
            return _plain(exact / SECONDS_PER[unit]) + unit
    unit = next((unit for unit in ("s", "ms") if exact >= SECONDS_PER[unit]), "us") if exact else "s"
    return _plain(exact / SECONDS_PER[unit]) + unit


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def write_size(size: int) -> str:
    """Writes a size in the largest unit that divides it, units of 1024 before units of 1000."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"):
        if size and size % BYTES_PER[unit] == 0:
            return f"{size // BYTES_PER[unit]}{unit}"
    return f"{size}B"


def iso_time(when: float, timespec: str = "milliseconds") -> str:
    """Writes seconds since the epoch as ISO 8601 in UTC, with a Z."""
    return datetime.fromtimestamp(when, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
