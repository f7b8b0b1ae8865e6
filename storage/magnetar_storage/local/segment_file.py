"""A segment's file: records one after the other, and a footer once it is sealed (`footer`).

See docs/formats.md, "Segment".  A block is one ENTRIES record, or a hole: a damaged stretch.  A
hole fails its checksum when it is read, which confines the damage to its entries.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.interfaces import Run, Sealed, SegmentId
from magnetar_storage.local import file_head
from magnetar_storage.local.file_names import number_in
from magnetar_storage.local.message_totals import MessageTotals
from magnetar_storage.local.record import (
    CRC_BYTES,
    ENTRIES,
    HEADER,
    MAGIC,
    ORIGIN,
    TABLE_BYTES_PER_ENTRY,
    Record,
    claimed_at,
    counts_of,
    record_at,
    take_entries,
)
from magnetar_storage.runtime.disk import File, ReadableDisk

FILE_MAGIC = b"MAGNSEGM"
FILE_VERSION = 2
HEAD_VERSIONS = (1, FILE_VERSION)
"""The versions that this release reads.  Version 1 has no ORIGIN after the head."""
RECORDS_AT = file_head.BYTES
"""The offset of the first record, which is the ORIGIN if there is one."""
MOST_ORIGIN_BYTES = 1 << 20
"""The largest size of an ORIGIN: a header that claims more is damaged."""

SCAN_BYTES = 8 << 20
WALK_BYTES = 16 << 10
"""The bytes read at a time: for whole records, and for headers only."""


def file_name(segment: SegmentId) -> str:
    return f"segments/{base_name(segment)}"


def base_name(segment: SegmentId) -> str:
    """Return the name of a segment's file without its directory."""
    return f"{segment:016x}.seg"


def segment_of(name: str) -> SegmentId | None:
    """Return the segment of a file name (without directory); None for other files."""
    return number_in(name, suffix=".seg")


def encode_file_head(segment: SegmentId, version: int = FILE_VERSION) -> bytes:
    return file_head.encode(FILE_MAGIC, version, segment)


class Index:
    """The places of a segment's blocks, and the number of messages in its entries."""

    __slots__ = ("firsts", "messages", "offsets")

    def __init__(self) -> None:
        self.firsts = array("Q", [0])
        """The first entry of each block, followed by the number of entries."""
        self.offsets = array("Q", [RECORDS_AT])
        """The offset of each block in the file, followed by the offset of the next block."""
        self.messages = MessageTotals()

    @property
    def entries(self) -> int:
        return self.firsts[-1]

    @property
    def blocks(self) -> int:
        return len(self.firsts) - 1

    def begin(self, at: int) -> None:
        """Note where the first block begins; there must be none yet."""
        self.offsets[0] = at

    def add(self, n: int, counts: Sequence[int], record_bytes: int) -> None:
        """Append a block of `n` entries."""
        self.messages.add(counts)
        self.firsts.append(self.firsts[-1] + n)
        self.offsets.append(self.offsets[-1] + record_bytes)

    def keep_blocks(self, blocks: int) -> None:
        """Drop all but the first `blocks` blocks."""
        del self.firsts[blocks + 1 :]
        del self.offsets[blocks + 1 :]
        self.messages.keep(self.entries)

    def begins_with(self, other: "Index") -> bool:
        """Return whether the blocks of `other` are the first ones of this index."""
        blocks, entries = other.blocks, other.entries
        return not blocks or (
            self.firsts[: blocks + 1] == other.firsts
            and self.offsets[: blocks + 1] == other.offsets
            and self.messages.cut(0, entries + 1) == other.messages.cut(0, entries + 1)
        )

    def block_of(self, entry: int) -> int:
        """Return the block of an entry, which must exist."""
        return bisect_right(self.firsts, entry) - 1

    def payload_bytes(self, blocks: int) -> int:
        """Return the payload bytes of the first `blocks` blocks; an estimate if there are holes."""
        # Not counted as blocks are added: the offsets have it, and a block costs less memory.
        stored = self.offsets[blocks] - self.offsets[0]
        other = HEADER.size * blocks + TABLE_BYTES_PER_ENTRY * self.firsts[blocks]
        return max(0, stored - other)

    def sealed(self) -> Sealed:
        return Sealed(self.entries, self.messages.all, self.payload_bytes(self.blocks))


def load_unfinished(
    disk: ReadableDisk, segment: SegmentId, length: int, entries: int, messages: int
) -> Index:
    """Load the index of a segment without a footer, from the durable part of its file."""
    if length == 0:
        index = Index()
        if entries:
            # The checkpoint counts entries of which no file was left: one hole, so that offsets
            # stay.
            index.add(entries, [0] * entries, 0)
            index.messages.add_lost(0, messages)
        return index
    file = open_segment(disk, segment)
    try:
        return scan(file, segment, length, entries, messages)
    finally:
        file.close()


