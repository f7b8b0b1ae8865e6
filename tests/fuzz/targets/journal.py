"""Journal files that are not what was written: recovery refuses, or gives back what was.

Input: flags (1: set checksums right; the others: which directory), then the contents of the journal
files, oldest first.
"""

from collections.abc import Iterator
from typing import Final

from fuzz.directories import (
    ALL_IN_JOURNAL,
    BETWEEN,
    SMALL,
    base,
    check,
    replaced,
    with_rounds,
)

LONGEST: Final = 4096
BASES: Final = (
    base(SMALL, tidy=False),
    base(ALL_IN_JOURNAL, tidy=False),
    base(SMALL, tidy=False, turns=14),
)
PADDING: Final = bytes(64)
"""Files are preallocated: zeros follow the last round."""


def run(data: bytes) -> None:
    flags, contents = (data[0] if data else 0), data[1:].split(BETWEEN)
    forged = bool(flags & 1)
    if forged:
        contents = [with_rounds(content) for content in contents]
    of = BASES[(flags >> 1) % len(BASES)]
    disk = replaced(of, of.files("journal/"), [content + PADDING for content in contents])
    check(of, disk, forged)


def seeds() -> Iterator[bytes]:
    for number, of in enumerate(BASES):
        contents = of.contents(of.files("journal/"))
        for forged in (0, 1):
            flags = bytes([number << 1 | forged])
            yield flags + contents
            yield flags + contents[: len(contents) * 2 // 3]
