"""A commit round, and the head of a journal file (docs/formats.md, "Journal"). Pure."""

from array import array
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from magnetar_storage.local.file_names import number_in
from magnetar_storage.local.record import HEADER, TABLE_BYTES_PER_ENTRY, from_bytes, to_bytes

FILE_MAGIC = b"MAGNJRNL"
FILE_VERSION = 3
FILE_VERSIONS = (2, FILE_VERSION)
"""The versions that this release reads; version 2 has no mark."""
FILE_HEADER = Struct("<8sIIQQQQ")
"""magic, version, mark, file number, salt, first round, where the file before ends."""

CRC = Struct("<I")
FIRST_ROUND_AT = FILE_HEADER.size + CRC.size

ROUND_MAGIC = b"MRND"
ROUND_HEADER = Struct("<4sIQIIQ")
"""magic, crc32c of the rest and the directory, number, records, zero, bytes of all records."""

CLEAN_END = bytes(ROUND_HEADER.size)
"""Written after the last round, since in a reused file old bytes follow."""

SUMMED_FROM = 8
DIRECTORY_BYTES_PER_RECORD = 20


class FileHead(NamedTuple):
    """The head of a journal file."""

    file: int
    salt: int
    first_round: int
    previous_end: int
    """The offset of the END round in the previous file; 0 if there is no previous file."""
    mark: int = 0
    """`mark_of` the data directory; 0 if it is not known."""


class RoundEntry(NamedTuple):
    """One line of a round's directory: the segment of a record, its entries, its place."""

    segment: int
    n: int
    at: int
    size: int
    crc: int
    """The checksum at the beginning of the record, which distinguishes it from an older one there.
    """


class Round(NamedTuple):
    """An intact round header with its directory."""

    number: int
    at: int
    end: int
    places: list[RoundEntry]

    @property
    def ends_file(self) -> bool:
        return not self.places


def file_name(file: int) -> str:
    return f"journal/{file:016x}.wal"


def spare_name(file: int) -> str:
    """Return the name of a file that held rounds and will be reused."""
    return f"journal/{file:016x}.spare"


def file_number(name: str) -> int | None:
    """Return the number in a journal file's name (without directory); None for other files."""
    return number_in(name, suffix=".wal")


def mark_of(directory: bytes) -> int:
    """Return the mark of a data directory: the first four bytes of its id."""
    return int.from_bytes(directory[:4], "little")


def encode_file_head(head: FileHead) -> bytes:
    *fields, mark = head
    packed = FILE_HEADER.pack(FILE_MAGIC, FILE_VERSION, mark, *fields)
    # This checksum is the seed of all rounds of the file: a round that an earlier use of the file
    # left does not check out.
    return packed + CRC.pack(crc32c(packed))


def decode_file_head(data: bytes) -> FileHead | None:
    """Decode the head of a journal file; None unless it is intact."""
    if len(data) < FIRST_ROUND_AT:
        return None
    magic, version, mark, *fields = FILE_HEADER.unpack_from(data)
    if magic != FILE_MAGIC or version not in FILE_VERSIONS:
        return None
    if CRC.unpack_from(data, FILE_HEADER.size)[0] != crc32c(data[: FILE_HEADER.size]):
        return None
    return FileHead(*fields)._replace(mark=mark)


def seeds(data: bytes) -> list[int]:
    """Return the possible seeds of the rounds: the head's checksum, as stored and as calculated.

    They differ only if the head is damaged; one of them is right if only one place is.
    """
    if len(data) < FIRST_ROUND_AT:
        return []
    # In a set: usually they are equal, and a scan for each would take twice the time.
    return list({CRC.unpack_from(data, FILE_HEADER.size)[0], crc32c(data[: FILE_HEADER.size])})


def encode_round(
    number: int,
    seed: int,
    sizes: Sequence[int],
    segments: Sequence[int],
    ns: Sequence[int],
    crcs: Sequence[bytes],
) -> bytes:
    """Encode the header and the directory of a round; without records it is the END round.

    `crcs` are the records' own checksums, the first four bytes of each.  They come before the
    segments: after them they would cancel out, as any checksum does right after what it sums.
    """
    # As columns: each is converted by one call, however many records there are.
    tables = array("Q", segments), array("I", sizes), array("I", ns)
    directory = b"".join((*crcs, *map(to_bytes, tables)))
    # With zero in the place of the checksum, which covers what follows it.
    packed = ROUND_HEADER.pack(ROUND_MAGIC, 0, number, len(sizes), 0, sum(sizes))
    crc = crc32c(directory, crc32c(packed[SUMMED_FROM:], seed))
    return b"".join((packed[:4], CRC.pack(crc), packed[SUMMED_FROM:], directory))


def round_at(data: bytes, at: int, seed: int) -> Round | None:
    """Return the round at an offset; None unless header and directory are intact.

    The records may be damaged, but must be large enough for their entries, and fill the round.
    """
    if at + ROUND_HEADER.size > len(data):
        return None
    magic, crc, number, records, zero, record_bytes = ROUND_HEADER.unpack_from(data, at)
    start = at + ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD * records
    end = start + record_bytes
    # Before the checksum: a wrong number of records could claim the whole file.
    if magic != ROUND_MAGIC or zero or end > len(data):
        return None
    if crc32c(memoryview(data)[at + SUMMED_FROM : start], seed) != crc:
        return None
    table = start - DIRECTORY_BYTES_PER_RECORD * records
    crcs = from_bytes(data[table : table + 4 * records])
    segments = from_bytes(data[table + 4 * records : table + 12 * records], "Q")
    rest = from_bytes(data[table + 12 * records : start])
    sizes, ns = rest[:records], rest[records:]
    places = []
    for segment, size, n, of_record in zip(segments, sizes, ns, crcs, strict=True):
        # Too small for its entries: a reader would read the tables of another record.
        if size < HEADER.size + TABLE_BYTES_PER_ENTRY * n:
            return None
        places.append(RoundEntry(segment, n, start, size, of_record))
        start += size
    if start != end:
        return None
    return Round(number, at, end, places)


def next_round(data: bytes, at: int, seed: int, above: int) -> Round | None:
    """Return the first intact round at `at` or later with a number larger than `above`, or None."""
    while (at := data.find(ROUND_MAGIC, at)) >= 0:
        found = round_at(data, at, seed)
        # Rounds of an earlier use of the file have smaller numbers.
        if found is not None and found.number > above:
            return found
        at += 1
    return None
