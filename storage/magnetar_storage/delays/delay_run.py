"""A run of delayed entries: sorted by time, in a segment of its own, never changed.

The segment's first entry is a header with the first time of each block and the set of offsets, so
that loading a run reads nothing else; the other entries are the blocks, of at most `BLOCK` delays:

    header   u32 version, u32 blocks, u32 delays, u32 words of offsets; the first time of each
             block (i64 each); the words' numbers (i64 each); the words (u64 each)
    block    the times (i64 each), then the offsets (i64 each)

Bit i of word number w stands for offset 64 w + i.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct, unpack_from
from struct import error as StructError
from typing import Final, NamedTuple

from magnetar_storage.delays.delay_block import BLOCK, Block, decode_block, encode_block, merged
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import SegmentId, SegmentStore, SegmentWriter
from magnetar_storage.local.record import to_bytes
from magnetar_storage.log.offset_set import SIZE, OffsetSet, ranges_of
from magnetar_storage.runtime.execution import Clock, settling, yield_turn

VERSION: Final = 1
WORD: Final = 64
_HEAD: Final = Struct("<IIII")
_READ_BYTES: Final = 1 << 20


class DelayRun:
    """A stored run that is read from its earliest delay on, block by block."""

    def __init__(self, segment: SegmentId, left: int, firsts: Sequence[int], stop: int) -> None:
        self.segment = segment
        self.left = left
        """The number of delays that were not taken yet."""
        self.stop = stop
        """All offsets of the run are below this one."""
        self._firsts = firsts
        self._block = 0  # the next block to read, or the one in `_head`
        self._head: Block | None = None
        self._at = 0  # the index of the next delay in the head

    @property
    def next_at(self) -> int | None:
        """The time at which the next delay is over; None if all were taken."""
        if self._block >= len(self._firsts):
            return None
        return self._firsts[self._block] if self._head is None else self._head.times[self._at]

    async def take(self, store: SegmentStore, until_ms: int) -> Sequence[int]:
        """Take the delays of one block that are over at `until_ms`; returns their offsets."""
        next_at = self.next_at
        if next_at is None or next_at > until_ms:
            return ()
        if self._head is None:
            self._head = await self._read(store, self._block)
        head = self._head
        start, stop = self._at, bisect_right(head.times, until_ms, self._at)
        self._at = stop
        self.left -= stop - start
        if stop == len(head.times):
            self._block, self._head, self._at = self._block + 1, None, 0
        return head.offsets[start:stop]

    async def rest(self, store: SegmentStore) -> list[Block]:
        """Return all delays that were not taken, in sorted blocks, without taking them."""
        blocks: list[Block] = []
        for number in range(self._block, len(self._firsts)):
            used = self._head if number == self._block else None
            block = used if used is not None else await self._read(store, number)
            start = self._at if number == self._block else 0
            blocks.append(Block(block.times[start:], block.offsets[start:]))
        return blocks

    async def _read(self, store: SegmentStore, number: int) -> Block:
        return _decoded(
            self.segment, number + 1, await _read_entry(store, self.segment, number + 1)
        )


class Loaded(NamedTuple):
    """A run with the offsets of all its delays."""

    run: DelayRun
    words: Sequence[tuple[int, int]]
    """In order: an offset, and a bitmap of 64 offsets from it on (bit 0 is the offset itself)."""


async def write_run(writer: SegmentWriter, clock: Clock, parts: Sequence[Block]) -> DelayRun:
    """Write the delays of sorted blocks, at least one, to a new segment, and seal it.

    Other work takes its turns meanwhile.
    """
    offsets, blocks = OffsetSet(), list[Block]()
    for part in parts:
        offsets.add_all(ranges_of(sorted(part.offsets)))
        await yield_turn(clock)
    for block in merged(parts):
        blocks.append(block)
        await yield_turn(clock)
    words, unpacked = _words_of(offsets), list[tuple[int, int]]()
    while some := list(islice(words, BLOCK)):
        unpacked += some
        await yield_turn(clock)
    firsts = [block.times[0] for block in blocks]
    delays = sum(len(block.times) for block in blocks)
    promise = clock.promise()
    # Each is an append of its own, since reading one verifies the whole append it was part of.
    writer.append([_encode_header(delays, firsts, unpacked)], [0], _nothing)
    for block in blocks[:-1]:
        writer.append([encode_block(block)], [0], _nothing)
    writer.append([encode_block(blocks[-1])], [0], settling(promise))
    await promise
    await writer.seal()
    number, word = unpacked[-1]
    return DelayRun(writer.segment, delays, firsts, number * WORD + word.bit_length())


async def load_run(store: SegmentStore, segment: SegmentId) -> Loaded | None:
    """Load a run; None if a crash left it unfinished."""
    end = await store.recover(segment)
    if not end.entries:
        return None
    data = await _read_entry(store, segment, 0)
    try:
        version, blocks, delays, n = _HEAD.unpack_from(data)
        if version != VERSION:
            raise Corrupt(
                "delays", 0, f"a run of version {version}; this release reads version {VERSION}",
                segment, 0, 0,
            )  # fmt: skip
        firsts = unpack_from(f"<{blocks}q", data, _HEAD.size)
        at = _HEAD.size + 8 * blocks
        starts = [number * WORD for number in unpack_from(f"<{n}q", data, at)]
        words = list(zip(starts, unpack_from(f"<{n}Q", data, at + 8 * n), strict=True))
        if not words:
            raise StructError("the header lists no offsets")
    except StructError as error:
        raise Corrupt("delays", 0, f"no header of a run: {error}", segment, 0, 0) from error
    # The header was written first, and a crash kept some blocks from being written.
    if end.entries != 1 + blocks:
        return None
    stop = words[-1][0] + words[-1][1].bit_length()
    return Loaded(DelayRun(segment, delays, firsts, stop), words)


async def _read_entry(store: SegmentStore, segment: SegmentId, entry: int) -> bytes:
    reader = await store.reader(segment)
    try:
        run = await reader.read(entry, 1, _READ_BYTES)
    finally:
        reader.close()
    if not run.payloads:
        raise Corrupt("delays", 0, f"the run ends before entry {entry}", segment, entry, entry)
    return run.payloads[0]


def _decoded(segment: SegmentId, entry: int, data: bytes) -> Block:
    try:
        return decode_block(data)
    except StructError as error:
        raise Corrupt("delays", 0, f"no block of a run: {error}", segment, entry, entry) from error


def _words_of(offsets: OffsetSet) -> Iterator[tuple[int, int]]:
    """Yield the number and the bits of every word that is not 0, in order."""
    words = Struct(f"<{SIZE // WORD}Q")
    at = offsets.next_present(0)
    while at is not None:
        start = at - at % SIZE
        bits = offsets.bits(start).to_bytes(words.size, "little")
        for number, word in enumerate(words.unpack(bits), start // WORD):
            if word:
                yield number, word
        at = offsets.next_present(start + SIZE)


def _encode_header(delays: int, firsts: Sequence[int], words: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(
        (
            _HEAD.pack(VERSION, len(firsts), delays, len(words)),
            to_bytes(array("q", firsts)),
            to_bytes(array("q", [number for number, _ in words])),
            to_bytes(array("Q", [word for _, word in words])),
        )
    )


def _nothing(error: BaseException | None) -> None:
    """Ignore the outcome: the last append has that of all, since they are in order."""
