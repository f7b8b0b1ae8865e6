"""The scrubber: reads closed segments slowly, to find damage before readers do."""

import logging
from collections.abc import Iterator
from contextlib import suppress

from magnetar_broker.base.metadata_keys import TOPICS
from magnetar_broker.base.pace import Pace
from magnetar_broker.config import Settings
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import SegmentId, Versioned
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log_record import LogRecord, Segment, is_unused
from magnetar_storage.log.sparse_segment import SparseReader
from magnetar_storage.runtime.execution import yield_turn

logger = logging.getLogger(__name__)

SCRUBBING = "reading of closed ledgers to find damage"
LOOKS = 168
"""The number of times per interval that `look` runs: once an hour for an interval of a week."""
LONGEST_SECONDS = 3600
READ_ENTRIES = 1000
READ_BYTES = 256 << 10
"""The most bytes of one read, small so that consumers do not wait for it."""
PAUSE_EVERY = 1000
"""Segments that are handled before the rest of the broker gets a turn."""
RECORDS = 50
"""The records that are decoded before the rest of the broker gets a turn."""
STEP, OTHER_STEP = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Odd numbers without a pattern, which spread segments over an interval."""
OF_TOPIC = "the segment has cursors, delays or compacted data"


class Scrubber:
    """Checks every closed segment of a process once in an interval, at a different time in each.

    When a segment is due follows from its id and the time alone, so nothing is stored: a broker
    that starts again continues, and leaves out segments that were due meanwhile.
    """

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.scrubbed_bytes = 0
        """The number of bytes that were read since the start."""
        self.seconds = settings.magnetar_scrub_interval_in_seconds
        self._rate = settings.magnetar_scrub_bytes_per_second
        self._engine = engine
        self._looked_ms = engine.clock.now_ms()
        self._stopped = False
        self._last_key = ""
        """The key of the log with the last damage found; the next is likely to be there, too."""

    @property
    def look_seconds(self) -> int:
        """The interval of `look` in seconds; 0 if scrubbing is switched off."""
        return min(max(self.seconds // LOOKS, 1), LONGEST_SECONDS) if self.seconds else 0

    def stop(self) -> None:
        """End a running `look` soon."""
        self._stopped = True

    async def look(self) -> None:
        """Check the segments that have become due since the last call."""
        now_ms = self._engine.clock.now_ms()
        # The range spans two intervals, so it contains a whole one: every segment is due in it.
        since_ms = max(self._looked_ms, now_ms - 2 * self.seconds * 1000)
        self._looked_ms = now_ms
        pace = Pace(self._engine.clock, self._rate)
        for count, segment in enumerate(self._engine.store.closed(), 1):
            if self._stopped:
                return
            if is_due(segment, since_ms, now_ms, self.seconds * 1000):
                try:
                    await self._check(segment, pace)
                except StorageError as error:  # the others are checked all the same
                    logger.warning("ledger %d could not be checked: %s", segment, error)
            if count % PAUSE_EVERY == 0:
                await yield_turn(self._engine.clock)

    async def _check(self, segment: SegmentId, pace: Pace) -> None:
        """Read a segment to its end, and record the damage found."""
        entry = 0
        try:
            reader = await self._engine.store.reader(segment)
            while not (self._stopped or self._engine.damage.is_full):
                try:
                    run = await reader.read(entry, READ_ENTRIES, READ_BYTES)
                except Corrupt as error:
                    if error.first_entry is None or error.last_entry is None:
                        raise
                    await self._note(segment, error, error.first_entry, error.last_entry)
                    entry = error.last_entry + 1
                    await pace.after()
                    continue
                if not run.payloads:
                    return
                size = sum(map(len, run.payloads))
                self.scrubbed_bytes += size
                entry += len(run.payloads)
                await pace.after(size)
        except Corrupt as error:
            await self._note(segment, error, 0, 0)
        except NoSegment as error:
            if segment in self._engine.store.closed():  # else the segment was deleted meanwhile
                await self._note(segment, Corrupt("", 0, str(error)), 0, 0)

    async def _note(self, segment: SegmentId, error: Corrupt, first: int, last: int) -> None:
        """Note damage in a segment of the store, unless the damaged entries were set aside."""
        key, record = await self._listing(segment)
        damage = Damage(
            segment, first, last, error.why, error.file, error.offset, key,
            self._engine.clock.now_ms(),
        )  # fmt: skip
        of_messages = None if record is None else await self._of_messages(segment, record, damage)
        if of_messages is not None:
            listed, damage = of_messages
            if listed.has_lost(damage.first, damage.last):
                return  # promise: entries that were set aside are not reported again
        elif record is not None:
            damage = damage._replace(why=f"{damage.why}; {OF_TOPIC}")
        self._engine.damage.add(damage)

    async def _of_messages(
        self, segment: SegmentId, record: LogRecord, damage: Damage
    ) -> tuple[Segment, Damage] | None:
        """Return damage with the ids that clients see, and its segment; None without messages."""
        for one in record.segments:
            if one.is_whole and one.id == segment:
                return one, damage
        if not any(one.kept_in == segment for one in record.segments):
            return None
        try:
            sparse = await SparseReader.open(self._engine.store, segment)
        except (Corrupt, NoSegment):
            return None
        offset = sparse.map.offset_of(max(damage.first, sparse.map.pieces))
        for one, base in _with_bases(record):
            if base <= offset < base + (one.entries or 0):
                first = offset - base
                last = min(first + damage.entries, one.entries or 0) - 1
                return one, damage._replace(segment=one.id, first=first, last=last)
        return None

    async def _listing(self, segment: SegmentId) -> tuple[str, LogRecord | None]:
        """Return the key and the record of the log that lists a segment, by searching all logs.

        Only for damage, which is rare.
        """
        metadata, after = self._engine.metadata, ""
        last = await metadata.get(self._last_key) if self._last_key else None
        if (record := _listing_record(self._last_key, last, segment)) is not None:
            return self._last_key, record
        while page := await metadata.read_under(TOPICS, after, RECORDS):
            for key, found in page:
                if (record := _listing_record(key, found, segment)) is not None:
                    self._last_key = key
                    return key, record
            after = page[-1][0]
        return "", None


def _listing_record(
    key: str, found: Versioned | Corrupt | None, segment: SegmentId
) -> LogRecord | None:
    """Return the record of a log if that lists the segment; None otherwise."""
    if isinstance(found, Versioned) and not is_unused(found.value):
        with suppress(Corrupt):  # the topic cannot be loaded, which is reported
            record = LogRecord.decode(key, found.value)
            return record if segment in record.listed else None
    return None


def is_due(segment: SegmentId, since_ms: int, now_ms: int, interval_ms: int) -> bool:
    """Return whether the time of a segment is after `since_ms` and not after `now_ms`.

    Each segment has one time in every interval, which differs from interval to interval.
    """
    first, last = since_ms // interval_ms, now_ms // interval_ms
    return any(
        since_ms
        < number * interval_ms + _within(segment, number) * interval_ms // (1 << 64)
        <= now_ms
        for number in range(first, last + 1)
    )


def _within(segment: SegmentId, number: int) -> int:
    """Return the place of a segment in an interval, of 2^64 places."""
    mixed = (segment * STEP + number * OTHER_STEP) % (1 << 64)
    return (mixed ^ mixed >> 31) * STEP % (1 << 64)


def _with_bases(record: LogRecord) -> Iterator[tuple[Segment, int]]:
    """Yield the segments of a log, each with the offset of its first entry."""
    base = record.first_offset
    for one in record.segments:
        yield one, base
        base += one.entries or 0
