"""The journal: group commit for the whole store.

Everything appended in one turn of the owner's loop, or while a round is being
written, shares one write and one sync.  Rounds are written one after the other; one
that is large enough waits at the worker for the one before it.

The way of a record is `Journal.append`, `Journal._begin` at the end of the turn,
`CommitRound.write` in the journal's thread, and `Journal._finished` back on the loop.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from magnetar_storage.errors import DiskFull, Unavailable
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import CRC_BYTES, Buffers, flat
from magnetar_storage.local.rounds import (
    CLEAN_END,
    DIRECTORY_BYTES_PER_RECORD,
    FIRST_ROUND_AT,
    ROUND_HEADER,
    FileHead,
    encode_file_head,
    encode_round,
    file_name,
    mark_of,
    seeds,
    spare_name,
)
from magnetar_storage.runtime.disk import Disk, File
from magnetar_storage.runtime.execution import Clock, Done, Worker

JOIN_BELOW_BYTES = 4096
"""Buffers of a round smaller than this on average are joined: on the owner's thread, which has
the interpreter anyway."""

ROUNDS_IN_FLIGHT = 2
"""The most rounds in flight: one that is being written, and one that waits at the worker."""

Observe = Callable[[int, int, float | None], None]
"""Called for each durable round: records, bytes, and seconds on the disk if a timer was given."""


class JournaledSegment:
    """A segment whose entries are on their way to the disk, as the journal sees it."""

    __slots__ = ("committed_blocks",)

    def __init__(self, committed_blocks: int) -> None:
        self.committed_blocks = committed_blocks
        """The number of durable records of entries; the journal counts each when it reports it."""

    def failed(self, error: BaseException) -> None:
        """Note that a record of entries failed; called for each, before the record is reported."""
        raise NotImplementedError


class CommitRound:
    """Records that are made durable together: gathered, written in the thread, then reported.

    They are kept as columns.  A record is not an object: each run of entries is one, and runs of
    one entry are many.
    """

    __slots__ = (
        "buffers",
        "encoded",
        "entries",
        "files",
        "outcomes",
        "owners",
        "seconds",
        "segments",
        "since",
        "size",
        "sizes",
        "timer",
    )

    def __init__(self, files: "JournalFiles", timer: Callable[[], float] | None) -> None:
        """`timer`, if there is one, is called in the thread, to measure the write."""
        self.files = files
        self.timer = timer
        self.buffers: list[Buffers] = []
        self.sizes: list[int] = []
        """Bytes of each record."""
        self.segments: list[int] = []
        """The ids of the segments that the records are about."""
        self.entries: list[int] = []
        """The number of entries that each record adds; 0 for a change of the segment itself."""
        self.owners: list[JournaledSegment | None] = []
        """The segment whose `committed_blocks` the record counts in, if it holds entries."""
        self.outcomes: list[Done] = []
        """Called once with the outcome, in order: None when the record is durable, else the error.
        `DiskFull`: it was not written.  Any other error: unknown, and the journal has ended."""
        self.size = 0
        """Bytes of all records."""
        self.encoded: list[bytes] | None = None
        """The whole round as bytes, if `JournalFiles.prepare` could make them."""
        self.since = 0.0
        """The time at which the first record was queued, if a timer was given."""
        self.seconds: float | None = None
        """The time that the write took, if a timer was given."""

    def split(self, limit: int) -> "CommitRound":
        """Remove the first records: all within `limit` bytes, and at least one."""
        size = n = 0
        for record_size in self.sizes:
            # One record may exceed the limit: it would never be written otherwise.
            if n and size + record_size > limit:
                break
            size += record_size
            n += 1
        taken = CommitRound(self.files, self.timer)
        taken.size = size
        self.size -= size
        taken.buffers, self.buffers = self.buffers[:n], self.buffers[n:]
        taken.sizes, self.sizes = self.sizes[:n], self.sizes[n:]
        taken.segments, self.segments = self.segments[:n], self.segments[n:]
        taken.entries, self.entries = self.entries[:n], self.entries[n:]
        taken.owners, self.owners = self.owners[:n], self.owners[n:]
        taken.outcomes, self.outcomes = self.outcomes[:n], self.outcomes[n:]
        return taken

    def write(self) -> "JournalPosition":
        """Write and sync the round, in the journal's thread; return the place after it."""
        if self.timer is None:
            return self.files.write(self)
        began = self.timer()
        position = self.files.write(self)
        self.seconds = self.timer() - began
        return position

    def report_durable(self) -> None:
        """Report every record as durable, in the order of the appends."""
        owners, outcomes = self.owners, self.outcomes
        for i in range(len(outcomes)):  # compiled, it takes a third of the time of a `zip`
            owner = owners[i]
            if owner is not None:
                owner.committed_blocks += 1
            outcomes[i](None)

    def report_failed(self, error: Unavailable) -> None:
        """Report every record as failed, in the order of the appends."""
        for owner, done in zip(self.owners, self.outcomes, strict=True):
            if owner is not None:
                owner.failed(error)
            # An error for each: raised by several coroutines, one object would gather their
            # tracebacks.
            done(error.again())


