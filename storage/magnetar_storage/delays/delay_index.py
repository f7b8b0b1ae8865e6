"""The index of delayed entries: which entries are to be delivered later, and when.

The latest delays are in memory, and stored in the cursor segment (`recent_delays`).
When there are many they become a sorted run in a segment of its own (`delay_run`), of which
at most a block is in memory.  The waiting offsets are a set of bits.  A restart reads that set,
and no times.

An entry's metadata contain its delay too.  So the index may be incomplete: dispatchers must
read the delay of `unsure` entries from the entries themselves.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from magnetar_storage.delays.delay_block import BLOCK, MAX_TIME, Block
from magnetar_storage.delays.delay_run import (
    DelayRun,
    Loaded,
    load_run,
    write_run,
)
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import SegmentKind
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet, ranges_of
from magnetar_storage.runtime.execution import Done, settling, yield_turn
from magnetar_storage.runtime.mutex import Mutex

RUN = 1 << 15
"""The number of delays that stay in memory, and the approximate number in a run."""
STEP = BLOCK
"""The most delays that `release` returns, and the words of a run that are loaded in a turn."""
MERGED = 4
"""The number of runs that are merged when they have at most `RUN` delays left together."""


class DelayIndex:
    """The delays of one topic, shared by its subscriptions."""

    def __init__(
        self,
        log: Log,
        recent: RecentDelays,
        changed: Callable[[Done | None], None],
        forgot: Callable[[StorageError], None],
        run: int = RUN,
    ) -> None:
        self.waiting = OffsetSet()
        """The entries that must not be delivered yet."""
        # promise[recent.recorded_to, log.end -> 0]: entries that the index missed in a crash are
        #   read
        self.unsure = range(recent.recorded_to, log.end)
        """The entries that may be delayed although the index does not have them."""
        self._log = log
        self._recent = recent
        self._changed = changed
        self._forgot = forgot
        self._run = run
        self._runs: list[DelayRun] = []
        self._runs_at: int | None = None  # when the next delay of a run is over
        self._working = Mutex(log.engine.clock)
        """A mutex for the one coroutine that may read, write or delete runs."""
        self._moving = self._closed = False
        self._trimmed_to = log.first_offset

    @classmethod
    async def open(
        cls,
        log: Log,
        recent: RecentDelays,
        changed: Callable[[Done | None], None],
        forgot: Callable[[StorageError], None],
        run: int = RUN,
    ) -> "DelayIndex":
        """Load the stored index; the cursor log has replayed `recent` before.

        `changed` must report a change of `recent` to the cursor log, and call back when it is
        durable.  `forgot` is called with damage; no delay is lost by that, since the entries
        become `unsure`.
        """
        self = cls(log, recent, changed, forgot, run)
        recent.known_to = self._known_to
        if not recent.recorded_to and not recent and not log.record.delay_segments:
            return self  # nothing was ever delayed
        await self._load()
        await self._forget_beyond(log.end)
        first = log.first_offset
        # A run is listed before its delays leave the recent ones: after a crash in between they are
        # in both.
        recent.keep(lambda offset: first <= offset and offset not in self.waiting)
        self._wait(recent.offsets())  # promise: the latest delays hold after a restart
        self.waiting.remove_below(first)
        return self

    async def _forget_beyond(self, end: int) -> None:
        """Remove delays of entries that a crash has lost: other entries will get their offsets."""
        self.waiting.remove(end, MAX_TIME)
        for run in [run for run in self._runs if run.stop > end]:
            await self._merge([run])
        if any(offset >= end for offset in self._recent.offsets()):
            self._recent.keep(lambda offset: offset < end)
            self._recent.moved()
            # Stored before those offsets are used again, or a later start would delay other
            # entries.
            await self._record()

    async def _load(self) -> None:
        useless, damaged = [], False
        for segment in self._log.record.delay_segments:
            try:
                loaded = await load_run(self._log.engine.store, segment)
            except (Corrupt, NoSegment) as error:
                self._forgot(error)
                self.unsure, damaged = range(self._log.end), True
                loaded = None
            if loaded is None or loaded.run.stop <= self._log.first_offset:
                # If it is unfinished, its delays are still among the recent ones.
                useless.append(segment)
            else:
                await self._take_over(loaded)
        if damaged:  # promise: it is durable that entries are unsure before their run goes
            await self._record()
        if useless:
            await self._log.stored_record.drop_delay_segments(useless)

    async def _take_over(self, loaded: Loaded) -> None:
        self._set_runs([*self._runs, loaded.run])
        for at in range(0, len(loaded.words), STEP):
            for offset, bits in loaded.words[at : at + STEP]:
                self.waiting.add_bits(offset, bits)
            await yield_turn(self._log.engine.clock)

    # Adding -----------------------------------------------------------------------

    def add(self, offsets: Sequence[int], times: Sequence[int]) -> None:
        """Add durable entries, at least one, in order; times are in milliseconds since 1970."""
        if self._closed:
            return  # they are `unsure`, see `close`
        first, last = offsets[0], offsets[-1]
        if last - first < len(offsets):  # the usual case: nothing per message
            self.waiting.add(first, last + 1)
        else:
            self._wait(offsets)
        self._recent.add(offsets, times)
        self._changed(None)
        if len(self._recent) > self._run and not self._moving:
            # Not set by the coroutine, which begins later: the next `add` must not begin another.
            self._moving = True
            self._log.engine.tasks.spawn(self._move())

    def _wait(self, offsets: Iterable[int]) -> None:
        for start, stop in ranges_of(offsets):
            self.waiting.add(start, stop)

    async def _move(self) -> None:
        """Move the recent delays to a run."""
        try:
            async with self._working.held():
                try:
                    await self._move_all()
                except StorageError as error:
                    # Before others continue: delays on their way to a run are in neither place.
                    self._log.fail(error)
        finally:
            self._moving = False

    async def _move_all(self) -> None:
        while len(self._recent) > self._run and not self._closed:
            run = await self._write(self._recent.move())
            # The run is durable; until the change of `recent` is, a restart finds the delays twice.
            self._set_runs([*self._runs, run])
            self._recent.moved()
            self._changed(None)

    async def _write(self, parts: Sequence[Block]) -> DelayRun:
        """Write a new run of sorted blocks, listed first so that a crash leaks no segment."""
        engine = self._log.engine
        writer = await engine.store.create(self._log.origin_of(SegmentKind.DELAYS))
        try:
            await self._log.stored_record.add_delay_segment(writer.segment)
        except StorageError:
            await self._log.stored_record.discard_unlisted(writer.segment)
            raise
        try:
            return await write_run(writer, engine.clock, parts)
        except StorageError:
            with suppress(StorageError):  # else the next start deletes it as unfinished
                await self._log.stored_record.drop_delay_segments([writer.segment])
            raise

    # Releasing --------------------------------------------------------------------

    @property
    def next_at(self) -> int | None:
        """The time at which the next delay is over; None if there is no delay."""
        times = (self._runs_at, self._recent.next_at)
        return min((time for time in times if time is not None), default=None)

    def _set_runs(self, runs: list[DelayRun]) -> None:
        """Replace the runs, or update `next_at` after delays were taken from them."""
        self._runs = runs
        times = (run.next_at for run in runs)
        self._runs_at = min((time for time in times if time is not None), default=None)

    async def release(self, until_ms: int) -> list[int]:
        """Take some thousand entries, in order, whose delay is over; they wait no longer.

        Call this again until it returns none.
        """
        async with self._working.held():
            while not self._closed:
                taken = self._recent.take(until_ms, STEP) or await self._take(until_ms)
                if not taken:
                    await self._tidy()
                    break
                # Runs are never changed: they still have the delays of entries that were trimmed.
                due = sorted({offset for offset in taken if offset in self.waiting})
                for start, stop in ranges_of(due):
                    self.waiting.remove(start, stop)  # promise: what is due no longer waits
                if due:
                    return due
            return []

    async def _take(self, until_ms: int) -> Sequence[int]:
        """Take delays that are over from the first run that has any."""
        for run in self._runs:
            try:
                taken = await run.take(self._log.engine.store, until_ms)
            except (Corrupt, NoSegment) as error:
                taken = await self._forget(run, error)
            if taken:
                self._set_runs(self._runs)
                return taken
        return ()

    async def _forget(self, damaged: DelayRun, error: StorageError) -> list[int]:
        """Drop a damaged run; its entries become `unsure` and are returned as released."""
        self._forgot(error)
        known = OffsetSet()
        for start, stop in ranges_of(sorted(self._recent.offsets())):
            known.add(start, stop)
        for run in self._runs:
            with suppress(Corrupt, NoSegment):  # then the entries of that run become unsure as well
                loaded = await load_run(self._log.engine.store, run.segment)
                for offset, bits in loaded.words if loaded and run is not damaged else ():
                    known.add_bits(offset, bits)
        # Waiting entries that are in no other place were in the damaged run.
        lost = [
            offset
            for start, stop in self.waiting
            for gap in known.missing(start, stop)
            for offset in range(*gap)
        ]
        if lost:
            start, stop = min(lost[0], self.unsure.start), max(lost[-1] + 1, self.unsure.stop)
            self.unsure = range(start, stop) if self.unsure else range(lost[0], lost[-1] + 1)
        await self._record()
        # Dropped last: a crash in between finds the damage again, and loses no delay.
        await self._drop([damaged])
        return lost

    # Maintenance -----------------------------------------------------------------------

    async def _tidy(self) -> None:
        """Delete runs that are used up, and merge several that nearly are."""
        # promise[not run.left -> run.left < self._run]: a run of delays is deleted only when none
        #   is left
        used_up = [run for run in self._runs if not run.left]
        if used_up:
            await self._drop(used_up)
        small: list[DelayRun] = []
        left = 0
        for run in sorted(self._runs, key=lambda run: run.left):
            left += run.left
            if left > self._run:
                break
            small.append(run)
        if len(small) >= MERGED:
            await self._merge(small)

    async def _merge(self, small: list[DelayRun]) -> None:
        parts: list[Block] = []
        try:
            for run in small:
                for block in await run.rest(self._log.engine.store):
                    part = block.only(self.waiting.__contains__)
                    if part.times:
                        parts.append(part)
        except (Corrupt, NoSegment):
            return  # `_take` handles the damage when the run is due
        if parts:
            # Written before the small ones are dropped: every delay is always in one run at least.
            self._set_runs([*self._runs, await self._write(parts)])
        await self._drop(small)

    async def _drop(self, runs: list[DelayRun]) -> None:
        self._set_runs([run for run in self._runs if run not in runs])
        await self._log.stored_record.drop_delay_segments([run.segment for run in runs])

    async def trim(self) -> None:
        """Remove the delays of entries that the log has deleted."""
        first = self._log.first_offset
        if first == self._trimmed_to:
            return
        async with self._working.held():
            self._trimmed_to = first
            self.waiting.remove_below(first)
            self._recent.trim(first)
            trimmed = [run for run in self._runs if run.stop <= first]
            if trimmed:
                await self._drop(trimmed)

    # What is known ----------------------------------------------------------------

    def suspend(self) -> None:
        """Note that the caller adds no entries until `resume`: they are `unsure`."""
        self.unsure = range(self._known_to(), MAX_TIME)

    def resume(self) -> None:
        """Note that the caller adds entries again, from the end of the log on."""
        self.unsure = range(self.unsure.start, self._log.end)

    def looked_at(self, start: int, stop: int) -> None:
        """Note that the caller has read start..stop-1 and added the delayed entries."""
        if start <= self.unsure.start:  # else damage has made earlier entries unsure
            self.unsure = range(max(stop, self.unsure.start), self.unsure.stop)

    def _known_to(self) -> int:
        unsure = self.unsure
        trimmed = max(unsure.start, self._log.first_offset) >= unsure.stop
        return self._log.end if trimmed else unsure.start

    async def _record(self) -> None:
        """Store the offset up to which the index is complete, before replaced runs are deleted."""
        promise = self._log.engine.clock.promise()
        self._recent.note()
        self._changed(settling(promise))
        await promise

    async def close(self) -> None:
        """Store the offset up to which the index is complete; close the cursor log after that.

        `add` has no effect any more.
        """
        self._closed = True
        self.suspend()
        async with self._working.held():
            recorded = self._recent.recorded_to
            if (recorded or self._recent or self._runs) and recorded != self._known_to():
                self._recent.note()
                self._changed(None)
