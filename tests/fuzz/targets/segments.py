"""Segment files that differ from what was written: their readable parts are read.

Input: flags (1: set checksums right; 2: of a store that was closed, else of one that was killed),
then the contents of the segment files.
"""

from collections.abc import Iterator
from typing import Final

from fuzz.directories import (
    BETWEEN,
    MOST_FORGED,
    SMALL,
    base,
    check,
    replaced,
    summed,
    with_records,
)
from magnetar_storage.local.footer import TRAILER, TRAILER_BYTES
from magnetar_storage.local.segment_file import RECORDS_AT

LONGEST: Final = 2048
BASES: Final = (base(SMALL, tidy=False), base(SMALL, tidy=True))


def run(data: bytes) -> None:
    flags, contents = (data[0] if data else 0), data[1:].split(BETWEEN)
    forged = bool(flags & 1)
    if forged:
        contents = [with_checksums(content) for content in contents]
    of = BASES[flags >> 1 & 1]
    check(of, replaced(of, of.files("segments/"), contents), forged)


def with_checksums(data: bytes) -> bytes:
    """Return a segment file with correct checksums in head, records and trailer."""
    data = summed(data, RECORDS_AT - 4, 0, RECORDS_AT - 4)
    data = with_records(data, RECORDS_AT)
    if len(data) < TRAILER_BYTES:
        return data
    _, _, _, *numbers = TRAILER.unpack_from(data, len(data) - TRAILER_BYTES)
    if max(numbers) >= MOST_FORGED:
        return data
    return summed(data, len(data) - 4, len(data) - TRAILER_BYTES, len(data) - 4)


def seeds() -> Iterator[bytes]:
    for number, of in enumerate(BASES):
        names = of.files("segments/")
        contents = [of.disk.content(name) for name in names]
        for forged in (0, 1):
            yield bytes([number << 1 | forged]) + BETWEEN.join(contents)
            yield bytes([number << 1 | forged]) + contents[0][:-20]
