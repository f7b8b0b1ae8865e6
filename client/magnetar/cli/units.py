"""Sizes and durations as people write and read them: `10G`, `3h`."""

import re
from collections.abc import Mapping
from typing import Final

_POWERS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
SIZE_UNITS: Final = _POWERS | {unit.upper(): size for unit, size in _POWERS.items()}
TIME_UNITS: Final = {
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86_400,
    "w": 7 * 86_400,
    "y": 365 * 86_400,
}
LONGEST: Final = (1 << 63) - 1

_NUMBER: Final = re.compile(r"(-?[0-9]{1,19})([a-zA-Z]?)")


def parse_size(text: str) -> int:
    """Parse a number of bytes, with or without suffix K, M, G or T; ValueError otherwise."""
    return _parse(text, SIZE_UNITS, "a number of bytes, such as 4096, 10M, 16G or 3T")


def parse_seconds(text: str) -> int:
    """Parse a number of seconds, with or without suffix s, m, h, d, w, y; ValueError otherwise."""
    return _parse(text, TIME_UNITS, "a time, such as 30 (seconds), 100m, 3h, 2d, 5w or 1y")


def parse_minutes(text: str) -> int:
    """Parse a number of minutes, or a duration as in `parse_seconds`; return whole minutes."""
    if text.lstrip("-").isdecimal():
        return _parse(text, {}, "a number of minutes, or a time such as 3h or 2d")
    return whole(parse_seconds(text), 60, text, "minutes")


def whole(amount: int, unit: int, text: str, units: str) -> int:
    """Return `amount` in whole units, rounded down; ValueError if that would turn it into 0."""
    if amount <= 0:
        return amount
    if amount < unit:  # promise[amount < unit -> amount < 0]: less than a unit is refused
        raise ValueError(f"{text} is too little: the broker keeps it in whole {units}")
    return amount // unit


def _parse(text: str, units: Mapping[str, int], expected: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match[2] and match[2] not in units):
        raise ValueError(f"{text!r} is not {expected}")
    number = int(match[1]) * units.get(match[2], 1)
    if abs(number) > LONGEST:
        raise ValueError(f"{text} is too large: expected at most {LONGEST}")
    return number


def size(amount: float) -> str:
    """Return a number of bytes for people: `1.5 MB`."""
    if amount < 0:
        return "-"
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"


def rate(amount: float, unit: str = "") -> str:
    """Return a rate per second for people."""
    return f"{amount:,.1f}{unit}/s"


def count(amount: float) -> str:
    """Return a number for people: `12,000`."""
    return f"{amount:,.0f}" if float(amount).is_integer() else f"{amount:,.2f}"
