"""Checkpoints, the FORMAT file and file names that no store wrote: refused, or read correctly.

Input: flags (1: set checksums right; 2: of a store that was closed), then FORMAT, then the newest
checkpoint, then names and contents of further files, in turn.
"""

from collections.abc import Iterator
from typing import Final

from fuzz.directories import BETWEEN, MOST_FORGED, SMALL, base, check, replaced, summed
from magnetar_storage.local.checkpoint import FILE, HEADER, HEADER_1, ROW
from magnetar_storage.local.segment_file import RECORDS_AT

LONGEST: Final = 1024
BASES: Final = (base(SMALL, tidy=False), base(SMALL, tidy=True))
DIRECTORIES: Final = ("journal", "segments", "")


def run(data: bytes) -> None:
    flags, parts = (data[0] if data else 0), data[1:].split(BETWEEN)
    of = BASES[flags >> 1 & 1]
    forged = bool(flags & 1)
    if forged and len(parts) > 1 and is_possible(parts[1]):
        parts[1] = summed(parts[1], len(parts[1]) - 4, 0, len(parts[1]) - 4)
    names = ["FORMAT", of.files("checkpoint-")[-1], *map(path, parts[2::2])]
    check(of, replaced(of, names, parts[:2] + parts[3::2]), forged)


def is_possible(checkpoint: bytes) -> bool:
    """Tell whether a store could reach numbers like these."""
    is_first = checkpoint[8:12] == (1).to_bytes(4, "little")
    header = HEADER_1 if is_first else HEADER
    if len(checkpoint) < header.size + 4:
        return True
    head = header.unpack_from(checkpoint)
    table = checkpoint[header.size : -4]
    whole = len(table) // ROW.size * ROW.size
    end = whole if is_first else min(head[8] * ROW.size, whole)
    rows = list(ROW.iter_unpack(table[:end]))
    files = table[end:] if not is_first else b""
    sizes = FILE.iter_unpack(files[: len(files) // FILE.size * FILE.size])
    numbers = (number for number in head[3:] if isinstance(number, int))
    return all(row[4] == 0 or row[4] >= RECORDS_AT for row in rows) and all(
        max(row) < MOST_FORGED for row in (tuple(numbers), *rows, *sizes)
    )


def path(name: bytes) -> str:
    """Return the path of a file that could be in the directory."""
    directory = DIRECTORIES[name[0] % len(DIRECTORIES)] if name else "segments"
    text = name[1:].decode("utf-8", "replace").replace("/", "").replace("\0", "")
    return f"{directory}/{text or '_'}".lstrip("/")


def seeds() -> Iterator[bytes]:
    for number, of in enumerate(BASES):
        newest = of.disk.content(of.files("checkpoint-")[-1])
        usual = [of.disk.content("FORMAT"), newest]
        for forged in (0, 1):
            flags = bytes([number << 1 | forged])
            yield flags + BETWEEN.join(usual)
            for name in (
                b"\x0000000000000000ff.wal", b"\x0000000000000000zz.wal",
                b"\x0100000000000000ff.seg", b"\x01-00000000000000f.seg",
                b"\x02checkpoint-00000000000000ff", b"\x02checkpoint-zz000000000000zz",
                b"\x02checkpoint-00000000000000ff.tmp",
            ):  # fmt: skip
                yield flags + BETWEEN.join([*usual, name, newest])
