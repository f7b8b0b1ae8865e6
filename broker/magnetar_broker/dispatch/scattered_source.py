"""Entries that are apart in the log, such as redelivered ones: from memory, or joined reads."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count

from magnetar_broker.dispatch.entry_source import EntrySource
from magnetar_broker.dispatch.unsent_buffer import BY_OFFSET_OVERHEAD
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log
from magnetar_storage.log.read_budget import Holding

GATHERED_ENTRIES = 5000
GATHERED_BYTES = 1 << 20
GATHERED_STRETCHES = 200
GAP = 16
"""The largest gap between wanted entries that is read as well: cheaper than two reads."""

Stretch = tuple[int, int]
"""Consecutive entries, as (start, stop)."""


class ScatteredSource(EntrySource):
    """The source of scattered entries, such as delayed ones.

    When one is not in memory, the ones that are wanted next are read with it.
    """

    def __init__(self, log: Log, ready: Callable[[], None]) -> None:
        super().__init__(log, ready)
        self._gathered: dict[int, tuple[bytes, int]] = {}
        self._holding = Holding(log.engine.reading, self._drop, BY_OFFSET_OVERHEAD)

    def take(
        self,
        offset: int,
        max_entries: int,
        max_bytes: int,
        wanted: Callable[[], Iterable[Stretch]],
    ) -> Run | None:
        """Return entries from `offset` on, all of one segment; None without any, or during a read.

        `wanted` yields what will be asked for next, in order, `offset` first.
        """
        end = self._log.segment_end(offset)
        if offset >= end or self.failure is not None:
            return None
        # A run must not cross a segment: its entries have one ledger id in their frames.
        max_entries = min(max_entries, end - offset)
        # What is redelivered was often sent a moment ago, and is still in the cache.
        run = self._log.tail.get(offset, max_entries, max_bytes)
        if run is not None:
            return run
        found: list[tuple[bytes, int]] = []
        for entry in map(self._gathered.get, range(offset, offset + max_entries)):
            # A run has no gaps: the rest is asked for by itself.
            if entry is None:
                break
            found.append(entry)
        if found:
            return Run(
                offset, [payload for payload, _ in found], [messages for _, messages in found]
            )
        self._holding.use(self._log.entries.budget_at(offset))
        self._holding.read(GATHERED_ENTRIES, GATHERED_BYTES, partial(self._begin, wanted))
        return None

    def clear(self) -> None:
        """Release the memory, because nothing is wanted at present."""
        self._holding.release()

    def _drop(self) -> None:
        self._gathered = {}

    def _begin(self, wanted: Callable[[], Iterable[Stretch]], entries: int, size: int) -> None:
        # The entries wanted at first may have been acknowledged while the read waited for its turn.
        stretches = joined(wanted(), entries)
        self._log.engine.tasks.spawn(self._gather(stretches, size), "dispatch")

    async def _gather(self, stretches: Sequence[Stretch], size: int) -> None:
        gathered: dict[int, tuple[bytes, int]] = {}
        try:
            await self._fetch(stretches, gathered, size)
            # They replace the entries of the read before, so one read is the most that is held.  If
            # they are not wanted any more, since the consumers have left, nothing is.
            self._gathered = gathered if self._holding.wanted else {}
            payloads = [payload for payload, _ in self._gathered.values()]
            self._holding.keep(self._holding.size_of(payloads))
            self._ready()
        finally:
            self._holding.finished()

    async def _fetch(
        self, stretches: Sequence[Stretch], gathered: dict[int, tuple[bytes, int]], size: int
    ) -> None:
        try:
            await self._read(stretches, gathered, size)
        except StorageError as error:
            # A failure further on is met again once that entry is wanted itself, and what has
            # been trimmed meanwhile need not be read.
            first, _ = stretches[0]
            if not gathered and first >= self._log.first_offset:
                self._failed(first, error)
        finally:
            self._holding.ended()

    async def _read(
        self, stretches: Sequence[Stretch], gathered: dict[int, tuple[bytes, int]], left: int
    ) -> None:
        entries = self._log.entries
        budget = entries.budget_at(stretches[0][0])
        for start, stop in stretches:
            # The read has its memory from one budget: what is elsewhere is wanted again, as below.
            if entries.budget_at(start) is not budget:
                return
            at = start
            while at < stop:
                # Read without the rest: what is missing is wanted again, and read then.
                if left <= 0:
                    return
                run = await entries.read(at, stop - at, left)
                entries.from_disk += len(run.payloads)
                if not run.payloads:
                    return
                found = zip(run.payloads, run.counts, strict=True)
                gathered.update(zip(count(run.first), found, strict=False))
                left -= sum(map(len, run.payloads))
                at = run.first + len(run.payloads)


def joined(stretches: Iterable[Stretch], most: int = GATHERED_ENTRIES) -> list[Stretch]:
    """Return the first stretches of some in order, with `most` entries, joined over small gaps."""
    found: list[Stretch] = []
    entries = 0
    for start, stop in stretches:
        if entries >= most:
            break
        end = min(stop, start + most - entries)
        entries += end - start
        if found and start - found[-1][1] <= GAP:
            found[-1] = (found[-1][0], end)
        elif len(found) < GATHERED_STRETCHES:
            found.append((start, end))
        else:
            break
    return found
