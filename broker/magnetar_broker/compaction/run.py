"""One compaction: find the last message of each key, then copy those messages.

Each of the two phases reads the existing compacted data and then the log after it, up to the end
that the log had when compaction began.  All messages are numbered from 0 in that order.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from magnetar_broker.base.pace import Pace
from magnetar_broker.compaction.message_keys import Reader, slots_of, survivor
from magnetar_broker.policies.compaction_rules import CompactionRules
from magnetar_storage.compacted.compacted_log import CompactedLog
from magnetar_storage.compacted.compacted_part import Stretch
from magnetar_storage.compacted.compacted_writer import CompactedWriter, Scratch
from magnetar_storage.compacted.latest_keys import Last, LatestKeys
from magnetar_storage.errors import Corrupt, Fenced, NoSegment, Unavailable
from magnetar_storage.interfaces import Run
from magnetar_storage.log.compacted_record import Compacted
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import next_in_neither

logger = logging.getLogger(__name__)

READ_ENTRIES = 1000
READ_BYTES = 512 << 10
SLICE_BYTES = 128 << 10
SLICE_MESSAGES = 200
"""The work between two turns of the event loop: about a millisecond."""


class CompactionRun:
    """Compacts the deliverable entries of a log.

    A cursor must hold the log from the horizon on, so that it is not trimmed.
    """

    def __init__(self, log: Log, view: CompactedLog, rules: CompactionRules) -> None:
        self._log = log
        self._view = view
        # promise[visible_end -> end]: compaction does not read open transactions
        self._end = log.visible_end
        self._retain_keyless = rules.retain_keyless
        self._pace = Pace(log.engine.clock, rules.bytes_per_second)
        self.bytes_read = 0
        self.removed = 0
        """The number of messages that were left out."""
        self._stopped = self._copying = False
        self._lost: dict[
            int, int
        ] = {}  # unreadable entries: the first offset, and the one after them
        self._numbered = 0

    def stop(self) -> None:
        """Make `run` end soon, with `Fenced`."""
        self._stopped = True
        self._pace.resume()

    async def run(self) -> Compacted:
        """Replace the compacted data; durable on return.

        After an error the old data is still in effect; if that is unknown the log has failed.
        """
        async with self._log.compacting.held():
            return await self._replace()

    async def _replace(self) -> Compacted:
        log = self._log
        spill, parts = Scratch(log), Scratch(log)
        writer = CompactedWriter(log, parts)
        try:
            latest = await self._find(spill)
            await self._copy(latest, writer)
            await writer.end(self._end)
        except BaseException:
            parts.settled()
            raise
        finally:
            spill.settled()
        compacted = await writer.list()
        parts.settled()
        self._view.forget_replaced()
        return compacted

    async def _find(self, scratch: Scratch) -> LatestKeys:
        """Find the last message of each key, which is the first phase."""
        log = self._log
        listed, first = self._view.listed, max(self._view.horizon, log.first_offset)
        messages = listed.messages + log.messages_end - await log.entries.messages_before(first)
        latest = LatestKeys(log, scratch, messages, self._turn)
        reader = Reader(latest.survivors, self._retain_keyless)
        number = 0
        async for part in self._slices():
            found: list[Last] = []
            for entry, count in zip(part.payloads, part.counts, strict=True):
                slots = slots_of(count)
                found += reader.look(entry, number, slots)
                number += slots
            await latest.add(found)
        self._numbered = number
        await latest.resolve()
        reader.keep_chunks()
        return latest

    async def _copy(self, latest: LatestKeys, writer: CompactedWriter) -> None:
        """Copy the messages that survive (phase two)."""
        self._copying = True
        number = 0
        async for part in self._slices():
            offsets: list[int] = []
            payloads: list[bytes] = []
            counts: list[int] = []
            for offset, entry, count in zip(part.offsets, part.payloads, part.counts, strict=True):
                slots = slots_of(count)
                bits = latest.survivors.get(number, slots)
                number += slots
                self.removed += slots - bits.bit_count()
                if bits:
                    offsets.append(offset)
                    payloads.append(survivor(entry, bits, slots))
                    counts.append(count)
            await writer.add(part._replace(offsets=offsets, payloads=payloads, counts=counts))
        if number != self._numbered:  # phase one numbered other entries: its survivors do not apply
            raise self._changed()

    async def _slices(self) -> AsyncIterator[Stretch]:
        """Yield all entries in pieces, at the configured pace; raise when the log closes."""
        async for stretch in self._all():
            for part in _cut(stretch):
                self._check()
                yield part
                size = sum(map(len, part.payloads))
                self.bytes_read += size
                await self._pace.after(size)

    async def _turn(self) -> None:
        await self._pace.after()
        self._check()

    def _check(self) -> None:
        if self._log.failed is not None:
            raise self._log.failed.again()
        if self._stopped:
            raise Fenced(f"{self._log.key} was being compacted when it was closed")

    async def _all(self) -> AsyncIterator[Stretch]:
        at = 0
        while stretch := await self._view.read(at, READ_ENTRIES, READ_BYTES):
            yield stretch
            at = stretch.offsets[-1] + 1
        log = self._log
        at = max(self._view.horizon, log.first_offset)
        # promise[next_in_neither(log.holes, log.hidden, at) -> log.holes.next_missing(at)]:
        #   compaction leaves out aborted messages
        while (at := next_in_neither(log.holes, log.hidden, at)) < self._end:
            if at in self._lost:
                at = self._lost[at]
                continue
            run = await self._read(at)
            if run is not None:
                ledger, entry = log.position(at)
                offsets = range(at, at + len(run.payloads))
                at = offsets.stop
                yield Stretch(ledger, offsets.start - entry, offsets, run.payloads, run.counts)

    async def _read(self, at: int) -> Run | None:
        """Return entries of the log up to its end or damage; None if they begin with damage.

        Phase two skips what phase one could not read, so that both number messages alike.
        """
        stop = min((lost for lost in self._lost if lost > at), default=self._end)
        # promise: compaction stops before aborted messages
        stop = min(stop, self._log.hidden.next_present(at) or stop)
        try:
            run = await self._log.entries.read(at, min(READ_ENTRIES, stop - at), READ_BYTES)
        except (Corrupt, NoSegment) as error:
            if self._copying or self._log.failed is not None:
                raise
            self._lost[at] = behind = self._log.entries.behind_damage(at, error)
            logger.warning("compaction of %s leaves out offsets %d to %d, which cannot be read: %s",
                           self._log.key, at, behind - 1, error)  # fmt: skip
            return None
        if run.first != at or not run.payloads:
            raise self._changed()
        return run

    def _changed(self) -> Unavailable:
        return Unavailable(f"{self._log.key} has changed while it was compacted: try again")


def _cut(stretch: Stretch) -> Sequence[Stretch]:
    """Divide entries into pieces that each take about a millisecond to handle."""
    parts, start, size, messages = [], 0, 0, 0
    for at, (entry, count) in enumerate(zip(stretch.payloads, stretch.counts, strict=True), 1):
        size, messages = size + len(entry), messages + count
        if size >= SLICE_BYTES or messages >= SLICE_MESSAGES:
            parts.append(stretch.cut(start, at))
            start, size, messages = at, 0, 0
    if start < len(stretch.payloads):
        parts.append(stretch.cut(start, len(stretch.payloads)))
    return parts