class JournalPosition(NamedTuple):
    """A place between two rounds of the journal."""

    file: int
    offset: int
    round: int
    """The last round before this place."""


class JournalFiles:
    """The files, as the journal's worker sees them; used by one job at a time."""

    def __init__(
        self,
        disk: Disk,
        start: JournalPosition,
        file_bytes: int,
        salt: int,
        directory: Callable[[], bytes],
        make_room: Callable[[], bool] = lambda: False,
        reserves: Callable[[], bool] = lambda: True,
    ) -> None:
        """Continue at `start` with a new file; no file of that number may exist.

        `directory` returns the id of the data directory; it is called in the journal's thread.
        `make_room` is called when the disk is full, and returns whether to write the round again.
        `reserves` returns whether to preallocate a file: on a full disk others need the space more.
        """
        self._directory = directory
        self._disk = disk
        self._make_room = make_room
        self._reserves = reserves
        self._next_file = start.file
        self._round = start.round
        self._file_bytes = file_bytes
        self._salt = salt
        self._file: File | None = None
        self._offset = 0
        self._end = 0
        self._seed = 0
        self._previous_end = 0
        self._error: BaseException | None = None

    def prepare(self, records: CommitRound) -> None:
        """Encode a round ahead if the present file has room for it.

        Call it on the owner's thread, while no other round is at the worker: a job that computes
        contends with the owner's thread for the interpreter.
        """
        self._error = None
        if self._file is not None and self._fits(_size_of(records)):
            records.encoded = self._encode(records)

    def write(self, records: CommitRound) -> JournalPosition:
        """Write the records as one round, and sync; returns the place after it.

        If it raises `DiskFull` nothing of the round remains, and another round may be written.
        After any other error it is unknown what was written: no round may follow.  A round that
        waited meanwhile for one that failed is not written, and raises the same error.
        """
        if self._error is not None:  # promise: nothing is written after a round that failed
            raise self._error
        try:
            try:
                return self._write_round(records)
            except DiskFull:
                if not self._make_room():
                    raise
                return self._write_round(records)  # nothing of the round remains
        except BaseException as error:  # of any kind: the round that waits must learn of it
            self._error = error
            raise

    def _write_round(self, records: CommitRound) -> JournalPosition:
        size = _size_of(records)
        file = self._file
        if file is None or not self._fits(size):
            if file is not None:
                self._end_file(file)
            file = self._begin_file(FIRST_ROUND_AT + size + len(CLEAN_END))
        return self._write(file, records.encoded or self._encode(records), size)

    def _fits(self, size: int) -> bool:
        return self._offset + size + len(CLEAN_END) <= self._end

    def close(self) -> None:
        """Close the file in its present state."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def end(self) -> None:
        """Write the END round; if there is no room for it the next start assumes a crash."""
        if self._file is not None:
            with suppress(DiskFull):
                self._end_file(self._file)

    def _encode(self, records: CommitRound) -> list[bytes]:
        pieces = flat(records.buffers)
        # The header sums the checksums of the records instead of their bytes: each byte is summed
        # once.
        crcs = [
            (record if isinstance(record, bytes) else record[0])[:CRC_BYTES]
            for record in records.buffers
        ]
        header = encode_round(
            self._round + 1, self._seed, records.sizes, records.segments, records.entries, crcs
        )
        pieces.insert(0, header)
        pieces.append(CLEAN_END)  # promise: each round is followed by a clean end
        return [b"".join(pieces)] if records.size < JOIN_BELOW_BYTES * len(pieces) else pieces

    def _write(self, file: File, buffers: list[bytes], size: int) -> JournalPosition:
        try:
            file.write_through(self._offset, buffers)
        except DiskFull:
            # A part of the round that was written must never be read as a round.
            file.truncate(self._offset)
            file.sync()
            raise
        # Only after the sync: a round that failed leaves no gap.
        self._offset += size
        self._round += 1
        return JournalPosition(self._next_file - 1, self._offset, self._round)

    def _end_file(self, file: File) -> None:
        """Complete the file durably, before the next one exists."""
        # The END round tells a start that nothing after it counts, and that this file is complete.
        end = encode_round(self._round + 1, self._seed, (), (), (), ())
        self._previous_end = self._offset
        self._write(file, [end], len(end))
        self.close()

    def _begin_file(self, needed: int) -> File:
        """Create the next file; it gets its name when its head is durable, so that a damaged head
        can only be rot.

        A spare file is reused if there is one: a sync over existing blocks takes half the time of
        one that must allocate blocks, and changes neither a directory nor the file's size.
        """
        head = encode_file_head(
            FileHead(
                self._next_file,
                self._salt,
                self._round + 1,
                self._previous_end,
                mark_of(self._directory()),
            )
        )
        name = file_name(self._next_file)
        while not self._make_file(name, head, needed):
            pass  # a checkpoint removed it meanwhile; the next one comes much later
        self._disk.sync_dir("journal")
        self._file = file = self._disk.open(name)
        self._offset = FIRST_ROUND_AT
        (self._seed,) = seeds(head)
        self._next_file += 1
        return file

    def _make_file(self, name: str, head: bytes, needed: int) -> bool:
        """Make a file with this head, and name it; return False if it was removed meanwhile.

        It is created under the name of a spare file: it belongs to the journal only once its head
        is durable.
        """
        spare = _spare(self._disk, self._next_file)
        file = self._disk.open(spare, create=True)
        try:
            self._end = _reserve(file, max(self._file_bytes, needed), self._reserves())
            file.write_through(0, [head, CLEAN_END])
        finally:
            file.close()
        try:
            self._disk.rename(spare, name)
        except FileNotFoundError:
            # On a full disk a checkpoint, in its own thread, removes every spare file.
            # promise[return False -> raise]: the journal goes on with another file then
            return False
        return True


def _size_of(records: CommitRound) -> int:
    """Return the bytes of a round with these records, without the clean end after it."""
    return ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD * len(records.sizes) + records.size


def _spare(disk: Disk, number: int) -> str:
    """Return the name of a spare file, or of a new one if there are no spares."""
    spares = (name for name in disk.list("journal") if name.endswith(".spare"))
    return next((f"journal/{name}" for name in spares), spare_name(number))


def _reserve(file: File, needed: int, ahead: bool) -> int:
    """Preallocate the file if `ahead`; returns the size at which the file is to end.

    Without enough space the file grows as rounds are written, until one gets `DiskFull`.
    """
    size = file.size()
    # promise[without ahead and]: a journal takes no room ahead that others need on a full disk
    if ahead and size < needed:
        try:
            file.allocate(needed)
        except DiskFull:
            file.truncate(size)
    return max(size, needed)


class Journal:
    """The queue of records, written in rounds; used on the owner's thread only."""

    def __init__(
        self,
        files: JournalFiles,
        worker: Worker,
        clock: Clock,
        start: JournalPosition,
        limits: Limits,
        after_round: Observe,
        timer: Callable[[], float] | None = None,
        written: Callable[[float], None] | None = None,
    ) -> None:
        """`written` is called before the records of a round are reported, with the seconds since
        the first of them was queued; without `timer` it is not called.
        """
        self._files = files
        self._worker = worker
        self._clock = clock
        self._round_bytes = limits.round_bytes
        self._ahead_bytes = limits.ahead_bytes
        self._after_round = after_round
        self._timer = timer
        self._written = written if timer is not None else None
        self._since = 0.0
        """The approximate time at which the first record that is in no round was queued."""
        self._queue = CommitRound(files, timer)
        self._in_flight: list[CommitRound] = []
        self._begins = False  # `_begin` was scheduled, or waits to be resumed
        self._held = False
        self._waits = False
        self._refusal: Unavailable | None = None
        self._failure: Unavailable | None = None
        self.full = False
        """Whether the last round failed because the disk was full."""
        self.ran_out: Callable[[], None] = lambda: None
        """Called when the disk is full, before the records of the round are reported."""
        self._drained: list[Callable[[], None]] = []
        self.position = start
        """The position up to which everything is durable and reported."""

    @property
    def failure(self) -> Unavailable | None:
        """The error that ended the journal; None while it works."""
        return self._failure

    @property
    def trouble(self) -> Unavailable | None:
        """The error with which records are refused at present; None while they are accepted."""
        return self._failure or self._refusal

    def append(
        self,
        buffers: Buffers,
        size: int,
        segment: int,
        entries: int,
        owner: JournaledSegment | None,
        done: Done,
    ) -> None:
        """Queue a record; see `CommitRound` for its parts.  `done` must not raise."""
        queue = self._queue
        # In place, and not by a method of the round: this is once for each run of each topic.
        queue.buffers.append(buffers)
        queue.sizes.append(size)
        queue.segments.append(segment)
        queue.entries.append(entries)
        queue.owners.append(owner)
        queue.outcomes.append(done)
        queue.size += size
        if not self._begins and self._may_begin():
            self._begins = True
            # While a round is in flight the next one counts from when that was handed over.
            if self._timer is not None and not self._in_flight:
                self._since = self._timer()
            self._clock.soon(self._begin, "journal")

    def hold(self, held: bool) -> None:
        """Pause or resume writing, to limit the memory of the store."""
        self._held = held
        # `_begin` has been and gone; without this nothing would call it again.
        if self._waits and not held:
            self._waits = False
            self._clock.soon(self._begin, "journal")

    def refuse(self, error: Unavailable | None) -> None:
        """Fail all queued and further records with `error`, until called with None."""
        self._refusal = error
        self.hold(self._held and error is None)

    def end(self, error: Unavailable) -> None:
        """Fail all further records; the journal cannot be used again."""
        self._failure = self._failure or error

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call once nothing is queued or in flight."""
        if self._in_flight or self._queue.sizes:
            self._drained.append(call)
        else:
            self._clock.soon(call)

    def _may_begin(self) -> bool:
        """Return whether the queued records may be handed to the worker."""
        in_flight = len(self._in_flight)
        if not in_flight:
            return True
        # While a round is written small ones wait for more records: each costs a sync.
        return in_flight < ROUNDS_IN_FLIGHT and self._queue.size >= self._ahead_bytes

    def _begin(self) -> None:
        refusal = self.trouble
        if refusal is None and self._held:
            self._waits = True
            return
        self._begins = False
        if refusal is not None:
            if self._in_flight:
                return  # `_finished` comes back to it, after the records before
            self._take().report_failed(refusal)
        elif self._queue.sizes and self._may_begin():
            records = self._take(self._round_bytes)
            if not self._in_flight:
                self._files.prepare(records)
            self._in_flight.append(records)
            if self._timer is not None:
                records.since, self._since = self._since, self._timer()
            self._worker.submit(records.write, self._finished)
        self._continue()

    def _take(self, limit: int | None = None) -> CommitRound:
        """Take the queued records: all of them, or the first ones within `limit` bytes."""
        taken = self._queue
        if limit is not None and taken.size > limit:
            return taken.split(limit)
        self._queue = CommitRound(self._files, self._timer)
        return taken

    def _finished(self, position: JournalPosition | None, error: BaseException | None) -> None:
        """Report a round to its records: it is durable up to `position`, or `error` is why not."""
        records = self._in_flight.pop(0)  # the worker ends rounds in the order of their begin
        if position is None:
            # Records after those of a failed round fail too, since they depend on it.
            verdict = self._verdict(error)
            later = None if self._in_flight else self._take()
            records.report_failed(verdict)
            if later is not None:
                later.report_failed(verdict)
        else:
            if self._written is not None and self._timer is not None:
                # Before the reports: they count each run with the time of its round.
                self._written(self._timer() - records.since)
            records.report_durable()
            self.full = False
            self.position = position
            # After the reports, so that what write-behind counts as committed is.
            self._after_round(len(records.sizes), records.size, records.seconds)
        self._continue()

    def _verdict(self, error: BaseException | None) -> Unavailable:
        if isinstance(error, DiskFull):
            self.full = True
            self.ran_out()
            return error
        self._failure = Unavailable(
            f"the journal failed and what it wrote last is unknown; restart the broker: {error}"
        )
        # The disk may have kept a part of the round, and the kernel may report a later sync as good
        # though it lost data: only a new start reads what is there.
        self._failure.__cause__ = error
        return self._failure

    def _continue(self) -> None:
        if self._queue.sizes:
            if not self._begins and self._may_begin():
                self._begins = True
                self._clock.soon(self._begin, "journal")
        elif not self._in_flight:
            # Emptied first: a call may append, and ask to be called again.
            drained, self._drained = self._drained, []
            for call in drained:
                self._clock.soon(call)
