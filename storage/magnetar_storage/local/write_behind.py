"""Decides when segment files and checkpoints are written; used on the owner's thread only.

One job at a time is on the background worker.  It gets copies of the state that it needs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from magnetar_storage.errors import DiskFull, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local import segment_ids
from magnetar_storage.local.checkpoint import Checkpoint, Flush
from magnetar_storage.local.journal import Journal, JournalPosition
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.open_indexes import IndexesKept, IndexWork, OpenIndexes, keep
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.local.segments_state import SegmentsState
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.runtime.execution import Clock, Done, Timer, Worker
from magnetar_storage.space.disk_space import SpaceState

IDS_LEFT_OUT: Final = 1 << 16
"""The number of ids that a store skips if it is opened on captured files: then its segments, and
the messages in them, have other ids than those that this store creates after the capture."""
SEGMENTS: Final = "segments and checkpoints"
INDEX_FILES: Final = "index files of open segments"
"""The names of unwritten files in reports of errors."""


Take = Callable[[Checkpoint], None]


class Capture(NamedTuple):
    """A request to use the files of a checkpoint in the state in which it was written."""

    begun: Callable[[], None]
    """Called when the content of the checkpoint is fixed, so that no deletion can change it.
    It holds what was durable a moment before: describing it takes some turns.  A segment whose
    deletion begins after the call is in it, and has its file when `take` is called."""
    take: Take
    """Called in the worker's thread with a checkpoint that needs no journal.

    Until it returns, no file of a segment is written or removed."""
    done: Done


class WriteBehind:
    """Moves committed records from memory to segment files, and drops the journal before them."""

    def __init__(
        self,
        disk: Disk,
        worker: Worker,
        clock: Clock,
        limits: Limits,
        journal: Journal,
        segments: dict[SegmentId, LocalSegment],
        last: Checkpoint,
        indexes: OpenIndexes,
        describe: Callable[[], Checkpoint],
        finished: Callable[[LocalSegment, int], None],
        failed: Callable[[str, BaseException], None],
        space: SpaceState,
    ) -> None:
        """`describe` returns a checkpoint of what is not in memory, which does not change any more;
        `finished` is called with each segment whose file has got its footer, and its bytes."""
        self._disk = disk
        self._worker = worker
        self._clock = clock
        self._limits = limits
        self._journal = journal
        self._segments = segments
        self._number = last.number
        self._indexes = indexes
        self._describe = describe
        self._finished = finished
        self._failed = failed
        self._space = space
        self._stopped = False
        space.when_changed(self._space_changed)
        self._doomed: set[SegmentId] = set()
        self._waiting_bytes = 0
        self._flush_above = limits.write_behind_bytes  # more while all segments have little
        self._journal_bytes = 0
        self._busy = False
        self._error: BaseException | None = None
        self._timer: Timer | None = None
        self._waiters: list[Done] = []
        self._captures: list[Capture] = []
        self._finishing: list[tuple[SegmentId, Done]] = []
        self._flushed_last = False  # and not finished: both may be due all the time

    def after_round(self, size: int, entries_size: int) -> None:
        """Account for `size` bytes that have become durable in the journal.

        `entries_size` of them are records of entries, which go to segment files.
        """
        self._waiting_bytes += entries_size
        self._journal_bytes += size
        # Only while there is something to write: an idle store writes no checkpoints.
        if self._timer is None:
            self._timer = self._clock.later(self._limits.checkpoint_seconds, self._due)
        self._regulate()
        if self._error is None:
            self._clock.soon(self._work, "write_behind")

    def remove(self, number: SegmentId, unwritten_bytes: int) -> None:
        """Remove the segment's file, to which `unwritten_bytes` were yet to be written; call this
        when the deletion is durable."""
        self._waiting_bytes -= unwritten_bytes
        self._doomed.add(number)
        name = segment.file_name(number)
        # In order with the writes of files: one that is under way may create the file again, and
        # its checkpoint removes what is doomed.
        self._worker.submit(partial(self._disk.remove, name), self._removed)

    def checkpoint(self, done: Done) -> None:
        """Write a checkpoint of the present state; `done` is called with the outcome."""
        self._waiters.append(done)
        self._clock.soon(self._work, "write_behind")

    def capture(self, capture: Capture) -> None:
        """Write a checkpoint of the present state, and let `capture` take its files."""
        self._captures.append(capture)
        self.checkpoint(self._ignore)

    def finish(self, number: SegmentId, done: Done) -> None:
        """Complete the file of a sealed segment, without waiting for a checkpoint; `done` is called
        with the outcome."""
        self._finishing.append((number, done))
        self._clock.soon(self._work, "write_behind")

    def _space_changed(self, is_low: bool) -> None:
        """Write a checkpoint if space is low: it removes superfluous and spare journal files."""
        if is_low and not self._stopped:
            # promise: the journal gives up its room when the disk is nearly full
            self.checkpoint(self._ignore)

    def stop(self) -> None:
        """Start nothing by timer any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self.checkpoint(self._ignore)

    @staticmethod
    def _ignore(error: BaseException | None) -> None:
        """Do nothing: `failed` was called with the error already."""

    def _work(self) -> None:
        if self._busy:
            return
        # A checkpoint first, since it writes and finishes everything.
        if self._waiters or self._journal_bytes > self._limits.checkpoint_bytes:
            self._begin_checkpoint()
        # promise: what another process is to read is flushed at once
        elif self._finishing and self._flushed_last:
            self._begin_finishing()
        elif self._begin_flush():
            self._flushed_last = True
        elif self._finishing:
            self._begin_finishing()

    def _begin_checkpoint(self) -> None:
        """Begin a checkpoint.  A round reports all its records in one turn, so the state is that of
        the journal's `position`."""
        # All of this in one turn: rows, position and numbers of blocks must be of the same moment.
        made = self._describe()
        made.number, made.position = self._number + 1, self._journal.position
        state = SegmentsState(made, self._segments, self._indexes)
        # It completes the file of every sealed segment.
        waiters = [*self._waiters, *(done for _, done in self._finishing)]
        captures, self._captures = self._captures, []
        self._waiters, self._finishing = [], []
        self._busy = True
        self._describe_slice(state, self._journal_bytes, waiters, captures)

    def _describe_slice(
        self,
        state: SegmentsState,
        journal_bytes: int,
        waiters: Sequence[Done],
        captures: Sequence[Capture],
    ) -> None:
        if state.describe(self._limits.slice_segments):
            rest = partial(self._describe_slice, state, journal_bytes, waiters, captures)
            self._clock.soon(rest, "checkpoint")
        else:
            self._write_checkpoint(state, journal_bytes, waiters, captures)

    def _write_checkpoint(
        self,
        state: SegmentsState,
        journal_bytes: int,
        waiters: Sequence[Done],
        captures: Sequence[Capture],
    ) -> None:
        doomed = set(self._doomed)  # with those that were deleted meanwhile: removed once flushed
        made, flushes = state.checkpoint, state.flushes
        outcomes: list[BaseException | None] = []

        def written(kept: IndexesKept, error: BaseException | None) -> None:
            for at, capture in enumerate(captures):
                capture.done(outcomes[at] if at < len(outcomes) else error)
            if error is None:
                self._number = made.number
                self._indexes.done(kept)
                if kept.trouble is not None:
                    # promise: an error of writing an index file is reported
                    self._failed(INDEX_FILES, kept.trouble)
                self._doomed -= doomed
                self._journal_bytes -= journal_bytes
                self._flush_above = self._limits.write_behind_bytes
            self._written(flushes, waiters, made.finished, error)

        # On a full disk the room of spare files goes to those that need it.
        spare_files = 0 if self._space.refusal else self._limits.spare_journal_files
        index_work = state.index_work()
        takes = partial(_have_taken, captures, made, doomed, outcomes)
        job = partial(
            _checkpoint, self._disk, flushes, doomed, made, spare_files, index_work, takes
        )
        self._worker.submit(job, written)
        # Not before: files that are removed from now on are removed after this job.
        for capture in captures:
            capture.begun()

    def _begin_finishing(self) -> None:
        """Write some of the segments that are to be finished."""
        self._flushed_last = False
        some = self._limits.slice_segments
        finishing, self._finishing = self._finishing[:some], self._finishing[some:]
        flushes: list[Flush] = []
        for number in {number for number, _ in finishing} & self._segments.keys():
            one = self._segments[number]
            work = one.flush(one.committed_blocks, one.sealed)
            if work is not None:
                flushes.append(work)
        waiters = [done for _, done in finishing]
        self._busy = True
        job = partial(checkpoints.flush, self._disk, flushes)
        self._worker.submit(
            job, lambda finished, error: self._written(flushes, waiters, finished, error)
        )

    def _begin_flush(self) -> bool:
        """Write the segments with most to write, until half of the limit is left; returns False if
        that is not due.

        If all have little to write, wait for more once.
        """
        if self._waiting_bytes <= self._flush_above:
            return False
        limits, limit = self._limits, self._limits.write_behind_bytes
        # The largest ones: each file costs a sync, however little is written to it.
        segments = sorted(self._segments.values(), key=_unwritten_bytes, reverse=True)
        all_small = not segments or segments[0].unwritten_bytes < limits.small_flush_bytes
        most = min(2 * limit, limits.unwritten_bytes // 2)  # long before the journal pauses
        if all_small and self._flush_above == limit and self._waiting_bytes <= most:
            self._flush_above = most
            return False
        self._flush_above = limit
        excess = self._waiting_bytes - limit // 2
        flushes: list[Flush] = []
        for one in segments:
            work = one.flush(one.committed_blocks, one.sealed)
            if excess <= 0 or work is None or not work.records:
                break
            excess -= one.unwritten_bytes
            flushes.append(work)
        self._busy = True
        job = partial(checkpoints.flush, self._disk, flushes)
        self._worker.submit(
            job, lambda finished, error: self._written(flushes, (), finished, error)
        )
        return True

    def _written(
        self,
        flushes: list[Flush],
        waiters: Sequence[Done],
        finished: Mapping[SegmentId, int],
        error: BaseException | None,
    ) -> None:
        """Account for a write; `finished` has the sizes of files with a new footer."""
        if error is None:
            self._error = None
            self._account(flushes, waiters, finished)
        else:
            self._retry_later(error)
            self._ended(waiters, error)

    def _account(
        self, flushes: list[Flush], waiters: Sequence[Done], finished: Mapping[SegmentId, int]
    ) -> None:
        """Account for written flushes, a slice in each turn."""
        rest = max(0, len(flushes) - self._limits.slice_segments)
        for work in flushes[rest:]:
            # Missing if it was deleted while its file was written.
            one = self._segments.get(work.segment)
            if one is not None:
                unwritten = one.unwritten_bytes
                one.flushed(work)
                self._waiting_bytes -= unwritten - one.unwritten_bytes
                if work.footer is not None:
                    self._finished(one, finished[one.id])
        del flushes[rest:]
        if flushes:
            rest_of_it = partial(self._account, flushes, waiters, finished)
            self._clock.soon(rest_of_it, "write_behind")
        else:
            self._ended(waiters, None)

    def _ended(self, waiters: Sequence[Done], error: BaseException | None) -> None:
        self._busy = False
        self._regulate()
        if self._error is None or self._waiters or self._finishing:
            self._clock.soon(self._work, "write_behind")
        for done in waiters:
            done(error)

    def _retry_later(self, error: BaseException) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.later(self._limits.retry_seconds, self._due)
        if isinstance(error, DiskFull):
            self._space.ran_out()
        if self._error is None:
            self._failed(SEGMENTS, error)
        self._error = error

    def _removed(self, _: None, error: BaseException | None) -> None:
        if error is not None:
            self._failed(SEGMENTS, error)

    def _regulate(self) -> None:
        """Limit the data that waits in memory: pause the journal or, if the disk fails, refuse."""
        full = self._waiting_bytes > self._limits.unwritten_bytes
        if full and self._error is not None:
            cause = self._error
            refusal = cause if isinstance(cause, Unavailable) else Unavailable(str(cause))
            # Memory is full and cannot be freed: clients are refused until a write succeeds.
            self._journal.refuse(refusal)
        else:
            self._journal.refuse(None)
            self._journal.hold(full)


def _unwritten_bytes(one: LocalSegment) -> int:
    return one.unwritten_bytes


def _checkpoint(
    disk: Disk,
    flushes: Sequence[Flush],
    doomed: set[SegmentId],
    made: Checkpoint,
    spare_files: int,
    index_work: IndexWork,
    have_taken: Callable[[], None],
) -> IndexesKept:
    # Files, then their names, then the checkpoint: what it lists is durable before it is.
    made.finished.update(checkpoints.flush(disk, flushes))
    for number in sorted(doomed):
        disk.remove(segment.file_name(number))
    disk.sync_dir("segments")
    checkpoints.write(disk, made, spare_files)
    have_taken()
    # After the checkpoint, so that index files hold only blocks that every recovery will find.
    return keep(disk, index_work)


def _have_taken(
    captures: Sequence[Capture],
    made: Checkpoint,
    doomed: set[SegmentId],
    outcomes: list[BaseException | None],
) -> None:
    """Let the captures take the files; an error is the outcome of its capture only."""
    for capture in captures:
        try:
            # Segments that were deleted since the content of the checkpoint was fixed have no file
            # any more.  For the others every byte is in its file: no journal is needed.
            capture.take(
                Checkpoint(
                    made.number,
                    JournalPosition(made.position.file + 1, 0, made.position.round),
                    # promise[IDS_LEFT_OUT -> 0]: a restored broker leaves out ids given since
                    segment_ids.following(made.next_segment, IDS_LEFT_OUT),
                    # promise[without if number not in doomed]: a snapshot lists no segment that
                    #   is being deleted
                    {number: row for number, row in made.rows.items() if number not in doomed},
                    {number: n for number, n in made.finished.items() if number not in doomed},
                    made.identity,
                )
            )
        except BaseException as error:  # whatever it is, the waiter gets it
            outcomes.append(error)
        else:
            outcomes.append(None)
