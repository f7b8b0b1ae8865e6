"""The options of `.option(...)`: their declaration, and the conversion of given options to values.

`option_table` declares all options.  Names are case-insensitive; an unknown option is refused,
because a misspelled option must not be ignored.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Flag
from typing import Any

logger = logging.getLogger(__name__)

OF_SPARK = ("checkpointLocation", "queryName")
"""The options that Spark itself adds to those of a sink."""

MULTIPLES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "seconds": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
}


class Use(Flag):
    """The users of an option: source, sink or both."""

    READ = 1
    WRITE = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Option:
    """One option; its `parse` raises a ValueError that says what is expected."""

    name: str
    use: Use
    meaning: str
    """The meaning, for the documentation."""
    parse: Callable[[str], Any] = str
    default: Any = None
    """The default value, parsed."""
    aliases: tuple[str, ...] = ()
    is_secret: bool = False
    """Whether errors must not contain the value."""
    has_effect: bool = True
    """Whether the option is used; if not, it is accepted with a warning, to ease migration."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


def parse_options(given: Mapping[str, str], use: Use, table: Iterable[Option]) -> dict[str, Any]:
    """Return the value of every option for this use, by name; ValueError names a wrong option."""
    rows = list(table)
    known = {name.lower(): option for option in rows for name in option.names}
    of_spark = {name.lower() for name in OF_SPARK}
    values = {option.name: option.default for option in rows if option.use & use}
    spelled: dict[str, str] = {}
    for name, text in given.items():
        if name.lower() in of_spark:
            continue
        option = known.get(name.lower())
        if option is None:
            raise ValueError(_unknown(name, use, rows))
        if not option.use & use:
            verb = "reading" if use is Use.WRITE else "writing"
            raise ValueError(f"option {option.name!r} is for {verb} only: leave it out here")
        if option.name in spelled and given[spelled[option.name]] != text:
            raise ValueError(
                f"options {spelled[option.name]!r} and {name!r} are the same, and have different "
                "values: give one of them"
            )
        spelled[option.name] = name
        values[option.name] = _value(option, text)
    return values


def _value(option: Option, text: str) -> Any:
    if not option.has_effect:
        logger.warning("option %s has no effect: %s", option.name, option.meaning)
    try:
        return option.parse(text)
    except ValueError as error:
        shown = "" if option.is_secret else f" is {text!r}"
        raise ValueError(f"option {option.name!r}{shown}: {error}") from None


def _unknown(name: str, use: Use, rows: list[Option]) -> str:
    spellings = {one.lower(): one for row in rows if row.use & use for one in row.names}
    near = get_close_matches(name.lower(), spellings, n=1, cutoff=0.0)
    return f"option {name!r} is unknown: did you mean {spellings[near[0]]!r}?"


# -- parsers of values


def flag(text: str) -> bool:
    """Parse "true" or "false"."""
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise ValueError("expected true or false")
    return found


def whole(least: int = 0) -> Callable[[str], int]:
    """Return a parser of integers of at least `least`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"expected a whole number of at least {least}")
        return number

    return parse


def size(text: str) -> int:
    """Parse a number of bytes, such as 1048576, 64k, 32m or 1g."""
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = digits[-1:] if digits[-1:] in MULTIPLES else ""
    number = digits.removesuffix(unit).strip()
    if not number.isdecimal() or int(number) == 0:
        raise ValueError("expected a number of bytes, such as 1048576, 64k, 32m or 1g")
    return int(number) * MULTIPLES[unit]


def duration_ms(text: str) -> int:
    """Parse a duration as 500ms, 10s, 5m, 1h or "2 minutes"; plain numbers are milliseconds."""
    trimmed = text.strip().lower()
    number = trimmed.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = trimmed.removeprefix(number).strip() or "ms"
    if not number.isdecimal() or unit not in UNITS_MS:
        raise ValueError("expected a duration, such as 500ms, 10s, 5m or 1h")
    return int(number) * UNITS_MS[unit]


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts these words in any case."""

    def parse(text: str) -> str:
        for word in words:
            if word.lower() == text.strip().lower():
                return word
        raise ValueError(f"expected {', '.join(words[:-1])} or {words[-1]}")

    return parse


def text(given: str) -> str:
    """Return the text; ValueError if it is empty."""
    if not given.strip():
        raise ValueError("expected a text that is not empty")
    return given.strip()


def names(given: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    found = tuple(name.strip() for name in given.split(",") if name.strip())
    if not found:
        raise ValueError("expected names, separated by commas")
    return found
