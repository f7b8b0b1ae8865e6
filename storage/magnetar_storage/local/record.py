"""One record: the unit of the journal and of segment files (docs/formats.md, "Record").

An ENTRIES record is encoded once; the very same bytes go to the journal and, later,
to the segment's file.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

MAGIC: Final = b"\xa7R"
HEADER: Final = Struct("<I2sBBIIQQ")
"""crc32c, magic, kind, zero, bytes of the body, n, segment, first entry."""

ENTRIES: Final = 1
CREATE: Final = 2
SEAL: Final = 3
DELETE: Final = 4
INDEX: Final = 5
ORIGIN: Final = 6
KINDS = frozenset((ENTRIES, CREATE, SEAL, DELETE, INDEX, ORIGIN))

JOIN_BELOW_BYTES: Final = 64 * 1024
"""Runs with more payload than this are checksummed and written without being joined."""

TABLE_BYTES_PER_ENTRY: Final = 8
CRC_BYTES: Final = 4
UNSUMMED: Final = Struct("<2sBBIIQQ")
ONE_ENTRY: Final = Struct("<2sBBIIQQII")
SEALED_BODY = Struct("<QQQ")

Buffers = bytes | tuple[bytes, ...]
"""A record: whole, or if it is large in parts to be written one after the other."""


class Record(NamedTuple):
    """The place of an intact record in some bytes, and its header."""

    kind: int
    segment: int
    first: int
    n: int
    at: int
    size: int
    """Bytes, the header included."""

    @property
    def end(self) -> int:
        return self.at + self.size


def encode_entries(
    segment: int, first: int, payloads: Sequence[bytes], counts: Sequence[int]
) -> tuple[Buffers, int]:
    """Encode a run as an ENTRIES record; returns the record and its size."""
    n = len(payloads)
    # Most runs of a broker with many topics: one call of the packer, no arrays.
    if n == 1:
        payload = payloads[0]
        length = len(payload)
        if length < JOIN_BELOW_BYTES:
            rest = (
                ONE_ENTRY.pack(MAGIC, ENTRIES, 0, length + 8, 1, segment, first, length, counts[0])
                + payload
            )
            return crc32c(rest).to_bytes(4, "little") + rest, length + 40
    # Building an array from a list takes half the time of building it from an iterator.
    sizes = list(map(len, payloads))
    payload_bytes = sum(sizes)
    body_bytes = payload_bytes + TABLE_BYTES_PER_ENTRY * n
    head = UNSUMMED.pack(MAGIC, ENTRIES, 0, body_bytes, n, segment, first)
    tables = to_bytes(array("I", sizes)), to_bytes(array("I", counts))
    if payload_bytes < JOIN_BELOW_BYTES:
        # Small: to join costs less than to pass many buffers on, and one checksum covers it.
        rest = b"".join((head, *tables, *payloads))
        return crc32c(rest).to_bytes(4, "little") + rest, HEADER.size + body_bytes
    front = b"".join((head, *tables))
    # Large: no byte of the payloads is copied on its way to the disk.
    crc = crc32c(front)
    for payload in payloads:
        crc = crc32c(payload, crc)
    return (crc.to_bytes(4, "little") + front, *payloads), HEADER.size + body_bytes


def flat(records: Sequence[Buffers]) -> list[bytes]:
    """Return the parts of records, to be written one after the other."""
    parts: list[bytes] = []
    for record in records:
        if isinstance(record, bytes):
            parts.append(record)
        else:
            parts += record
    return parts


def encode(kind: int, segment: int, body: bytes = b"", n: int = 0) -> bytes:
    """Encode a record without entries."""
    rest = UNSUMMED.pack(MAGIC, kind, 0, len(body), n, segment, 0) + body
    return crc32c(rest).to_bytes(4, "little") + rest


def record_at(data: bytes, at: int) -> Record | None:
    """Return the record at an offset; None unless it is complete and intact."""
    if at < 0 or at + HEADER.size > len(data):
        return None
    crc, magic, kind, zero, body, n, segment, first = HEADER.unpack_from(data, at)
    size = HEADER.size + body
    # Cheap checks first: recovery tries every place where the magic occurs.
    if magic != MAGIC or kind not in KINDS or zero or at + size > len(data):
        return None
    if crc32c(memoryview(data)[at + CRC_BYTES : at + size]) != crc or not _fits(kind, body, n):
        return None
    return Record(kind, segment, first, n, at, size)


def claimed_at(data: bytes, at: int) -> Record | None:
    """Return the record whose header seems to be at an offset; its checksum is not verified."""
    if at + HEADER.size > len(data):
        return None
    _, magic, kind, zero, body, n, segment, first = HEADER.unpack_from(data, at)
    if magic != MAGIC or kind not in KINDS or zero:
        return None
    return Record(kind, segment, first, n, at, HEADER.size + body)


def _fits(kind: int, body: int, n: int) -> bool:
    """Return whether the size of the body agrees with the rest of the header."""
    if kind == ENTRIES:
        return body >= TABLE_BYTES_PER_ENTRY * n
    return kind in (INDEX, ORIGIN) or body == (SEALED_BODY.size if kind == SEAL else 0)


def next_record(data: bytes, at: int) -> Record | None:
    """Return the first intact record that begins at `at` or later; None if there is none."""
    while (found := data.find(MAGIC, at + CRC_BYTES)) >= 0:
        record = record_at(data, found - CRC_BYTES)
        if record is not None:
            return record
        # One byte on, and not after the claimed size, which may be damaged.
        at = found - CRC_BYTES + 1
    return None


def records_in(data: bytes, at: int, end: int) -> Iterator[Record]:
    """Yield the intact records in damaged bytes; the caller must check for gaps between them."""
    # A copy with an end: no record may reach beyond the damaged bytes.
    stretch = data[:end]
    while (record := next_record(stretch, at)) is not None:
        yield record
        at = record.end


def counts_of(data: bytes, record: Record) -> "array[int]":
    """Return the number of messages in each entry of an ENTRIES record."""
    start = record.at + HEADER.size + 4 * record.n
    return from_bytes(data[start : start + 4 * record.n])


def take_entries(
    data: bytes,
    record: Record,
    skip: int,
    max_entries: int,
    max_bytes: int,
    at_least_one: bool = False,
) -> tuple[list[bytes], "array[int]", int]:
    """Take entries of an ENTRIES record after the first `skip`, within both limits.

    Returns payloads, counts and the bytes of the payloads.
    """
    start = record.at + HEADER.size
    sizes = from_bytes(data[start : start + 4 * record.n])
    counts = counts_of(data, record)[skip : skip + max_entries]
    start += TABLE_BYTES_PER_ENTRY * record.n + sum(sizes[:skip])
    ends = list(accumulate(sizes[skip : skip + max_entries], initial=start))
    fitting = bisect_right(ends, start + max_bytes)
    # One end is the start: at least one entry means two of them.
    del ends[max(fitting, 2 if at_least_one else 1) :]
    payloads = [data[a:b] for a, b in pairwise(ends)]
    return payloads, counts[: len(payloads)], ends[-1] - start


def to_bytes(numbers: "array[int]") -> bytes:
    """Return the bytes of an array, little-endian on every machine."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def from_bytes(data: bytes, typecode: str = "I") -> "array[int]":
    """Convert bytes to an array; the inverse of `to_bytes`."""
    numbers = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
