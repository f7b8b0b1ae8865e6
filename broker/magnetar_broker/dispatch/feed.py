"""A dispatcher's source of new entries: memory if they are recent, else read ahead from disk."""

import logging
from collections.abc import Callable
from functools import partial

from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.cache import ENTRY_OVERHEAD
from magnetar_storage.log.damage import LASTING, Damage
from magnetar_storage.log.log import Log
from magnetar_storage.log.read_budget import Holding

logger = logging.getLogger(__name__)

AHEAD_ENTRIES = 5000
AHEAD_BYTES = 1 << 20
NOTHING = Run(0, [], ())
RETRY_SECONDS = 1.0


class Source:
    """The source of a log's entries for a dispatcher; `ready` is called for more or a retry."""

    def __init__(self, entries: Log, ready: Callable[[], None]) -> None:
        self.failure: StorageError | None = None
        """The reason why the entries cannot be read.  Damage stays until a seek or a new consumer
        calls `retry`; any other error is retried after `RETRY_SECONDS`."""
        self._log = entries
        self._ready = ready
        self._failed_at = 0

    def retry(self) -> None:
        """Clear a failure, so that the next `take` reads again."""
        self.failure = None

    def give_up(self) -> range:
        """Return the range that damage has made unreadable, to be skipped; empty without damage."""
        error, at = self.failure, self._failed_at
        if not isinstance(error, LASTING):
            return range(0)
        self.failure = None
        return range(at, self._log.entries.behind_damage(at, error))

    @property
    def damage(self) -> Damage | None:
        """The damaged entries that stop it; None if no damage does."""
        error = self.failure
        log, at = self._log, self._failed_at
        if not isinstance(error, LASTING) or not log.first_offset <= at < log.end:
            return None
        return log.entries.damage_at(at, error)

    def _failed(self, offset: int, error: StorageError) -> None:
        # Damage was logged when it was found (`FoundDamage`), not again for each reader.
        if self.failure is None and not isinstance(error, LASTING):
            logger.error(
                "%s cannot be read for delivery from offset %d on: %s",
                self._log.key, offset, error,
            )  # fmt: skip
        self.failure, self._failed_at = error, offset
        if not isinstance(error, LASTING):
            self._log.engine.clock.later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self.failure = None
        self._ready()


class Feed(Source):
    """The source of entries in order.

    A dispatcher that reads on where the last read ended is catching up: then the next stretch is
    read while the present one is sent.
    """

    def __init__(self, entries: Log, ready: Callable[[], None]) -> None:
        super().__init__(entries, ready)
        self._cached, self._from_disk = entries.engine.cached_runs, entries.engine.read_runs
        self._ahead = self._next = NOTHING
        self._ahead_bytes = self._next_bytes = 0
        self._holding = Holding(entries.engine.reading, self._drop, ENTRY_OVERHEAD)

    def take(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Return entries from `offset` on, all of one segment; None if none are available yet."""
        log = self._log
        # promise[min(log.segment_end(offset), log.visible_end) -> log.segment_end(offset)]: a
        #   subscription does not read behind an open transaction
        end = min(log.segment_end(offset), log.visible_end)
        if offset >= end:
            self.clear()
            return None
        if self.failure is not None:
            if offset == self._failed_at or not isinstance(self.failure, LASTING):
                return None
            self.failure = None  # a seek has moved away from the damage
        max_entries = min(max_entries, end - offset)
        run = self._log.tail.get(offset, max_entries, max_bytes)
        if run is not None:
            # promise: entries delivered from the cache count as read
            self._log.entries.from_cache += len(run.payloads)
            # promise: runs delivered from the cache are counted
            self._cached.add(len(run.payloads))
            self.clear()
            return run
        if offset == self._next.first and self._next.payloads:  # catching up: read one ahead again
            self._hold(self._next, self._next_bytes)
            self._read_on()
        at = offset - self._ahead.first
        if 0 <= at < len(self._ahead.payloads):
            payloads = self._ahead.payloads[at : at + max_entries]
            self._from_disk.add(len(payloads))
            return Run(offset, payloads, self._ahead.counts[at : at + len(payloads)])
        self._holding.read(AHEAD_ENTRIES, AHEAD_BYTES, partial(self._begin, offset, True))
        return None

    def clear(self) -> None:
        """Release the memory, because nothing is wanted at present."""
        if self._holding.wanted or self._ahead is not NOTHING:
            self._holding.release()
            self._ahead = NOTHING

    def _drop(self) -> None:
        # The offset where they end is kept: a dispatcher that continues there is still catching up.
        self._ahead, self._next = Run(_end_of(self._ahead), [], ()), NOTHING
        self._ahead_bytes = self._next_bytes = 0

    def _hold(self, ahead: Run, size: int) -> None:
        """Replace the held entries by these, of `size` bytes together."""
        self._ahead, self._next = ahead, NOTHING
        self._ahead_bytes, self._next_bytes = size, 0
        self._holding.keep(size)

    def _begin(self, offset: int, wanted: bool, entries: int, size: int) -> None:
        self._log.engine.tasks.spawn(self._read(offset, wanted, entries, size), "dispatch")

    def _read_on(self) -> None:
        """Read the stretch after the present one, unless it is in the cache of recent entries."""
        offset = _end_of(self._ahead)
        if offset < self._log.end and self._log.tail.get(offset, 1, 1) is None:
            begin = partial(self._begin, offset, False)
            self._holding.read_ahead(AHEAD_ENTRIES, AHEAD_BYTES, begin)

    async def _read(self, offset: int, wanted: bool, entries: int, size: int) -> None:
        try:
            run = await self._fetch(offset, wanted, entries, size)
            if run is not None and self._holding.wanted:
                self._arrived(run, wanted)
            self._ready()  # promise: the dispatcher is notified of entries that were read
        finally:
            self._holding.finished()

    async def _fetch(self, offset: int, wanted: bool, entries: int, size: int) -> Run | None:
        try:
            run = await self._log.entries.read(offset, entries, size)
            self._log.entries.from_disk += len(run.payloads)
            return run
        except StorageError as error:
            # A stretch read ahead is read again once it is wanted, and what has been trimmed
            # meanwhile need not be read: neither is a failure yet.
            if wanted and offset >= self._log.first_offset:
                self._failed(offset, error)
            return None
        finally:
            self._holding.ended()

    def _arrived(self, run: Run, wanted: bool) -> None:
        behind = run.first == _end_of(self._ahead) > 0
        size = self._holding.size_of(run.payloads)
        if wanted:
            self._hold(run, size)
            if behind:
                self._read_on()
        elif behind:
            self._next, self._next_bytes = run, size
            self._holding.keep(self._ahead_bytes + size)


def _end_of(run: Run) -> int:
    return run.first + len(run.payloads)
