"""Reads the entries of a range until it is complete."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Final

import magnetar
from magnetar.consuming.chunks import ChunkJoiner
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.errors import REMEDY, DataLoss
from pyspark_magnetar.source.entry_search import first_at
from pyspark_magnetar.source.offsets import Position, Range
from pyspark_magnetar.source.range_division import messages_in
from pyspark_magnetar.source.view import View

logger = logging.getLogger(__name__)

MAX_ENTRIES: Final = 1000
PATIENCE_S: Final = 5.0
"""The time without an entry after which the broker is asked whether the rest still exists."""
MAX_SILENCES: Final = 12
RECEIVED_BYTES: Final = 32 << 20
"""The approximate limit of the bytes of messages received ahead."""
MAX_CHUNKED: Final = 100
CHUNK_WAIT_S: Final = 60.0
"""The time limit for the arrival of the chunks that complete a message."""

EntryLists = AsyncGenerator[list[magnetar.Entry], None]


@dataclass(frozen=True, slots=True)
class RangeReading:
    """The options for reading a range."""

    queue_size: int = 20_000
    """The number of messages received ahead."""
    skips_unreadable: bool = False
    fails_on_loss: bool = True
    key_reader: magnetar.KeyReader | None = None


def read_range(
    bridge: Bridge, view: View, wanted: Range, how: RangeReading
) -> Iterator[magnetar.Entry]:
    """Yield the entries of the range in order, with chunked messages joined.

    DataLoss if entries were deleted, and Unreadable for an entry that cannot be received, unless
    the options skip them.
    """
    source = _RangeReader(view, wanted, how)
    lists = source.lists()
    try:
        while entries := bridge.run(_next(lists)):
            yield from entries
    finally:
        bridge.run(_close(lists))
        if source.unreadable:
            logger.warning(
                "%s: %d entries could not be read, and were left out", wanted.topic,
                source.unreadable,
            )  # fmt: skip


async def _next(lists: EntryLists) -> list[magnetar.Entry]:
    return await anext(lists, [])


async def _close(lists: EntryLists) -> None:
    await lists.aclose()


class _RangeReader:
    """Reads one range."""

    def __init__(self, view: View, wanted: Range, how: RangeReading) -> None:
        self._view = view
        self._wanted = wanted
        self._how = how
        self._joiner = ChunkJoiner(MAX_CHUNKED, CHUNK_WAIT_S)
        self._at: Position = wanted.start
        """The position up to which the range was read."""
        self.unreadable = 0

    async def lists(self) -> EntryLists:
        """Yield lists of entries; no list is empty."""
        async with await self._open() as reader:
            silences = 0
            while self._at < self._wanted.end:
                try:
                    entries = await reader.receive_entries(MAX_ENTRIES, PATIENCE_S)
                except magnetar.OperationTimeout as error:
                    silences += 1
                    # The end of the range may never come, as it was deleted or compacted away.
                    if await self._is_all(reader):
                        return
                    if silences == MAX_SILENCES:
                        error.add_note(
                            f"reading {self._wanted.topic} after {self._at} up to "
                            f"{self._wanted.end}: the broker has more, and sends none"
                        )
                        raise
                    continue
                except magnetar.Unreadable as error:
                    self._unreadable(error)
                    continue
                silences = 0
                inside = await self._inside(entries)
                if inside:
                    yield inside
            async for entry in self._rest_of_chunks(reader):
                yield [entry]

    async def _open(self) -> magnetar.EntryReader:
        ledger, entry = self._wanted.start
        # There is no id before the first entry of a ledger to start after.
        start = magnetar.MessageId(ledger, max(entry, 0)) if ledger >= 0 else magnetar.EARLIEST
        # Ask for no more than the range has, nor for more bytes than are to wait in memory.
        mean = self._wanted.mean
        most = messages_in(self._wanted) if mean.messages else self._how.queue_size
        if mean.bytes:
            most = min(most, RECEIVED_BYTES * mean.messages // mean.bytes)
        return await self._view.reader(
            self._wanted.topic,
            start,
            inclusive=entry < 0,
            queue_size=max(1, min(self._how.queue_size, most)),
            key_reader=self._how.key_reader,
        )

    async def _inside(self, entries: list[magnetar.Entry]) -> list[magnetar.Entry]:
        """Return the entries in the range; a chunked message takes the place of its last chunk."""
        end, last = self._wanted.end, entries[-1].position
        # Usually all are of the ledger that is being read, and no entry needs a look of its own.
        if not self._at[0] == entries[0].ledger == last[0]:
            for entry in entries:
                if entry.ledger != self._at[0]:
                    await self._check_gap(entry.position)
                self._at = min(entry.position, end)
        self._at = min(last, end)
        inside = entries if last <= end else [one for one in entries if one.position <= end]
        if any(entry.is_chunk for entry in entries):
            inside = [
                found
                for entry in entries
                if (found := self._joined(entry)) is not None
            ]  # fmt: skip
        return inside

    def _joined(self, entry: magnetar.Entry) -> magnetar.Entry | None:
        """Return the entry, or the message that it completes; None if that is incomplete.

        A chunked message belongs to the range of its first chunk.
        """
        is_inside = entry.position <= self._wanted.end
        if not entry.is_chunk:
            return entry if is_inside else None
        if not is_inside and entry.metadata.chunk_id == 0:
            return None  # the task of the next range reads this message
        outcome = self._joiner.add(entry, asyncio.get_running_loop().time())
        for chunks, why in (*outcome.given_up, *outcome.displaced):
            self._unreadable(chunks[0].unreadable(why))
        # Other orphans belong to a message that began before the range: its task reads them.
        if outcome.orphan and entry.metadata.chunk_id == 0:
            self._unreadable(entry.unreadable(outcome.orphan))
        return outcome.entry

    async def _rest_of_chunks(
        self, reader: magnetar.EntryReader
    ) -> AsyncGenerator[magnetar.Entry, None]:
        """Yield messages whose first chunk is in the range, but whose last chunk is not."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + CHUNK_WAIT_S
        while self._joiner and loop.time() < give_up_s:
            try:
                entries = await reader.receive_entries(MAX_ENTRIES, give_up_s - loop.time())
            except magnetar.OperationTimeout:
                break
            except magnetar.Unreadable:
                continue  # it belongs to another range
            for entry in entries:
                found = self._joined(entry) if entry.is_chunk else None
                if found is not None:
                    yield found
        if self._joiner:
            logger.warning(
                "%s: %d chunked messages that begin in %s to %s were not completed within %g s, "
                "and are left out", self._wanted.topic, len(self._joiner),
                self._wanted.start, self._wanted.end, CHUNK_WAIT_S,
            )  # fmt: skip

    def _unreadable(self, error: magnetar.Unreadable) -> None:
        position = (error.message_id.ledger, error.message_id.entry)
        if position > self._wanted.end:
            self._at = self._wanted.end
            return
        self._at = max(self._at, position)
        if not self._how.skips_unreadable:
            raise error
        self.unreadable += 1

    async def _check_gap(self, first: Position) -> None:
        """Check, when an entry is in another ledger, that the entries between were not deleted."""
        if self._view.compacted:  # promise: a gap of a compacted view does not mean a loss
            return
        ends = (*self._wanted.ledger_ends, self._wanted.end)
        # promise[< -> <=]: a ledger that goes after it was read is not lost
        expected = [end for end in ends if self._at < end < first]
        if expected and await self._is_deleted(expected[0]):
            self._lost(f"the next one is {first[0]}:{first[1]}")

    async def _is_all(self, reader: magnetar.EntryReader) -> bool:
        """Return whether nothing more of the range can arrive; called after a silence."""
        last = await reader.last_message_id()
        if (last.ledger, last.entry) >= self._wanted.end:
            return False
        if self._view.compacted:
            # promise[never]: a task does not wait for an entry that compaction replaced
            return (last.ledger, last.entry) <= self._at
        self._lost(f"the topic ends at {last.ledger}:{last.entry}")
        return True

    async def _is_deleted(self, position: Position) -> bool:
        """Tell whether the first existing entry lies after the position."""
        first = await first_at(self._view, self._wanted.topic)
        return first is None or first.position > position

    def _lost(self, why: str) -> None:
        """Report a loss, as an error or in the log."""
        at, end = self._at, self._wanted.end
        text = (
            f"{self._wanted.topic}: the entries after {at[0]}:{at[1]} up to {end[0]}:{end[1]} "
            f"were deleted in part: {why}. Retention or a time to live deleted them, or the topic "
            "was recreated"
        )
        if self._how.fails_on_loss:
            raise DataLoss(f"{text}; {REMEDY}")
        logger.warning("%s", text)
