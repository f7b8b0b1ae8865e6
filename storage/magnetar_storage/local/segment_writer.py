"""A `LocalStore`'s segment in memory, with the records not yet in its file; writer, reader."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from magnetar_storage.errors import NoSegment, StorageError, WriterFailed
from magnetar_storage.interfaces import Run, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local.checkpoint import Flush, Row
from magnetar_storage.local.journal import Journal, JournaledSegment
from magnetar_storage.local.record import Buffers, encode_entries, flat
from magnetar_storage.local.segment_file import Blocks, Index, read_blocks, take_run
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.execution import Clock, Done, Worker


class LocalSegment(JournaledSegment):
    """Blocks of a segment, counted as written (in the file) <= committed (durable) <= all."""

    __slots__ = (
        "deleted",
        "id",
        "index",
        "length",
        "origin",
        "refusal",
        "sealed",
        "unwritten",
        "written_blocks",
    )

    def __init__(
        self, segment: SegmentId, index: Index, length: int, sealed: Sealed | None = None
    ) -> None:
        super().__init__(index.blocks)
        self.id = segment
        self.index = index
        self.length = length
        """The durable bytes of the file."""
        self.origin = b""
        """The ORIGIN of the segment; empty once the file has it."""
        self.sealed = sealed
        self.written_blocks = index.blocks
        self.unwritten: list[Buffers] = []
        self.refusal: StorageError | None = None
        """The error with which appends are refused; None while they are accepted."""
        self.deleted = False

    @property
    def confirmed(self) -> int:
        return self.index.firsts[self.committed_blocks] - 1

    @property
    def unwritten_bytes(self) -> int:
        """Committed bytes that are not in the file."""
        offsets = self.index.offsets
        return offsets[self.committed_blocks] - offsets[self.written_blocks]

    def failed(self, error: BaseException) -> None:
        if self.committed_blocks < self.index.blocks:
            # The first failure drops this block and all later ones, whose records fail as well.
            self.index.keep_blocks(self.committed_blocks)
            del self.unwritten[self.committed_blocks - self.written_blocks :]
            if self.refusal is None:
                self.refusal = WriterFailed(f"an append to segment {self.id} failed: {error}")

    def flush(self, committed: int, sealed: Sealed | None) -> Flush | None:
        """Return the bytes that the file lacks when `committed` blocks are committed; None if
        nothing.
        """
        blocks = committed - self.written_blocks
        # A file is not left without its origin: the journal that has the origin may be dropped.
        # promise[without and (self.length or not self.origin)]: a checkpoint keeps the origin of a
        #   segment whose first entries are not durable yet
        if not blocks and sealed is None and (self.length or not self.origin):
            return None
        footer = (self.index, sealed) if sealed is not None else None
        return Flush(self.id, self.length, self.unwritten[:blocks], footer, self.origin)

    def flushed(self, flush: Flush) -> None:
        """Account for a flush that was written to the file."""
        blocks = len(flush.records)
        del self.unwritten[:blocks]
        self.written_blocks += blocks
        self.length = self.index.offsets[self.written_blocks]
        self.origin = b""

    def row(self, blocks: int) -> Row:
        """Return the checkpoint's row of an unsealed segment with `blocks` committed blocks."""
        entries = self.index.firsts[blocks]
        length = self.index.offsets[blocks] if blocks or self.length or self.origin else 0
        messages, size = self.index.messages.before(entries), self.index.payload_bytes(blocks)
        return Row(entries, messages, size, length)


