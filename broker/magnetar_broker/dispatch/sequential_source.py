"""The entries of a log in order, read from disk ahead of a dispatcher that catches up."""

from collections.abc import Callable
from functools import partial

from magnetar_broker.dispatch.entry_source import EntrySource
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.cache import ENTRY_OVERHEAD
from magnetar_storage.log.damage import LASTING
from magnetar_storage.log.log import Log
from magnetar_storage.log.read_budget import Holding

AHEAD_ENTRIES = 5000
AHEAD_BYTES = 1 << 20
NOTHING = Run(0, [], ())


class SequentialSource(EntrySource):
    """The source of entries that have left the cache of recent ones; `NewEntries` asks it.

    A dispatcher that reads on where the last read ended is catching up: then the next stretch is
    read while the present one is sent.
    """

    def __init__(self, log: Log, ready: Callable[[], None]) -> None:
        super().__init__(log, ready)
        self._runs = log.engine.read_runs
        self._ahead = self._next = NOTHING
        self._ahead_bytes = self._next_bytes = 0
        self._holding = Holding(log.engine.reading, self._drop, ENTRY_OVERHEAD)

    def stops_at(self, offset: int) -> bool:
        """Return whether a failure stands in the way of reading at an offset."""
        if self.failure is None:
            return False
        if offset == self._failed_at or not isinstance(self.failure, LASTING):
            return True
        self.failure = None  # a seek has moved away from the damage
        return False

    def take(self, offset: int, max_entries: int) -> Run | None:
        """Return entries from `offset` on that were read ahead; if none were, start to read them.

        They are all of one segment.  `ready` is called when they are there.
        """
        if offset == self._next.first and self._next.payloads:  # catching up: read one ahead again
            self._hold(self._next, self._next_bytes)
            self._read_on()
        at = offset - self._ahead.first
        if 0 <= at < len(self._ahead.payloads):
            payloads = self._ahead.payloads[at : at + max_entries]
            self._runs.add(len(payloads))
            return Run(offset, payloads, self._ahead.counts[at : at + len(payloads)])
        self._holding.use(self._log.entries.budget_at(offset))
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
        # From where the cache begins nothing is read: `NewEntries` takes it from there.
        if offset < self._log.end and self._log.tail.get(offset, 1, 1) is None:
            begin = partial(self._begin, offset, False)
            self._holding.use(self._log.entries.budget_at(offset))
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
            # It follows the stretch before, so the one after it will be wanted as well.
            if behind:
                self._read_on()
        elif behind:
            self._next, self._next_bytes = run, size
            self._holding.keep(self._ahead_bytes + size)


def _end_of(run: Run) -> int:
    return run.first + len(run.payloads)
