"""Segments on a local disk: a journal for all of them, and a file for each.

An append is durable with its round in the journal.  Segment files are written later
(`write_behind`); a checkpoint brings them up to date and drops the journal before it.

A segment is in one of four places: `_segments` (in memory, with its index, and not finished in
its file), `_rows` (unfinished, of an earlier process, index not read yet), `_finished` (its file
has a footer), and of the finished ones the recently used in `_loaded`, with their index.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import Corrupt, DiskFull, Fenced, NoSegment, StorageError, Unavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import DamagedEntries, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local import (
    index_file,
    layout,
    quarantine,
    recovery,
    segment_ids,
    segment_origin,
)
from magnetar_storage.local import limits as sizes
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Checkpoint, Row
from magnetar_storage.local.finished_segments import FinishedSegments
from magnetar_storage.local.journal import Journal, JournalFiles, JournalPosition, Observe
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.open_indexes import OpenIndexes
from magnetar_storage.local.record import CREATE, DELETE, SEAL, SEALED_BODY, encode
from magnetar_storage.local.recovery import Finding, Recovered
from magnetar_storage.local.segment_file import Index
from magnetar_storage.local.segment_writer import LocalReader, LocalSegment, LocalWriter
from magnetar_storage.local.spare_segments import Made, SpareSegments
from magnetar_storage.local.write_behind import Capture, Take, WriteBehind
from magnetar_storage.runtime.disk import Disk, Lock, ReadableDisk
from magnetar_storage.runtime.execution import Clock, Done, Promise, Workers, settling
from magnetar_storage.runtime.mutex import Mutex
from magnetar_storage.space.disk_space import SpaceState

Report = Callable[[Finding], None]

NO_SEGMENT = 0
"""An id that no segment has."""


class LocalStore:
    """The `SegmentStore` of one store directory; create it with `open`."""

    def __init__(
        self,
        disk: Disk,
        workers: Workers,
        clock: Clock,
        limits: Limits,
        directory: int,
        recovered: Recovered,
        lock: Lock,
        observe: Observe | None,
        timer: Callable[[], float] | None,
        report: Report | None,
        written: Callable[[float], None] | None,
        space: SpaceState,
    ) -> None:
        start = recovered.checkpoint
        self.findings: list[Finding] = recovered.findings
        """Damage found at the start and, without `report`, since."""
        self.replayed_bytes = recovered.journal_bytes
        """The bytes of the journal that the start has read."""
        self._add_finding = report or self.findings.append
        self._disk = disk
        self._workers = workers
        self._clock = clock
        self._lock = lock
        self._observe = observe
        self._directory = directory
        self._space = space
        self._next = start.next_segment
        self._passed = start.next_segment - 1
        """The last id that is no longer assigned: a restart knows of it, whatever it loses."""
        self._passing = Mutex(clock)
        self._changes_size = 0
        """Bytes of the records of this round that are not entries."""
        self._finished = recovered.finished
        self._quarantined = recovered.quarantined
        self.identity: Callable[[], Identity] = lambda: start.identity
        """Returns the identity that checkpoints note; set by the caller that knows the metadata."""
        self._rows = start.rows
        self._segments: dict[SegmentId, LocalSegment] = {}
        self._loaded = FinishedSegments(
            disk, workers.reads, limits.loaded_segments, self._add_finding
        )
        self._files = JournalFiles(
            disk, start.position, limits.journal_file_bytes, clock.now_ms(),
            lambda: self.identity().directory, space.make_room, lambda: space.refusal is None,
        )  # fmt: skip
        self._journal = Journal(
            self._files, workers.journal, clock, start.position, limits, self._after_round, timer,
            written,
        )  # fmt: skip
        self._journal.ran_out = space.ran_out
        space.add_journal(lambda: self._journal.full, self._probe)
        self._spares = SpareSegments(clock, limits.spare_segments, self._make, self._remove)
        self._write_behind = WriteBehind(
            disk, workers.background, clock, limits, self._journal, self._segments, start,
            OpenIndexes(limits.index_bytes, recovered.index_files), self._describe, self._finish,
            self._report, space,
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
        directory: int = 0,
        lock: Lock | None = None,
        written: Callable[[float], None] | None = None,
        space: SpaceState | None = None,
    ) -> "LocalStore":
        """Lock the directory and replay the journal; the caller must check `findings` then.

        `report` is called with damage that is found later.  `observe` is called for every
        commit round; `timer` is a monotonic clock for it, called in the journal's thread.
        `directory` is the number of the store directory, whose root is that of `disk`.  A caller
        that has locked it already passes the `lock`, which the store closes.  `written` is called
        before the records of a round are reported, with the seconds that it took with its wait.
        `space` tells whether the disk has room.
        """
        held, recovered = await workers.background.run(
            partial(_open, disk, limits, directory, lock)
        )
        return cls(
            disk,
            workers,
            clock,
            limits,
            directory,
            recovered,
            held,
            observe,
            timer,
            report,
            written,
            space or SpaceState(),
        )  # fmt: skip

    @property
    def trouble(self) -> StorageError | None:
        return self._journal.trouble

    @property
    def is_failing(self) -> bool:
        return self._journal.full or self._journal.trouble is not None

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> LocalWriter:
        # The ids of this directory ascend in any case.
        if segment_ids.directory_of(beyond) != self._directory:
            await self.advance_beyond(beyond)
        if self.is_failing:
            # A segment created ahead would be handed out without a write.  Creating one writes to
            # the journal, so the caller gets the error here and not with its first append.
            self._spares.drop()
        made = await self._spares.take()
        # promise: an id that was made before an advance is not given out after it
        while made.id <= self._passed:  # it was on its way when `advance_beyond` was called
            self._remove(made)
            made = await self._spares.take()
        return LocalWriter(made, self._journal, self._clock, self._seal, origin, self._name)

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        found = await self._find(segment)
        if found.origin:
            named = segment_origin.of(found.origin)
        elif found.length:
            read = partial(segment_origin.read, self._disk, segment)
            named = await self._workers.reads.run(read)
        else:
            named = None  # the segment has no file yet
        return None if named is None else named.origin

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

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        ends: dict[SegmentId, Sealed] = {}
        for number in segments:
            with suppress(NoSegment, Corrupt):  # a log has deleted it meanwhile; it stays
                ends[number] = await self.recover(number)
                if number in self._rows:
                    await self._find(number)  # only a segment in memory can be given a footer
        # Completes their files, so that no start writes them again from the journal.
        # promise: a segment that was set aside is not written again by the next start
        await self.checkpoint()
        moved = {number: end for number, end in ends.items() if number in self._finished}
        for number in moved:
            del self._finished[number]
            self._loaded.pop(number)
        self._quarantined.update(moved)
        if moved:
            # promise: a start does not miss what was set aside
            await self.checkpoint()
            # If it fails some files may have moved: `take_back` finds them in both places.
            put = partial(quarantine.put, self._disk, moved, why, self._clock.now_ms())
            await self._workers.background.run(put)
        return moved

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        put = partial(quarantine.put_damaged, self._disk, entries, why, self._clock.now_ms())
        await self._workers.background.run(put)

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        expire = partial(quarantine.expire, self._disk, before_ms)
        expired = await self._workers.background.run(expire)
        self._quarantined -= expired
        return expired

    async def segments(self) -> AsyncIterator[SegmentId]:
        present = self._finished.keys() | self._rows.keys() | self._segments.keys()
        for number in sorted(present - self._spares.ids):
            yield number

    def closed(self) -> list[SegmentId]:
        return sorted(self._finished)

    @property
    def last_id(self) -> SegmentId:
        """An upper bound of all segment ids, past and present, of this directory."""
        return self._next - 1

    async def advance_beyond(self, segment: SegmentId) -> None:
        """Assign only ids above `segment` from now on; durable on return.

        This is for a topic that had its segments in another directory: clients compare ledger ids,
        so its next one must be the largest.  The ids that follow name this directory.
        """
        async with self._passing.held():
            if segment <= self._passed:
                return
            # promise[max(segment, self.last_id) -> segment]: an advance never goes back below ids
            #   that were given out
            skipped = segment_ids.first_above(max(segment, self.last_id), self._directory)
            self._next = segment_ids.following(skipped)
            # Write the deletion of a segment that never existed: recovery takes the last id from
            # any record. Without it a start that has lost the last round would not know that id.
            # promise: how far ids have advanced is durable
            await self._commit(DELETE, skipped, b"", lambda: None)
            self._passed = skipped

    async def finish(self, segment: SegmentId) -> None:
        """Recover the segment, and complete its file.

        From then on other processes may read the file until the segment is deleted.  Its name need
        not be durable: until the next checkpoint, a start makes the file again from the journal.
        """
        if segment in self._finished:
            return
        await self.recover(segment)
        if segment in self._rows:
            # promise: a segment of an earlier life gets its footer
            await self._find(segment)  # only a segment in memory can be given a footer
        if segment not in self._finished:
            promise = self._clock.promise()
            self._write_behind.finish(segment, settling(promise))
            await promise
        if segment not in self._finished:
            raise NoSegment(f"segment {segment} was deleted")

    async def finished_file(self, segment: SegmentId) -> ReadableDisk:
        """Finish the segment, and return the disk that has its file."""
        await self.finish(segment)
        return self._disk

    async def checkpoint(self) -> None:
        """Bring segment files up to date and drop the journal before now."""
        promise = self._clock.promise()
        self._write_behind.checkpoint(settling(promise))
        await promise

    def capture(self, take: Take) -> tuple[Promise, Promise]:
        """Write a checkpoint, and let `take` have its files before anything else is done to them.

        The first promise is settled when the content of the checkpoint is fixed, so that no
        deletion can change it: it has everything that was durable when this was called.  The
        second promise is settled when `take` has returned, or with the error.
        See `write_behind.Capture`.
        """
        begun, done = self._clock.promise(), self._clock.promise()
        settle = settling(begun)
        self._write_behind.capture(Capture(lambda: settle(None), take, settling(done)))
        return begun, done

    async def close(self) -> None:
        self._spares.stop()
        drained = self._clock.promise()
        self._journal.when_drained(lambda: drained.set_result(None))
        await drained
        in_order = self._journal.failure is None
        self._journal.end(Unavailable("the store is closed"))
        self._write_behind.stop()
        try:
            await self._last_checkpoint()
            if in_order:
                await self._workers.journal.run(self._files.end)
        finally:
            self._write_behind.stop()
            self._files.close()
            try:
                await self._workers.background.run(self._space.set_aside)
            finally:
                self._lock.close()

    async def _last_checkpoint(self) -> None:
        """Write a checkpoint, on a full disk with the room that is set aside; if that fails, the
        next start reads the journal."""
        with suppress(DiskFull):  # was reported
            try:
                await self.checkpoint()
            except DiskFull:
                await self._workers.background.run(self._space.make_room)
                await self.checkpoint()

    def _make(self, call: Made) -> None:
        """Journal a new segment; `call` gets it when it is durable, or the error."""
        number, self._next = self._next, segment_ids.following(self._next)
        made = LocalSegment(number, Index(), 0)

        def done(error: BaseException | None) -> None:
            if error is None:
                self._segments[number] = made
                call(made, None)
            else:
                call(None, error)

        # promise[self._record(CREATE, number, b"", done) -> done(None)]: a segment is used only
        #   when its creation is durable
        self._record(CREATE, number, b"", done)

    def _probe(self) -> None:
        """Write a record without effect: the deletion of a segment that never existed."""
        self._record(DELETE, NO_SEGMENT, b"", lambda _: None)

    def _name(self, made: LocalSegment, origin: SegmentOrigin) -> None:
        """Store the origin with the first entries: in their round, or in an earlier one."""
        record = segment_origin.encoded(made.id, origin, self.identity())
        made.origin = record
        made.index.begin(segment.RECORDS_AT + len(record))
        # promise: a segment that has entries has its origin
        self._queue(record, made.id, _nothing)

    def _remove(self, spare: LocalSegment) -> None:
        """Delete an unused segment, which has no file."""

        def done(error: BaseException | None) -> None:
            # After an error it stays, like one that a crash leaves: the next start deletes it.
            if error is None:
                del self._segments[spare.id]

        self._record(DELETE, spare.id, b"", done)

    async def _seal(self, one: LocalSegment, refusal: StorageError) -> Sealed:
        """Refuse further appends, and settle the end after those already queued."""
        one.refusal = one.refusal or refusal
        if one.sealed is None:
            sealed = one.index.sealed()
            await self._commit(
                SEAL, one.id, SEALED_BODY.pack(*sealed), partial(_settle, one, sealed)
            )
            return sealed
        return one.sealed

    async def _seal_row(self, number: SegmentId, row: Row) -> Sealed:
        """Seal a segment of an earlier process without reading its file."""
        self._refuse_suspect(number, row)
        sealed = Sealed(row.entries, row.messages, row.size)

        def apply() -> None:
            if number in self._segments:
                self._segments[number].sealed = sealed
            elif number in self._rows:
                # Not changed in place: a checkpoint that is being gathered has the row as it was.
                self._rows[number] = replace(row, sealed=True)

        if not row.sealed:
            await self._commit(SEAL, number, SEALED_BODY.pack(*sealed), apply)
        return sealed

    async def _find(self, number: SegmentId) -> LocalSegment:
        """Return a segment with its index, which is read from the file unless it is in memory."""
        if number in self._segments:
            return self._segments[number]
        loaded = self._loaded.present(number)
        if loaded is not None:
            return loaded
        if number in self._rows:
            return await self._load_row(number, self._rows[number])
        if number in self._finished:
            return await self._load_finished(number)
        if number in self._quarantined:
            return await self._take_back(number)
        raise NoSegment(f"there is no segment {number}")

    async def _take_back(self, number: SegmentId) -> LocalSegment:
        """Move a segment back from quarantine: it is used, so a topic lists it after all."""
        take_back = partial(quarantine.take_back, self._disk, number)
        self._finished[number] = await self._workers.background.run(take_back)
        self._quarantined.discard(number)
        text = f"segment {number}: taken back from {quarantine.DIRECTORY}, because a topic lists it"
        self._add_finding(Finding(segment.file_name(number), 0, text, number))
        return await self._find(number)

    async def _load_row(self, number: SegmentId, row: Row) -> LocalSegment:
        self._refuse_suspect(number, row)
        job = partial(
            index_file.load_unfinished, self._disk, number, row.length, row.entries, row.messages
        )
        index = await self._workers.reads.run(job)
        now = self._rows.get(number)  # it may have been sealed meanwhile
        if now is not None:
            sealed = Sealed(row.entries, row.messages, row.size) if now.sealed else None
            loaded = LocalSegment(number, index, index.offsets[-1] if row.length else 0, sealed)
            loaded.refusal = Fenced(f"segment {number} is of an earlier process")
            self._segments[number] = loaded
            del self._rows[number]
        return await self._find(number)

    async def _load_finished(self, number: SegmentId) -> LocalSegment:
        loaded = await self._loaded.load(number)
        if number not in self._finished:
            self._loaded.pop(number)
            raise NoSegment(f"segment {number} was deleted")
        return loaded

    def _refuse_suspect(self, number: SegmentId, row: Row) -> None:
        if row.suspect:
            raise Corrupt(
                segment.file_name(number), row.length,
                f"entries may be missing at its end ({row.suspect})", number,
            )  # fmt: skip

    async def _commit(
        self, kind: int, number: SegmentId, body: bytes, apply: Callable[[], object]
    ) -> None:
        """Journal a record; `apply` is called when it is durable, before any later record's."""
        promise = self._clock.promise()
        settle = settling(promise)

        def done(error: BaseException | None) -> None:
            if error is None:
                apply()
            settle(error)

        self._record(kind, number, body, done)
        await promise

    def _record(self, kind: int, number: SegmentId, body: bytes, done: Done) -> None:
        self._queue(encode(kind, number, body), number, done)

    def _queue(self, record: bytes, number: SegmentId, done: Done) -> None:
        """Journal a record that holds no entries."""

        def counted(error: BaseException | None) -> None:
            if error is None:
                self._changes_size += len(record)
            done(error)

        self._journal.append(record, len(record), number, 0, None, counted)

    def _deleted(self, number: SegmentId) -> None:
        deleted = self._segments.pop(number, None) or self._loaded.pop(number)
        if deleted is not None:
            deleted.deleted = True
        self._rows.pop(number, None)
        self._finished.pop(number, None)
        self._write_behind.remove(number, 0 if deleted is None else deleted.unwritten_bytes)

    def _finish(self, one: LocalSegment, size: int) -> None:
        """Note that a segment's file has a footer, so that its index can leave memory."""
        del self._segments[one.id]
        self._finished[one.id] = size
        self._loaded.keep(one)

    def _describe(self) -> Checkpoint:
        """Return a checkpoint of segments not in memory; the caller sets number and position."""
        rows, finished = dict(self._rows), dict(self._finished)
        return Checkpoint(0, JournalPosition(0, 0, 0), self._next, rows, finished, self.identity())

    def _after_round(self, records: int, size: int, seconds: float | None) -> None:
        changes_size, self._changes_size = self._changes_size, 0
        self._write_behind.after_round(size, size - changes_size)
        if self._observe is not None:
            self._observe(records, size, seconds)

    def _report(self, what: str, error: BaseException) -> None:
        text = f"{what} cannot be written at present: {error}"
        self._add_finding(Finding("segments", 0, text))


def _nothing(error: BaseException | None) -> None:
    """Ignore the outcome: the entries after an origin have the same one."""


def _settle(one: LocalSegment, sealed: Sealed) -> None:
    one.sealed = sealed


def _open(disk: Disk, limits: Limits, directory: int, lock: Lock | None) -> tuple[Lock, Recovered]:
    lock = lock or disk.lock(layout.LOCK_FILE)
    try:
        layout.prepare(disk, directory)
        recovered = recovery.recover(disk, limits, directory)
        if recovered.lost:
            raise recovery.missing_files(recovered.lost)
        return lock, recovered
    except BaseException:
        lock.close()
        raise