class LocalWriter:
    """The `SegmentWriter` of a `LocalStore`."""

    __slots__ = ("_clock", "_index", "_journal", "_name", "_origin", "_seal", "_segment")

    def __init__(
        self,
        segment: LocalSegment,
        journal: Journal,
        clock: Clock,
        seal: Callable[[LocalSegment, StorageError], Coroutine[Any, Any, Sealed]],
        origin: SegmentOrigin,
        name: Callable[[LocalSegment, SegmentOrigin], None],
    ) -> None:
        """`name` is called before the first append, to store the origin with the entries."""
        self._origin: SegmentOrigin | None = origin  # until it is stored
        self._name = name
        self._segment = segment
        self._index = segment.index
        self._journal = journal
        self._clock = clock
        self._seal = seal

    @property
    def segment(self) -> SegmentId:
        return self._segment.id

    @property
    def confirmed(self) -> int:
        return self._segment.confirmed

    def begin(self, first_offset: int, first_messages: int | None = None) -> None:
        if self._origin is not None:
            self._origin = replace(
                self._origin, first_offset=first_offset, first_messages=first_messages
            )

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        # The index is an attribute of its own: a lookup less for each run.
        segment, index = self._segment, self._index
        first = index.firsts[-1]
        if segment.refusal is not None:
            # Later, as always: a caller is not called back during its call.
            self._clock.soon(partial(done, segment.refusal.again()))
            return first
        if not first and self._origin is not None:
            self._name(segment, self._origin)
            self._origin = None  # there may be very many writers
        # Encoded once: the same bytes go to the journal and later to the segment's file.
        buffers, size = encode_entries(segment.id, first, payloads, counts)
        n = len(payloads)
        index.add(n, counts, size)
        # The index has the block at once, `committed_blocks` says when it can be read.
        segment.unwritten.append(buffers)
        self._journal.append(buffers, size, segment.id, n, segment, done)
        return first

    async def seal(self) -> Sealed:
        segment = self._segment
        if segment.refusal is not None and segment.sealed is None:
            raise segment.refusal.again()
        return await self._seal(segment, WriterFailed(f"segment {segment.id} is sealed"))


class LocalReader:
    """The `SegmentReader` of a `LocalStore`."""

    def __init__(self, segment: LocalSegment, disk: ReadableDisk, worker: Worker) -> None:
        self._segment = segment
        self._disk = disk
        self._worker = worker

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        segment = self._segment
        if segment.deleted:
            raise NoSegment(f"segment {segment.id} was deleted")
        if first > segment.confirmed:
            return Run(first, [], [])
        block = segment.index.block_of(first)
        # Still in memory: a reader at the end of the segment never waits for the disk.
        if block >= segment.written_blocks:
            stop = self._stop(block, segment.committed_blocks, first + max_entries, max_bytes)
            written = segment.written_blocks
            data = b"".join(flat(segment.unwritten[block - written : stop - written]))
            blocks = Blocks.of(segment.id, segment.index, block, stop)
            return take_run(data, blocks, first, max_entries, max_bytes)
        stop = self._stop(block, segment.written_blocks, first + max_entries, max_bytes)
        blocks = Blocks.of(segment.id, segment.index, block, stop)
        return await self._worker.run(
            partial(_read, self._disk, blocks, first, max_entries, max_bytes)
        )

    async def stored_bytes(self, first: int, stop: int) -> bytes:
        segment = self._segment
        index, written = segment.index, segment.written_blocks
        stop = min(stop, index.firsts[written])
        if segment.deleted or first >= stop:
            return b""  # what is not written yet is in memory, and not damaged
        begin, end = index.block_of(first), index.block_of(stop - 1) + 1
        blocks = Blocks.of(segment.id, index, begin, end)
        return await self._worker.run(partial(read_blocks, self._disk, blocks))

    async def messages_before(self, entry: int) -> int:
        return self._segment.index.messages.before(entry)

    def messages_in(self, entry: int) -> int:
        messages = self._segment.index.messages  # in memory while the reader is open
        return messages.before(entry + 1) - messages.before(entry)

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def _stop(self, block: int, blocks: int, end_entry: int, max_bytes: int) -> int:
        """Return the end of the blocks to read: as many as the limits allow, at least one."""
        index = self._segment.index
        by_entries = bisect_left(index.firsts, end_entry, block, blocks)
        by_bytes = bisect_right(index.offsets, index.offsets[block] + max_bytes, block, blocks + 1)
        return max(block + 1, min(by_entries, by_bytes - 1, blocks))


def _read(disk: ReadableDisk, blocks: Blocks, first: int, max_entries: int, max_bytes: int) -> Run:
    data = read_blocks(disk, blocks)
    return take_run(data, blocks, first, max_entries, max_bytes)
