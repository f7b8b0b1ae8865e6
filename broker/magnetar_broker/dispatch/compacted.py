"""Reading compacted: below the horizon a consumer gets only the last message of each key.

The horizon is the offset up to which the topic was compacted; from there on the log is delivered
as it is.  Acknowledged entries are left out below it too.  But entries that the log has trimmed
count as acknowledged only for the log: their compacted copies are delivered.
"""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from magnetar_broker.dispatch.base import entries_within
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.hashes import range_slot
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.compacted.compacted_log import CompactedLog
from magnetar_storage.compacted.compacted_part import Stretch
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.log import Log
from magnetar_storage.log.read_budget import Holding

logger = logging.getLogger(__name__)

AHEAD_ENTRIES = 1000
AHEAD_BYTES = 1 << 20
ENTRY_OVERHEAD = 128
"""The bytes that an entry needs besides its payload: object headers and slots of three lists."""
RETRY_SECONDS = 1.0
START_PROPERTY = "magnetar.compactedFrom"
"""A property of a durable cursor that is hidden from clients (`shown`)."""
STORED_START = re.compile(r"(-?\d{1,18}),(-?\d{1,18})", re.ASCII)
NOTHING = Stretch(0, 0, (), [], ())


class Start(NamedTuple):
    """The offset to begin at while the cursor is at `mark_delete`; the log may have trimmed it."""

    offset: int
    mark_delete: int

    @classmethod
    def at(cls, offset: int, log: Log) -> "Start":
        """Return the start of a new cursor that begins at an offset."""
        first = max(offset, log.first_offset)
        return cls(offset, log.holes.next_missing(first) - 1)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "Start | None":
        """Return the start that `as_properties` wrote; None without such a property."""
        found = STORED_START.fullmatch(properties.get(START_PROPERTY, ""))
        return None if found is None else cls(int(found[1]), int(found[2]))

    def as_properties(self) -> dict[str, str]:
        """Return the property to store with a durable cursor."""
        return {START_PROPERTY: f"{self.offset},{self.mark_delete}"}


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a durable cursor that clients have set."""
    return {key: value for key, value in properties.items() if key != START_PROPERTY}


def replaced(properties: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return a cursor's properties after clients replaced theirs by `new`."""
    start = Start.of(properties)
    return shown(new) | ({} if start is None else start.as_properties())


