"""Java's properties syntax, as far as configuration files use it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEY = re.compile(r"(?:\\.|[^\\=:\s])*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A `key=value` of a file with its line number, from 1; a blank value is ''."""

    line: int
    key: str
    value: str
    is_assigned: bool = True
    """Whether `=` or `:` separates the two, and not blanks or nothing."""


def parse(text: str) -> Iterator[Property]:
    """Yield every property in order, repeated keys included; the caller decides which one wins.

    `=`, `:` or blanks end a key; `#` and `!` begin comments; a backslash at the end of a
    line continues it; blanks around keys and values do not count.
    """
    for line, logical in _logical_lines(text):
        key = _KEY.match(logical)
        assert key is not None  # the pattern matches the empty string, too
        value = logical[key.end() :].lstrip()
        is_assigned = value.startswith(("=", ":"))
        if is_assigned:
            value = value[1:].lstrip()
        yield Property(line, _unescape(key[0]), _unescape(value.rstrip()), is_assigned)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with the number of their first part; comments and blank lines are left out."""
    begun, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not parts:
            if not line or line[0] in "#!":
                continue
            begun = number
        if _continues(line):
            parts.append(line[:-1])
            continue
        yield begun, "".join([*parts, line])
        parts.clear()
    if parts:
        yield begun, "".join(parts)


def _continues(line: str) -> bool:
    """Return whether an odd number of backslashes ends the line (an even number is text)."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _LETTERS.get(escaped, escaped)
