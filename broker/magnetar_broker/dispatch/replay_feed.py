"""The source of entries that are delivered again: memory if recent, else read together."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count

from magnetar_broker.dispatch.feed import Source
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log

GATHERED_ENTRIES = 5000
GATHERED_BYTES = 1 << 20
GATHERED_STRETCHES = 200
GAP = 16
"""Gaps of so many entries between wanted ones are read as well: cheaper than two reads."""

Stretch = tuple[int, int]
"""Consecutive entries, as (start, stop)."""


class ReplayFeed(Source):
    """Scattered entries, such as delayed ones.

    When one is not in memory, the ones that are wanted next are read with it.
    """

    def __init__(self, entries: Log, ready: Callable[[], None]) -> None:
        super().__init__(entries, ready)
        self._gathered: dict[int, tuple[bytes, int]] = {}

    def take(
        self,
        offset: int,
        max_entries: int,
        max_bytes: int,
        wanted: Callable[[], Iterable[Stretch]],
    ) -> Run | None:
        """Entries from `offset` on, all of one segment; None while they are read, or if none exist.

        `wanted` yields what will be asked for next, in order, `offset` first.
        """
        end = self._log.segment_end(offset)
        if offset >= end or self.failure is not None:
            return None
        max_entries = min(max_entries, end - offset)
        run = self._log.tail.get(offset, max_entries, max_bytes)
        if run is not None:
            return run
        found: list[tuple[bytes, int]] = []
        for entry in map(self._gathered.get, range(offset, offset + max_entries)):
            if entry is None:
                break
            found.append(entry)
        if found:
            return Run(
                offset, [payload for payload, _ in found], [messages for _, messages in found]
            )
        self._wanted = True
        if not self._reading:
            self._reading = True
            self._log.engine.tasks.spawn(self._gather(offset, joined(wanted())))
        return None

    def clear(self) -> None:
        """Release the memory: nothing is wanted at present."""
        self._gathered = {}
        self._wanted = False

    async def _gather(self, offset: int, stretches: Sequence[Stretch]) -> None:
        gathered: dict[int, tuple[bytes, int]] = {}
        try:
            await self._read(stretches, gathered)
        except StorageError as error:
            # A failure further on is met again once that entry is wanted itself, and what has
            # been trimmed meanwhile need not be read.
            if not gathered and offset >= self._log.first_offset:
                self._failed(offset, error)
        finally:
            self._reading = False
        self._gathered = gathered if self._wanted else {}
        self._ready()

    async def _read(
        self, stretches: Sequence[Stretch], gathered: dict[int, tuple[bytes, int]]
    ) -> None:
        left = GATHERED_BYTES
        for start, stop in stretches:
            at = start
            while at < stop:
                if left <= 0:
                    return
                run = await self._log.entries.read(at, stop - at, left)
                if not run.payloads:
                    return
                entries = zip(run.payloads, run.counts, strict=True)
                gathered.update(zip(count(run.first), entries, strict=False))
                left -= sum(map(len, run.payloads))
                at = run.first + len(run.payloads)


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The first stretches of some in order, as many as are read at once, joined over small gaps."""
    found: list[Stretch] = []
    entries = 0
    for start, stop in stretches:
        if entries >= GATHERED_ENTRIES:
            break
        end = min(stop, start + GATHERED_ENTRIES - entries)
        entries += end - start
        if found and start - found[-1][1] <= GAP:
            found[-1] = (found[-1][0], end)
        elif len(found) < GATHERED_STRETCHES:
            found.append((start, end))
        else:
            break
    return found
