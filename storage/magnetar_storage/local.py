"""Segments on a local disk: a journal for all of them, and a file for each.

An append is durable with its round in the journal.  Segment files are written behind;
a checkpoint brings them up to date and drops the journal before it.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial

from magnetar_storage import layout, recovery, segment
from magnetar_storage import limits as sizes
from magnetar_storage.checkpoint import Row
from magnetar_storage.disk import Disk, Lock
from magnetar_storage.errors import Corrupt, Fenced, NoSegment, StorageError, Unavailable
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.journal import Journal, JournalFiles, Observe
from magnetar_storage.limits import Limits
from magnetar_storage.local_segment import LocalReader, LocalWriter, Segment
from magnetar_storage.record import CREATE, DELETE, SEAL, SEALED_BODY, encode
from magnetar_storage.recovery import Finding, Recovered
from magnetar_storage.segment import Index
from magnetar_storage.world import Clock, Workers, settling
from magnetar_storage.write_behind import WriteBehind

Report = Callable[[Finding], None]


class LocalStore:
    """The `SegmentStore` of one data directory; make it with `open`."""

    def __init__(
        self,
        disk: Disk,
        workers: Workers,
        clock: Clock,
        limits: Limits,
        recovered: Recovered,
        lock: Lock,
        observe: Observe | None,
        timer: Callable[[], float] | None,
        report: Report | None,
    ) -> None:
        start = recovered.checkpoint
        self.findings: list[Finding] = recovered.findings
        """What was found wrong at the start and, without `report`, since."""
        self._tell = report or self.findings.append
        self._disk = disk
        self._workers = workers
        self._clock = clock
        self._lock = lock
        self._observe = observe
        self._next = start.next_segment
        self._loaded_limit = limits.loaded_segments
        self._finished = recovered.finished
        self._rows = start.rows
        self._segments: dict[SegmentId, Segment] = {}
        self._loaded: OrderedDict[SegmentId, Segment] = OrderedDict()
        self._files = JournalFiles(
            disk, start.position, limits.journal_file_bytes, salt=clock.now_ms()
        )
        self._journal = Journal(
            self._files, workers.journal, clock, start.position, limits.round_bytes,
            self._after_round, timer,
        )  # fmt: skip
        self._write_behind = WriteBehind(
            disk, workers.background, clock, limits, self._journal, self._segments, start,
            self._describe, self._finish, self._report,
        )  # fmt: skip

    @classmethod
    async def open(
        cls,
        disk: Disk,
        workers: Workers,
        clock: Clock,
        limits: Limits = sizes.DEFAULT,
        observe: Observe | None = None,
        timer: Callable[[], float] | None = None,
        report: Report | None = None,
    ) -> "LocalStore":
        """Lock the directory and replay the journal; then look at `findings`.

        `report` is told what is found wrong later on.

        `observe` is told of every commit round; `timer` is a monotonic clock for it, which
        the journal's worker calls.
        """
        lock, recovered = await workers.background.run(partial(_open, disk, limits))
        return cls(disk, workers, clock, limits, recovered, lock, observe, timer, report)

    @property
    def trouble(self) -> StorageError | None:
        return self._journal.trouble

    @property
    def is_failing(self) -> bool:
        return self._journal.full or self._journal.trouble is not None

    async def create(self) -> LocalWriter:
        number, self._next = self._next, self._next + 1
        made = Segment(number, Index(), 0)
        await self._commit(CREATE, number, b"", lambda: self._segments.update({number: made}))
        return LocalWriter(made, self._journal, self._clock, self._seal)

    async def recover(self, segment: SegmentId) -> Sealed:
        fenced = Fenced(f"segment {segment} was recovered")
        if segment in self._segments:
            return await self._seal(self._segments[segment], fenced)
        if segment in self._rows:
            return await self._seal_row(segment, self._rows[segment])
        found = await self._find(segment)
        return found.sealed or await self._seal(found, fenced)

    async def reader(self, segment: SegmentId) -> LocalReader:
        return LocalReader(await self._find(segment), self._disk, self._workers.reads)

    async def delete(self, segment: SegmentId) -> None:
        open_one = self._segments.get(segment)
        if open_one is not None:
            open_one.refusal = NoSegment(f"segment {segment} was deleted")
        elif segment not in self._rows and segment not in self._finished:
            return
        await self._commit(DELETE, segment, b"", lambda: self._deleted(segment))

    async def segments(self) -> AsyncIterator[SegmentId]:
        for number in sorted(self._finished | set(self._rows) | set(self._segments)):
            yield number

    async def checkpoint(self) -> None:
        """Bring segment files up to date and let the journal before now go."""
        promise = self._clock.promise()
        self._write_behind.checkpoint(settling(promise))
        await promise

    async def close(self) -> None:
        drained = self._clock.promise()
        self._journal.when_drained(lambda: drained.set_result(None))
        await drained
        in_order = self._journal.failure is None
        self._journal.end(Unavailable("the store is closed"))
        self._write_behind.stop()
        try:
            await self.checkpoint()
            if in_order:
                await self._workers.journal.run(self._files.end)
        finally:
            self._write_behind.stop()
            self._files.close()
            self._lock.close()

    async def _seal(self, one: Segment, refusal: StorageError) -> Sealed:
        """Let nothing more in, and settle the end behind what was appended already."""
        one.refusal = one.refusal or refusal
        if one.sealed is None:
            sealed = one.index.sealed()
            await self._commit(
                SEAL, one.id, SEALED_BODY.pack(*sealed), partial(_settle, one, sealed)
            )
            return sealed
        return one.sealed

    async def _seal_row(self, number: SegmentId, row: Row) -> Sealed:
        """The same for a segment of an earlier process, without reading it."""
        self._refuse_suspect(number, row)
        sealed = Sealed(row.entries, row.messages, row.size)

        def apply() -> None:
            row.sealed = True
            if number in self._segments:
                self._segments[number].sealed = sealed

        if not row.sealed:
            await self._commit(SEAL, number, SEALED_BODY.pack(*sealed), apply)
        return sealed

    async def _find(self, number: SegmentId) -> Segment:
        """The segment with its index, which is read if it is not in memory."""
        if number in self._segments:
            return self._segments[number]
        if number in self._loaded:
            self._loaded.move_to_end(number)
            return self._loaded[number]
        if number in self._rows:
            return await self._load_row(number, self._rows[number])
        if number in self._finished:
            return await self._load_finished(number)
        raise NoSegment(f"there is no segment {number}")

    async def _load_row(self, number: SegmentId, row: Row) -> Segment:
        self._refuse_suspect(number, row)
        job = partial(
            segment.load_unfinished, self._disk, number, row.length, row.entries, row.messages
        )
        index = await self._workers.reads.run(job)
        if number in self._rows:
            sealed = Sealed(row.entries, row.messages, row.size) if row.sealed else None
            loaded = Segment(number, index, index.offsets[-1] if row.length else 0, sealed)
            loaded.refusal = Fenced(f"segment {number} is of an earlier process")
            self._segments[number] = loaded
            del self._rows[number]
        return await self._find(number)

    async def _load_finished(self, number: SegmentId) -> Segment:
        index, trouble = await self._workers.reads.run(partial(segment.load, self._disk, number))
        if number not in self._finished:
            raise NoSegment(f"segment {number} was deleted")
        if trouble is not None:
            self._tell(Finding(segment.file_name(number), 0, trouble, number))
        if number not in self._loaded:
            self._keep(Segment(number, index, index.offsets[-1], index.sealed()))
        return self._loaded[number]

    def _refuse_suspect(self, number: SegmentId, row: Row) -> None:
        if row.suspect:
            raise Corrupt(
                segment.file_name(number), row.length,
                f"entries may be missing at its end ({row.suspect})", number,
            )  # fmt: skip

    async def _commit(
        self, kind: int, number: SegmentId, body: bytes, apply: Callable[[], object]
    ) -> None:
        """Journal a record; `apply` as soon as it is durable, before anything later is."""
        promise = self._clock.promise()
        settle = settling(promise)

        def done(error: BaseException | None) -> None:
            if error is None:
                apply()
            settle(error)

        record = encode(kind, number, body)
        self._journal.append((record,), len(record), number, 0, done)
        await promise

    def _deleted(self, number: SegmentId) -> None:
        gone = self._segments.pop(number, None) or self._loaded.pop(number, None)
        if gone is not None:
            gone.deleted = True
        self._rows.pop(number, None)
        self._finished.discard(number)
        self._write_behind.remove(number)

    def _finish(self, one: Segment) -> None:
        """The segment's file is complete: its index need not stay in memory."""
        del self._segments[one.id]
        self._finished.add(one.id)
        self._keep(one)

    def _keep(self, one: Segment) -> None:
        self._loaded[one.id] = one
        if len(self._loaded) > self._loaded_limit:
            self._loaded.popitem(last=False)

    def _describe(self) -> tuple[SegmentId, dict[SegmentId, Row]]:
        return self._next, {number: replace(row) for number, row in self._rows.items()}

    def _after_round(self, records: int, size: int, seconds: float | None) -> None:
        self._write_behind.after_round(size)
        if self._observe is not None:
            self._observe(records, size, seconds)

    def _report(self, error: BaseException) -> None:
        text = f"segments and checkpoints cannot be written at present: {error}"
        self._tell(Finding("segments", 0, text))


def _settle(one: Segment, sealed: Sealed) -> None:
    one.sealed = sealed


def _open(disk: Disk, limits: Limits) -> tuple[Lock, Recovered]:
    lock = disk.lock(layout.LOCK_FILE)
    try:
        layout.prepare(disk)
        return lock, recovery.recover(disk, limits)
    except BaseException:
        lock.close()
        raise