def open_segment(disk: ReadableDisk, segment: SegmentId) -> File:
    try:
        return disk.open(file_name(segment))
    except FileNotFoundError:
        raise NoSegment(f"there is no segment {segment}") from None


def scan(file: File, segment: SegmentId, end: int, entries: int, messages: int) -> Index:
    """Build the index of a file's first `end` bytes from its records; damaged parts become holes.

    `entries` and `messages` are the known totals; what the records lack of them is in the holes.
    """
    index = Index()
    if not walk(file, segment, end, index) or index.entries != entries:
        # The last header may be the one that is wrong.
        index.keep_blocks(max(0, index.blocks - 1))
    elif index.messages.all != messages:
        # Any table may be the one that is wrong.
        index.keep_blocks(0)
    if not index.blocks:
        # The header that names the size of the origin may be the one that is wrong.
        index.begin(RECORDS_AT)
    holes: list[int] = []

    def hole(until: int, at: int) -> None:
        n = until - index.entries
        holes.append(index.entries)
        index.add(n, [0] * n, at - index.offsets[-1])

    for base, data, record in records_of(file, index.offsets[-1], end):
        at = base + record.at
        # The origin, a repeated record, or bytes of a payload that look like a record.
        if record.kind != ENTRIES or record.segment != segment or record.first < index.entries:
            continue
        if not record.first:
            # Bytes before the first entry hold no entries, however damaged they are.
            index.begin(at)
        if record.first > index.entries or at > index.offsets[-1]:
            # An intact record after damage names its first entry: what is missing before it is a
            # hole, and positions after it stay as they were.
            hole(record.first, at)
        index.add(record.n, counts_of(data, record), record.size)
    if index.entries < entries:
        hole(entries, end)
    if holes:
        # How many messages each hole had is unknown, their sum is not: backlogs stay exact at the
        # borders of the segment.
        index.messages.add_lost(holes[0], messages - index.messages.all)
    return index


def walk(file: File, segment: SegmentId, end: int, index: Index) -> bool:
    """Continue the index from successive headers; returns whether they lead to `end`.

    Payloads are verified when they are read.
    """
    window, at = _Window(file, end, WALK_BYTES), index.offsets[-1]
    if not index.blocks:
        window.cover(RECORDS_AT, HEADER.size)
        at = min(RECORDS_AT + origin_size(window.data, segment), end)
        index.begin(at)
    while at < end:
        window.cover(at, HEADER.size)
        claim = claimed_at(window.data, at - window.base)
        if claim is None or not _follows(claim, segment, index, end - at):
            return False
        tables = HEADER.size + TABLE_BYTES_PER_ENTRY * claim.n
        window.cover(at, tables)
        if len(window.data) < at - window.base + tables:
            return False  # the file is shorter than it should be
        # The window may have moved since the header was read.
        claim = claim._replace(at=at - window.base)
        index.add(claim.n, counts_of(window.data, claim), claim.size)
        at += claim.size
    return at == end


def origin_size(data: bytes, segment: SegmentId | None) -> int:
    """Return the size claimed by an ORIGIN's header at the start of `data`; 0 if there is none.

    The ORIGIN must be of `segment`, unless that is None.
    """
    claim = claimed_at(data, 0)
    if claim is None or claim.kind != ORIGIN or segment not in (None, claim.segment):
        return 0
    # A damaged size could hide all records after it.
    return claim.size if claim.size <= MOST_ORIGIN_BYTES else 0


def has_block(file: File, segment: SegmentId, index: Index, block: int) -> bool:
    """Return whether the file has the header of a block where the index places the block."""
    (first, until), (at, end) = index.firsts[block : block + 2], index.offsets[block : block + 2]
    claim = claimed_at(file.read(at, HEADER.size), 0)
    return claim == Record(ENTRIES, segment, first, until - first, 0, end - at)


def _follows(claim: Record, segment: SegmentId, index: Index, room: int) -> bool:
    """Return whether a header can belong to the next block."""
    tables = HEADER.size + TABLE_BYTES_PER_ENTRY * claim.n
    wanted = (ENTRIES, segment, index.entries)
    found = (claim.kind, claim.segment, claim.first)
    return found == wanted and claim.n > 0 and tables <= claim.size <= room


