"""The journal: group commit for the whole store.

Everything appended in one turn of the owner's loop, or while a round is being
written, shares one write and one fsync.  One round is in flight at a time.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import NamedTuple

from magnetar_storage.disk import Disk, File
from magnetar_storage.errors import DiskFull, Unavailable
from magnetar_storage.record import CRC_BYTES, Buffers
from magnetar_storage.rounds import (
    CLEAN_END,
    DIRECTORY_BYTES_PER_RECORD,
    FIRST_ROUND_AT,
    ROUND_HEADER,
    FileHead,
    encode_file_head,
    encode_round,
    file_name,
    seeds,
    spare_name,
)
from magnetar_storage.world import Clock, Done, Worker

JOIN_BELOW_BYTES = 4096
"""Buffers of a round smaller than this on average are joined: on the owner's thread, which has
the interpreter anyway."""

Queued = tuple[Buffers, int, int, int, Done]
"""Buffers of a record, its size, segment and number of entries, and whom to tell."""

Observe = Callable[[int, int, float | None], None]
"""Told of each durable round: records, bytes, and seconds on the disk if a timer was given."""


class Position(NamedTuple):
    """A place between two rounds."""

    file: int
    offset: int
    round: int
    """The last round before this place."""


class JournalFiles:
    """The files, as the journal's worker sees them; used by one job at a time."""

    def __init__(self, disk: Disk, start: Position, file_bytes: int, salt: int) -> None:
        """Begin with a new file at `start`; no file of that number may exist."""
        self._disk = disk
        self._next_file = start.file
        self._round = start.round
        self._file_bytes = file_bytes
        self._salt = salt
        self._file: File | None = None
        self._offset = 0
        self._end = 0
        self._seed = 0
        self._previous_end = 0

    def job(self, queued: list[Queued]) -> Callable[[], Position]:
        """What the worker is to do: write the records as one round; returns the place behind it.

        Made while no other job runs.  The round is encoded here already where the present file
        has room: the less a job computes, the less it waits for the interpreter.

        The job raises `DiskFull`: nothing of the round remains, and another one may be tried.
        Any other error: its fate is unknown and no other may be written.
        """
        size = ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD * len(queued)
        size += sum(record[1] for record in queued)
        if self._file is None or self._offset + size + len(CLEAN_END) > self._end:
            return partial(self._write_in_next_file, queued, size)
        return partial(self._write, self._file, self._encode(queued), size)

    def close(self) -> None:
        """Give the file back as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def end(self) -> None:
        """End in good order; without room for that, the next start takes it for a crash."""
        if self._file is not None:
            with suppress(DiskFull):
                self._end_file(self._file)

    def _encode(self, queued: list[Queued]) -> list[bytes]:
        buffers, sizes, segments, ns, _ = zip(*queued, strict=True)
        crcs = [of_record[0][:CRC_BYTES] for of_record in buffers]
        header = encode_round(self._round + 1, self._seed, sizes, segments, ns, crcs)
        pieces = [header, *chain.from_iterable(buffers), CLEAN_END]
        return [b"".join(pieces)] if sum(sizes) < JOIN_BELOW_BYTES * len(pieces) else pieces

    def _write(self, file: File, buffers: list[bytes], size: int) -> Position:
        try:
            file.write_through(self._offset, buffers)
        except DiskFull:
            # What was written must never be read as a round.
            file.truncate(self._offset)
            file.sync()
            raise
        self._offset += size
        self._round += 1
        return Position(self._next_file - 1, self._offset, self._round)

    def _write_in_next_file(self, queued: list[Queued], size: int) -> Position:
        if self._file is not None:
            self._end_file(self._file)
        file = self._begin_file(FIRST_ROUND_AT + size + len(CLEAN_END))
        return self._write(file, self._encode(queued), size)

    def _end_file(self, file: File) -> None:
        """A file is complete, and known to be, before the next one exists."""
        end = encode_round(self._round + 1, self._seed, (), (), (), ())
        self._previous_end = self._offset
        self._write(file, [end], len(end))
        self.close()

    def _begin_file(self, needed: int) -> File:
        """A file has its name only when its head is durable: a damaged head is never a torn one.

        A spare file is taken where there is one: writing where blocks exist, with all else
        in place, takes half the time of a sync that has to place them too.
        """
        head = encode_file_head(
            FileHead(self._next_file, self._salt, self._round + 1, self._previous_end)
        )
        name, spare = file_name(self._next_file), _spare(self._disk, self._next_file)
        file = self._disk.open(spare, create=True)
        try:
            self._end = _reserve(file, max(self._file_bytes, needed))
            file.write_through(0, [head, CLEAN_END])
        finally:
            file.close()
        self._disk.rename(spare, name)
        self._disk.sync_dir("journal")
        self._file = file = self._disk.open(name)
        self._offset = FIRST_ROUND_AT
        (self._seed,) = seeds(head)
        self._next_file += 1
        return file


def _spare(disk: Disk, number: int) -> str:
    """A spare file if there is one, else the name of a new one."""
    spares = (name for name in disk.list("journal") if name.endswith(".spare"))
    return next((f"journal/{name}" for name in spares), spare_name(number))


def _reserve(file: File, needed: int) -> int:
    """Ask for room ahead; where there is not that much, each round finds out for itself.

    Returns where the file is to end.
    """
    size = file.size()
    if size < needed:
        try:
            file.allocate(needed)
        except DiskFull:
            file.truncate(size)
    return max(size, needed)


class Journal:
    """The queue of records, and the rounds they leave in; lives on the owner's thread."""

    def __init__(
        self,
        files: JournalFiles,
        worker: Worker,
        clock: Clock,
        start: Position,
        round_bytes: int,
        after_round: Observe,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self._files = files
        self._worker = worker
        self._clock = clock
        self._round_bytes = round_bytes
        self._after_round = after_round
        self._timer = timer
        self._queue: list[Queued] = []
        self._queued_bytes = 0
        self._idle = True
        self._held = False
        self._waits = False
        self._refusal: Unavailable | None = None
        self._failure: Unavailable | None = None
        self.full = False
        """Whether the last round found no room."""
        self._drained: list[Callable[[], None]] = []
        self.position = start
        """Everything before it is durable, and its callbacks were made."""

    @property
    def failure(self) -> Unavailable | None:
        """Why the journal has ended; None while it works."""
        return self._failure

    @property
    def trouble(self) -> Unavailable | None:
        """Why nothing is accepted at present, for good or not; None while it is."""
        return self._failure or self._refusal

    def append(self, buffers: Buffers, size: int, segment: int, n: int, done: Done) -> None:
        """Queue a record; `done` comes in the order of the appends and must not raise.

        `done(DiskFull)`: not written.  Any other error: unknown, and the journal has ended.
        """
        self._queue.append((buffers, size, segment, n, done))
        self._queued_bytes += size
        if self._idle:
            self._idle = False
            self._clock.soon(self._begin)

    def hold(self, held: bool) -> None:
        """Start no rounds while the store has too much in memory."""
        self._held = held
        if self._waits and not held:
            self._waits = False
            self._clock.soon(self._begin)

    def refuse(self, error: Unavailable | None) -> None:
        """Accept nothing until further notice (None): what is queued fails in its turn."""
        self._refusal = error
        self.hold(self._held and error is None)

    def end(self, error: Unavailable) -> None:
        """Accept nothing ever again."""
        self._failure = self._failure or error

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call once nothing is queued or in flight."""
        if self._idle:
            self._clock.soon(call)
        else:
            self._drained.append(call)

    def _begin(self) -> None:
        refusal = self.trouble
        if refusal is not None:
            self._fail(self._take_all(), refusal)
            return
        if self._held:
            self._waits = True
            return
        queued = self._take()
        job = partial(_timed, self._files.job(queued), self._timer)
        self._worker.submit(job, partial(self._finished, queued))

    def _take(self) -> list[Queued]:
        """The records of the next round: all of them, unless that would be too many."""
        if self._queued_bytes <= self._round_bytes:
            return self._take_all()
        size = n = 0
        for queued in self._queue:
            size += queued[1]
            if size > self._round_bytes and n:
                size -= queued[1]
                break
            n += 1
        taken, self._queue = self._queue[:n], self._queue[n:]
        self._queued_bytes -= size
        return taken

    def _take_all(self) -> list[Queued]:
        taken, self._queue, self._queued_bytes = self._queue, [], 0
        return taken

    def _finished(
        self,
        queued: list[Queued],
        outcome: tuple[Position, float | None] | None,
        error: BaseException | None,
    ) -> None:
        if outcome is None:
            self._fail(queued + self._take_all(), self._verdict(error))
            return
        for record in queued:
            record[4](None)
        self.full = False
        self.position, seconds = outcome
        self._after_round(len(queued), sum(record[1] for record in queued), seconds)
        self._continue()

    def _verdict(self, error: BaseException | None) -> Unavailable:
        if isinstance(error, DiskFull):
            self.full = True
            return error
        self._failure = Unavailable(
            f"the journal failed and what it wrote last is unknown; restart the broker: {error}"
        )
        self._failure.__cause__ = error
        return self._failure

    def _fail(self, queued: list[Queued], error: Unavailable) -> None:
        """What was queued behind a failed round depends on it, and fails with it."""
        for record in queued:
            record[4](error.again())
        self._continue()

    def _continue(self) -> None:
        if self._queue:
            self._clock.soon(self._begin)
            return
        self._idle = True
        drained, self._drained = self._drained, []
        for call in drained:
            self._clock.soon(call)


def _timed(
    job: Callable[[], Position], timer: Callable[[], float] | None
) -> tuple[Position, float | None]:
    if timer is None:
        return job(), None
    began = timer()
    position = job()
    return position, timer() - began
