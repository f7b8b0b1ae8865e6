"""The footer of a finished segment's file: its index and a trailer (docs/formats.md, "Segment").

Workers write and read it.  Tables are converted in pieces, because a conversion is a single step of
the interpreter, for which the event loop waits; and this module is not compiled, because compiled
code lets no other thread run between the pieces.
"""

from array import array
from collections.abc import Callable
from itertools import accumulate
from struct import Struct

from crc32c import crc32c

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.local.file_head import CRC
from magnetar_storage.local.record import (
    HEADER,
    INDEX,
    Record,
    encode,
    from_bytes,
    record_at,
    to_bytes,
)
from magnetar_storage.local.segment_file import (
    RECORDS_AT,
    Index,
    file_name,
    open_segment,
    records_of,
    scan,
)
from magnetar_storage.runtime.disk import File, ReadableDisk

TRAILER_MAGIC = b"MAGNSEAL"
TRAILER_VERSION = 1
TRAILER = Struct("<8sIIQQQQQ")
"""magic, version, zero, segment, where the INDEX record is, entries, messages, size."""

TRAILER_BYTES = TRAILER.size + CRC.size
INDEX_BODY = Struct("<II")
"""Number of blocks; 1 if a table of messages per entry follows, 0 if all hold one."""

PIECE = 1 << 14
"""The number of values converted in one step, which takes less than a millisecond."""


def encode_footer(segment: SegmentId, index: Index, sealed: Sealed) -> bytes:
    """Encode the INDEX record and the trailer, which end the file."""
    messages = index.messages
    body = [
        INDEX_BODY.pack(index.blocks, 0 if messages.is_plain else 1),
        to_bytes(_differences(lambda start, stop: index.firsts[start:stop], len(index.firsts))),
        to_bytes(_differences(lambda start, stop: index.offsets[start:stop], len(index.offsets))),
    ]
    if not messages.is_plain:
        body.append(to_bytes(_differences(messages.cut, len(messages))))
    record = encode(INDEX, segment, b"".join(body), n=sealed.entries)
    # It is found from the end of the file, and has the totals, against which an index is checked
    # that has to be made again from the blocks.
    trailer = TRAILER.pack(TRAILER_MAGIC, TRAILER_VERSION, 0, segment, index.offsets[-1], *sealed)
    return b"".join((record, trailer, CRC.pack(crc32c(trailer))))


def _differences(cut: "Callable[[int, int], array[int]]", n: int) -> "array[int]":
    """Return the differences between `n` totals, of which `cut` returns a part."""
    found = array("I")
    for at in range(0, n - 1, PIECE):
        # One value more than differences: the last total of a piece begins the next one.
        piece = cut(at, at + PIECE + 1)
        found.extend(array("I", map(int.__sub__, piece[1:], piece)))
    return found


def _totals(differences: "array[int]", start: int) -> "array[int]":
    found = array("Q", [start])
    for at in range(0, len(differences), PIECE):
        piece = array("Q", accumulate(differences[at : at + PIECE], initial=found[-1]))
        found.extend(piece[1:])
    return found


def decode_index(data: bytes, record: Record, index_at: int) -> Index | None:
    """Decode the intact INDEX record that begins at `index_at`; None if it contradicts itself."""
    at = record.at + HEADER.size
    if record.end - at < INDEX_BODY.size:
        return None
    blocks, has_counts = INDEX_BODY.unpack_from(data, at)
    at += INDEX_BODY.size
    if record.end - at != 8 * blocks + (4 * record.n if has_counts else 0):
        return None
    index = Index()
    index.firsts = _totals(from_bytes(data[at : at + 4 * blocks]), 0)
    # The record is intact, so only a defect of a release could have written this: then the blocks
    # are scanned instead.
    if index.entries != record.n:
        return None
    sizes = from_bytes(data[at + 4 * blocks : at + 8 * blocks])
    # The blocks end where the index begins.
    start = index_at - sum(sum(sizes[at : at + PIECE]) for at in range(0, len(sizes), PIECE))
    # The blocks would begin within the head of the file.
    if start < RECORDS_AT:
        return None
    index.offsets = _totals(sizes, start)
    if has_counts:
        counts = from_bytes(data[at + 8 * blocks : record.end])
        for first in range(0, len(counts), PIECE):
            index.messages.add(counts[first : first + PIECE])
    else:
        # Most segments have single messages only: no number is stored for each entry.
        index.messages.add_plain(record.n)
    return index


def load(disk: ReadableDisk, segment: SegmentId) -> tuple[Index, str | None]:
    """Load the index of a sealed segment; also returns what is damaged in its footer, or None.

    Raises `NoSegment`, and `Corrupt` if the end of the segment is unknown.
    """
    name = file_name(segment)
    file = open_segment(disk, segment)
    try:
        size = file.size()
        at = max(0, size - TRAILER_BYTES)
        trailer = _decode_trailer(file.read(at, TRAILER_BYTES), segment)
        if trailer is None:
            return _rebuild(file, size, segment), f"{name}: trailer damaged, index found by a scan"
        index_at, sealed = trailer
        data = file.read(index_at, at - index_at)
        record = record_at(data, 0)
        if record is not None and record.kind == INDEX and record.segment == segment:
            index = decode_index(data, record, index_at)
            if index is not None:
                return index, None
        # The trailer is intact and has the totals: the scan knows what it must find.
        index = scan(file, segment, index_at, sealed.entries, sealed.messages)
        return index, f"{name} at byte {index_at}: index damaged, rebuilt from the entries"
    finally:
        file.close()


def end_of(disk: ReadableDisk, segment: SegmentId) -> Sealed | None:
    """Return the size of a sealed segment; None if its trailer is damaged, or of another segment.

    Raises `NoSegment`.  It reads nothing but the trailer.
    """
    file = open_segment(disk, segment)
    try:
        at = max(0, file.size() - TRAILER_BYTES)
        trailer = _decode_trailer(file.read(at, TRAILER_BYTES), segment)
    finally:
        file.close()
    return None if trailer is None else trailer[1]


def _decode_trailer(data: bytes, segment: SegmentId) -> tuple[int, Sealed] | None:
    if len(data) != TRAILER_BYTES:
        return None
    magic, version, _, whose, index_at, *sealed = TRAILER.unpack_from(data)
    # A copy of the file of another segment has an intact trailer, too.
    if magic != TRAILER_MAGIC or version != TRAILER_VERSION or whose != segment:
        return None
    if CRC.unpack_from(data, TRAILER.size)[0] != crc32c(data[: TRAILER.size]):
        return None
    return index_at, Sealed(*sealed)


def _rebuild(file: File, size: int, segment: SegmentId) -> Index:
    """Find the INDEX record by a scan, if the trailer that points to it is damaged."""
    for base, data, record in records_of(file, RECORDS_AT, size):
        if record.kind == INDEX and record.segment == segment:
            index = decode_index(data, record, base + record.at)
            if index is not None:
                return index
    raise Corrupt(
        file_name(segment), size, "trailer and index are both damaged: its end is unknown", segment
    )