def records_of(file: File, at: int, end: int) -> Iterator[tuple[int, bytes, Record]]:
    """Find the intact records between two offsets of a file.

    Yields the offset of some bytes of the file, the bytes, and the record within them.
    """
    window = _Window(file, end, SCAN_BYTES)
    while at + HEADER.size <= end:
        window.cover(at, HEADER.size)
        claim = claimed_at(window.data, at - window.base)
        if claim is not None and at + claim.size <= end:
            window.cover(at, claim.size)
            record = record_at(window.data, at - window.base)
            if record is not None:
                yield window.base, window.data, record
                at += claim.size
                continue
        # Damaged, or a header whose size is wrong: the next record is found by its magic.
        at = window.find(MAGIC, at + CRC_BYTES + 1) - CRC_BYTES


class _Window:
    """A part of a file in memory, which moves as the file is read."""

    def __init__(self, file: File, end: int, step: int) -> None:
        self._file = file
        self._end = end
        self._step = step
        self.base = 0
        self.data = b""

    def cover(self, at: int, size: int) -> None:
        """Read these bytes into `data`, which begins at `base`, as far as the file has them."""
        if at < self.base or at + size > self.base + len(self.data):
            self.base = at
            # More than was asked for: the next headers are probably within reach, and a read costs
            # more than its bytes.
            self.data = self._file.read(at, min(max(size, self._step), self._end - at))

    def find(self, wanted: bytes, at: int) -> int:
        """Return the offset of the next occurrence; an offset beyond the end if there is none."""
        while at + len(wanted) <= self._end:
            self.cover(at, len(wanted))
            if len(self.data) < len(wanted):
                break  # the file is shorter than it should be
            found = self.data.find(wanted, at - self.base)
            if found >= 0:
                return self.base + found
            at = max(at + 1, self.base + len(self.data) - len(wanted) + 1)
        return self._end + CRC_BYTES


class Blocks(NamedTuple):
    """Consecutive blocks to read: a copy of a part of the index, for a worker."""

    segment: SegmentId
    firsts: "array[int]"
    offsets: "array[int]"

    @classmethod
    def of(cls, segment: SegmentId, index: Index, block: int, stop: int) -> "Blocks":
        return cls(segment, index.firsts[block : stop + 1], index.offsets[block : stop + 1])

    def damaged(self, block: int) -> Corrupt:
        """Return the error for a damaged block."""
        at, end = self.offsets[block : block + 2]
        return Corrupt(
            file_name(self.segment),
            at,
            "the entries are not what was written" if end > at else "the entries are lost",
            self.segment,
            self.firsts[block],
            self.firsts[block + 1] - 1,
        )


def read_blocks(disk: ReadableDisk, blocks: Blocks) -> bytes:
    """Read the bytes of the blocks, for `take_run`."""
    size = blocks.offsets[-1] - blocks.offsets[0]
    if not size:
        return b""  # all of them are lost, and the file may not exist
    file = open_segment(disk, blocks.segment)
    try:
        return file.read(blocks.offsets[0], size)
    finally:
        file.close()


def take_run(data: bytes, blocks: Blocks, first: int, max_entries: int, max_bytes: int) -> Run:
    """Take entries from `first` on from the bytes of blocks; `first` is in the first block.

    Raises `Corrupt` if the first entry is damaged; a run ends before a later damaged entry.
    """
    payloads: list[bytes] = []
    counts = array("I")
    entry, end, bytes_left = first, first + max(1, max_entries), max_bytes
    for block in range(len(blocks.firsts) - 1):
        record = _block(data, blocks, block)
        if record is None:
            if payloads:
                break
            # Only at the first entry: what was read before the damage is returned without an error.
            raise blocks.damaged(block)
        skip = entry - record.first
        taken, of_taken, size = take_entries(data, record, skip, end - entry, bytes_left)
        if not taken and not payloads:
            # A single entry above the limit of bytes is returned, or its reader would never get
            # past it.
            taken, of_taken, size = take_entries(data, record, skip, 1, bytes_left, True)
        payloads += taken
        counts += of_taken
        entry += len(taken)
        bytes_left -= size
        if entry < blocks.firsts[block + 1] or entry >= end:
            break
    return Run(first, payloads, counts)


def first_damaged(data: bytes, blocks: Blocks) -> int | None:
    """Return the first of the blocks that is not what was written; None if all are intact."""
    for block in range(len(blocks.firsts) - 1):
        if _block(data, blocks, block) is None:
            return block
    return None


def _block(data: bytes, blocks: Blocks, block: int) -> Record | None:
    """Return the record that makes up a block; None unless it is intact."""
    record = record_at(data, blocks.offsets[block] - blocks.offsets[0])
    if record is None or record.kind != ENTRIES or record.segment != blocks.segment:
        return None
    # An intact record may be in the wrong place, such as in a file that was copied over another.
    expected = blocks.firsts[block], blocks.firsts[block + 1]
    return record if (record.first, record.first + record.n) == expected else None
