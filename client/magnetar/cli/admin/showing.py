"""Answers as text for people: lists, tables, and names with their values."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

Cell = str | int | float | bool | None

GAP: Final = "  "
UNSET: Final = "not set"

_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*( [KMGT]?B)?(/s)?")


def lines_of(value: Any) -> Iterator[str]:
    """Yield the lines of any JSON value: one for each item of a list or member of an object."""
    if isinstance(value, Mapping):
        yield from members(value)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        yield from _rows(value, ())
    elif isinstance(value, list):
        yield from (plain(one) for one in value)
    elif value is not None:
        yield plain(value)


def policy_lines(value: Any) -> Iterator[str]:
    """Yield the lines that show the value of a policy."""
    if value is None or value in ({}, []):
        yield UNSET
    else:
        yield from lines_of(value)


def members(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield names and values in two columns; members of nested objects have dotted names."""
    found = list(_flat(value))
    width = max((len(name) for name, _ in found), default=0)
    for name, one in found:
        text = moment(one) if _is_time(name, one) else plain(one)
        yield f"{name:<{width}}{GAP}{text}".rstrip()


def _is_time(name: str, value: Any) -> bool:
    """Tell whether a value is a time in milliseconds since the epoch; 0 and less mean not set."""
    return type(value) is int and value > 0 and name.lower().endswith(("timestamp", "generatedat"))


def moment(milliseconds: int) -> str:
    """Return a time since the epoch as text; beyond the calendar, as a number."""
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in value.items():
        if isinstance(one, Mapping) and one:
            yield from _flat(one, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", one


def plain(value: Any) -> str:
    """Return a value as text on one line."""
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and not any(isinstance(one, list | Mapping) for one in value):
        return ", ".join(plain(one) for one in value)
    if isinstance(value, list | Mapping):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield a table with titles; columns of numbers are aligned at the right."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    right = [
        all(_NUMBER.fullmatch(row[index]) or row[index] == "-" for row in cells)
        for index in range(len(titles))
    ]
    for row in ([title.upper() for title in titles], *cells):
        texts = (
            text.rjust(width) if at_right else text.ljust(width)
            for text, width, at_right in zip(row, widths, right, strict=True)
        )
        yield GAP.join(texts).rstrip()


def rows(value: Mapping[str, Mapping[str, Any]], columns: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table: one row for each member, its name first.

    Empty `columns` means all.
    """
    yield from _rows([{"name": name, **one} for name, one in value.items()], columns, "name")


def _rows(found: list[Any], columns: Sequence[str], *first: str) -> Iterator[str]:
    columns = columns or list(dict.fromkeys(name for one in found for name in one))
    titles = [*first, *(name for name in columns if name not in first)]
    yield from table(titles, ([row.get(name) for name in titles] for row in found))


def with_tables(value: Mapping[str, Any], **columns: Sequence[str]) -> Iterator[str]:
    """Yield names and values, and below them a table for each named member that has rows.

    A table has the columns that are given for it, or all.
    """
    yield from members({name: one for name, one in value.items() if name not in columns})
    for name, chosen in columns.items():
        found = value.get(name)
        if not found:
            continue
        lines = rows(found, chosen) if isinstance(found, Mapping) else _rows(found, chosen)
        yield ""
        yield name
        yield from (f"  {line}" for line in lines)