class CompactedReading:
    """The compacted entries of one subscription, read ahead; `ready` is called with new ones."""

    def __init__(
        self, view: CompactedLog, log: Log, cursor: Cursor, ready: Callable[[], None]
    ) -> None:
        self.failure: StorageError | None = None
        """The reason why compacted data is unreadable; reads are retried after `RETRY_SECONDS`."""
        self.start: Start | None = None
        self._ready = ready
        self._view = view
        self._log = log
        self._cursor = cursor
        self.delivered = cursor
        """The cursor by which acknowledged entries are left out; see `DeliveryCursor`."""
        self._ahead = NOTHING  # all compacted entries from `_ahead_from` to before `_ahead_to`
        self._ahead_from = self._ahead_to = 0
        self._holding = Holding(log.engine.reading, self._drop, ENTRY_OVERHEAD)
        self._logged = ""  # the last failure, so that one that lasts is logged once

    def first(self) -> int:
        """Return the offset to begin at after a seek or a change of the consumer."""
        self.clear()
        # The cursor cannot say where reading begins below the log's first entry: its mark-delete is
        # there already.  So the start applies until an acknowledgement has moved the cursor.
        mark_delete, start = self._cursor.mark_delete, self.start
        if start is not None and mark_delete <= self._moved_by_itself(start.mark_delete):
            return start.offset
        return mark_delete + 1

    def _moved_by_itself(self, mark_delete: int) -> int:
        """Return the offset up to which the cursor may have advanced without an acknowledgement.

        Trimming moves non-durable cursors; what a durable one has not acknowledged is not trimmed.
        """
        if isinstance(self._cursor, DurableCursor):
            return mark_delete
        return max(mark_delete, self._log.holes.next_missing(self._log.first_offset) - 1)

    def has(self, offset: int) -> bool:
        """Return whether the entries from this offset on are read from compacted data."""
        return offset < self._view.horizon

    def give(
        self, consumer: Consumer, offset: int, room: int, frames: FrameCache, partition: int
    ) -> int:
        """Send about `room` messages from `offset` on; return the offset to continue at.

        That is `offset` itself while entries are being read: `ready` is called then.
        """
        if not self._ahead_from <= offset < self._ahead_to:
            self._read(offset)
            return offset
        at = bisect_left(self._ahead.offsets, offset)
        part = self._ahead.cut(at, at + room)
        # The compacted data has no entry left in this stretch: go on after it.
        if not part.payloads:
            behind = self._ahead_to
            self.clear()
            return behind
        # As in `SingleActive`, a Failover consumer receives all keys, whatever ranges it names.
        exclusive = consumer.subscription.type == pb.CommandSubscribe.Exclusive
        wanted = self._wanted(part, consumer.key_shared.ranges if exclusive else ())
        # All of them are acknowledged, or outside of the consumer's ranges.
        if not wanted.payloads:
            return part.offsets[-1] + 1
        return self._send(consumer, wanted, room, frames, partition)

    def clear(self) -> None:
        """Release the memory: no consumer reads at present."""
        self._holding.release()

    def _drop(self) -> None:
        """Forget the entries that are held."""
        self._ahead, self._ahead_from, self._ahead_to = NOTHING, 0, 0

    def _wanted(self, stretch: Stretch, ranges: Sequence[tuple[int, int]]) -> Stretch:
        """Return the first entries that can be sent together: whole ones, or one acked in part.

        With hash ranges only the entries whose keys are in them.
        """
        kept: list[int] = []
        partial = self.delivered.partial
        for index, offset in enumerate(stretch.offsets):
            if self._is_acked(offset) or not _is_inside(stretch.payloads[index], ranges):
                continue
            # An entry that is acknowledged in part has an ack set in its frame, and is sent alone.
            if offset in partial and kept:
                break
            kept.append(index)
            if offset in partial:
                break
        return stretch._replace(
            offsets=[stretch.offsets[i] for i in kept],
            payloads=[stretch.payloads[i] for i in kept],
            counts=[stretch.counts[i] for i in kept],
        )

    def _is_acked(self, offset: int) -> bool:
        log = self._log
        # A log counts what it has trimmed as acknowledged, but the compacted copy is still wanted.
        trimmed = offset < log.first_offset or offset in log.holes
        return not trimmed and self.delivered.is_acked(offset)

    def _send(
        self, consumer: Consumer, stretch: Stretch, room: int, frames: FrameCache, partition: int
    ) -> int:
        mask = self.delivered.partial.get(stretch.offsets[0])
        if mask is not None:
            consumer.send_entry(
                stretch.ledger, stretch.entries[0], partition, stretch.payloads[0],
                mask.bit_count(), 0, mask_to_ack_set(mask),
            )  # fmt: skip
            return stretch.offsets[0] + 1
        n = entries_within(stretch.counts, room)
        part = stretch.cut(0, n)
        consumer.send_scattered(frames, part.ledger, part.entries, part.payloads, sum(part.counts))
        return part.offsets[-1] + 1

    def _read(self, offset: int) -> None:
        if self.failure is None:
            self._holding.read(AHEAD_ENTRIES, AHEAD_BYTES, partial(self._begin, offset))

    def _begin(self, offset: int, entries: int, size: int) -> None:
        self._log.engine.tasks.spawn(self._read_ahead(offset, entries, size), "dispatch")

    async def _read_ahead(self, offset: int, entries: int, size: int) -> None:
        # Taken before the read: a compaction may move the horizon while it runs, and an empty
        # result says nothing about entries up to the new one.
        horizon = max(self._view.horizon, offset + 1)
        try:
            await self._fetch(offset, horizon, entries, size)
        finally:
            self._holding.finished()

    async def _fetch(self, offset: int, horizon: int, entries: int, size: int) -> None:
        try:
            found = await self._view.read(offset, entries, size)
        except StorageError as error:
            self._failed(offset, error)
            return
        finally:
            self._holding.ended()
        self._logged = ""
        if self._holding.wanted:
            self._hold(offset, found, horizon)
        self._ready()

    def _hold(self, offset: int, found: Stretch | None, horizon: int) -> None:
        """Replace the held entries by those read from `offset` on; None means up to the horizon."""
        self._ahead, self._ahead_from = found or NOTHING, offset
        self._ahead_to = found.offsets[-1] + 1 if found else horizon
        self._holding.keep(self._holding.size_of(self._ahead.payloads))

    def _failed(self, offset: int, error: StorageError) -> None:
        trouble = (
            f"compacted data of {self._log.key} cannot be read from offset {offset}; trying again "
            f"every {RETRY_SECONDS:g} s: {error}"
        )
        if trouble != self._logged:
            logger.error("%s", trouble)
            self._logged = trouble
        self.failure = error
        # Trouble of the disk passes; damage is also shown by the broker's list of damage.
        if isinstance(error, Corrupt):
            self._note(error)
        self._log.engine.clock.later(RETRY_SECONDS, self._try_again)

    def _note(self, error: Corrupt) -> None:
        """Report damage of compacted data, which only a compaction replaces."""
        first, last, now_ms = error.first_entry, error.last_entry, self._log.engine.clock.now_ms()
        self._log.engine.damage.add(
            Damage(
                error.segment or 0, first or 0, last or 0, f"{error.why}; it has compacted data",
                error.file, error.offset, self._log.key, now_ms,
            )
        )  # fmt: skip

    def _try_again(self) -> None:
        self.failure = None
        self._ready()


def _is_inside(entry: bytes, ranges: Sequence[tuple[int, int]]) -> bool:
    if not ranges:
        return True
    slot = range_slot(sticky_key(entry))
    return any(first <= slot <= last for first, last in ranges)
