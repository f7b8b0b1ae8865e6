"""Index files: the indexes of open segments (docs/formats.md, "Index file").

A finished segment has its index at the end of its file.  The index of an open segment is kept in an
index file, so that a start after a crash need not read the segment to find its blocks.  Index files
are not synced, and nothing depends on them: if one is missing, damaged or contradicts the segment,
the segment is scanned.
"""

from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import file_head, segment_file
from magnetar_storage.local.file_names import number_in
from magnetar_storage.local.record import from_bytes, to_bytes
from magnetar_storage.local.segment_file import Index
from magnetar_storage.runtime.disk import Disk, File

FILE_MAGIC = b"MAGNINDX"
FILE_VERSION = 1
PART_MAGIC = b"MIDX"
PART_HEADER = Struct("<4sIIIQQQ")
"""magic, checksum of the rest, blocks, entries; entries, bytes and messages before the part."""

SUMMED_AT = 8
FIRST_PART_AT = file_head.BYTES
PART_ENTRIES = 1 << 15
"""The most entries in a part, unless one block has more; copied in a fraction of a millisecond."""


class Growth(NamedTuple):
    """Blocks to be added to a segment's index file: from `start` to before `stop`."""

    segment: SegmentId
    source: Index
    """The segment's own index, not a copy: committed blocks never change."""
    start: int
    stop: int
    at: int
    """The offset in the index file; 0 if the file is to be created."""


def file_name(segment: SegmentId) -> str:
    return f"segments/{segment:016x}.idx"


def segment_of(name: str) -> SegmentId | None:
    """Return the segment of an index file's name (without directory); None for other files."""
    return number_in(name, suffix=".idx")


def encode_file_head(segment: SegmentId) -> bytes:
    return file_head.encode(FILE_MAGIC, FILE_VERSION, segment)


def append(disk: Disk, growth: Growth) -> int:
    """Write the parts; returns the offset of the next part."""
    head = encode_file_head(growth.segment)
    # Checksums of parts begin with that of the head, so that parts of other files do not fit.
    seed, at = file_head.checksum_of(head), growth.at
    file = disk.open(file_name(growth.segment), create=True)
    try:
        if not at:
            file.write(0, [head])
            at = len(head)
        for part in _parts(growth):
            buffers = _encode(growth.source, part.start, part.stop, seed)
            file.write(at, buffers)
            at += sum(map(len, buffers))
    finally:
        file.close()
    return at


def _parts(growth: Growth) -> Iterator[range]:
    """Yield the blocks of each part."""
    firsts, start = growth.source.firsts, growth.start
    while start < growth.stop:
        by_entries = bisect_right(firsts, firsts[start] + PART_ENTRIES, start, growth.stop + 1)
        stop = max(start + 1, by_entries - 1)
        yield range(start, stop)
        start = stop


def _encode(index: Index, start: int, stop: int, seed: int) -> list[bytes]:
    """Encode a part, with the totals as they are in memory, so that no side has to compute them."""
    first, until = index.firsts[start], index.firsts[stop]
    tables = (
        to_bytes(index.firsts[start + 1 : stop + 1]),
        to_bytes(index.offsets[start + 1 : stop + 1]),
        to_bytes(index.messages.cut(first + 1, until + 1)),
    )
    head = PART_HEADER.pack(
        PART_MAGIC, 0, stop - start, until - first,
        first, index.offsets[start], index.messages.before(first),
    )  # fmt: skip
    crc = crc32c(head[SUMMED_AT:], seed)
    for table in tables:
        crc = crc32c(table, crc)
    return [PART_MAGIC + file_head.CRC.pack(crc) + head[SUMMED_AT:], *tables]


class Content(NamedTuple):
    """The content of an index file, up to the first part that is not intact."""

    found: Index
    stops: list[int]
    """The number of blocks after each part."""
    end: int
    """The offset at which the next part would begin."""


def read(file: File, segment: SegmentId) -> Content:
    """Read the intact parts from the beginning on."""
    index, stops, at = Index(), list[int](), FIRST_PART_AT
    head, size = file.read(0, FIRST_PART_AT), file.size()
    if head != encode_file_head(segment):
        return Content(index, stops, 0)
    seed = file_head.checksum_of(head)
    while (body := _part_at(file, at, size, index, seed)) is not None:
        start, blocks, tables = body
        if not index.blocks:
            index.begin(start)
        index.firsts.extend(from_bytes(tables[: 8 * blocks], "Q"))
        index.offsets.extend(from_bytes(tables[8 * blocks : 16 * blocks], "Q"))
        index.messages.extend(from_bytes(tables[16 * blocks :], "Q"))
        stops.append(index.blocks)
        at += PART_HEADER.size + len(tables)
    return Content(index, stops, at)


def _part_at(
    file: File, at: int, size: int, index: Index, seed: int
) -> tuple[int, int, bytes] | None:
    """Return the part that continues the index: the offset of its first block in the segment, the
    number of its blocks, and its tables; None unless it is intact."""
    front = file.read(at, PART_HEADER.size)
    if len(front) < PART_HEADER.size:
        return None
    magic, crc, blocks, entries, *before = PART_HEADER.unpack(front)
    # The offset of the first block is unknown here: `_fits` compares it with the segment.
    start = index.offsets[-1] if index.blocks else before[1]
    known = [index.entries, start, index.messages.all]
    tables_at, tables_bytes = at + PART_HEADER.size, 16 * blocks + 8 * entries
    # promise[without before != known or]: each part of an index follows the one before
    if magic != PART_MAGIC or before != known or not blocks or tables_at + tables_bytes > size:
        return None
    tables = file.read(tables_at, tables_bytes)
    intact = crc32c(tables, crc32c(front[SUMMED_AT:], seed)) == crc
    return (start, blocks, tables) if intact else None


def load_unfinished(
    disk: Disk, segment: SegmentId, length: int, entries: int, messages: int
) -> Index:
    """Load the index of a segment without a footer, from the durable part of its file.

    The index file is used as far as it goes, then the headers of the segment.  If these do not lead
    to the known numbers of entries and messages, the segment is scanned.
    """
    index = _kept(disk, segment) if length else None
    if index is not None:
        file = segment_file.open_segment(disk, segment)
        try:
            complete = segment_file.walk(file, segment, length, index)
        finally:
            file.close()
        # promise[without and (index.entries, index.messages.all) == (entries, messages)]: an index
        #   must count the entries and messages that the journal counts
        if complete and (index.entries, index.messages.all) == (entries, messages):
            return index
    return segment_file.load_unfinished(disk, segment, length, entries, messages)


def _kept(disk: Disk, segment: SegmentId) -> Index | None:
    """Read the index file; None if it is missing, unreadable, or does not fit the segment."""
    try:
        file = disk.open(file_name(segment))
        try:
            content = read(file, segment)
        finally:
            file.close()
    except FileNotFoundError:
        return None
    # promise[Unavailable -> ZeroDivisionError]: an index file that cannot be read is replaced by a
    #   scan
    except Unavailable:
        return None  # it cannot be read; the segment perhaps can
    # promise[without if _fits(disk, segment, content) else None]: blocks are found where the index
    #   file places them
    return content.found if _fits(disk, segment, content) else None


def _fits(disk: Disk, segment: SegmentId, content: Content) -> bool:
    """Return whether the last block of each part is where the part places it."""
    file = segment_file.open_segment(disk, segment)
    try:
        return all(
            segment_file.has_block(file, segment, content.found, stop - 1) for stop in content.stops
        )
    finally:
        file.close()
