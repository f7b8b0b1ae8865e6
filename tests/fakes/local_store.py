"""A `LocalStore` on a `FaultyDisk`, with the record of what it must contain."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from fakes.faulty_disk import FaultyDisk
from fakes.origins import MESSAGES
from fakes.world import InlineWorkers, ManualClock, QueuedWorkers, run
from magnetar_storage.errors import Incomplete, NoSegment, StorageError
from magnetar_storage.interfaces import Run, SegmentStore, SegmentWriter
from magnetar_storage.local import directories
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.store import LocalStore

T = TypeVar("T")

TINY = Limits(
    journal_file_bytes=512,
    round_bytes=400,
    ahead_bytes=200,
    write_behind_bytes=300,
    small_flush_bytes=100,
    unwritten_bytes=4096,
    checkpoint_bytes=1500,
    index_bytes=200,
    slice_segments=2,
    loaded_segments=2,
)
SMALL_JOURNAL = Limits(journal_file_bytes=1 << 20)
"""The defaults, except for the memory that each journal file takes on a `FaultyDisk`."""


@dataclass
class Truth:
    """The operations requested of one segment, and those confirmed."""

    appended: list[tuple[bytes, int]] = field(default_factory=list)
    confirmed: int = 0
    sealed: bool = False
    delete_asked: bool = False
    deleted: bool = False


class SegmentBooks(ABC):
    """The operations on a store, with the truth about each of its segments."""

    store: SegmentStore

    def __init__(self) -> None:
        self.truths: dict[int, Truth] = {}
        self.writers: dict[int, SegmentWriter] = {}

    @abstractmethod
    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the store to its end."""

    @abstractmethod
    def pump(self) -> None:
        """Let all operations in progress complete."""

    def create(self) -> int:
        writer = self.do(self.store.create(MESSAGES))
        assert writer.segment not in self.truths, "an id was given out twice"
        self.truths[writer.segment] = Truth()
        self.writers[writer.segment] = writer
        return writer.segment

    def append(self, segment: int, payloads: list[bytes], counts: list[int]) -> None:
        """Queue a run; the truth records it as confirmed when the store does."""
        truth = self.truths[segment]

        def outcome(error: BaseException | None) -> None:
            if error is None:
                assert truth.confirmed == first, "confirmations come in order"
                truth.confirmed = first + len(payloads)

        first = self.writers[segment].append(payloads, counts, outcome)
        if first == len(truth.appended):
            truth.appended.extend(zip(payloads, counts, strict=True))
        # Otherwise the writer is dead, but the entries before may have survived.

    def seal(self, segment: int) -> None:
        self.do(self.writers[segment].seal())
        self.truths[segment].sealed = True

    def delete(self, segment: int) -> None:
        self.truths[segment].delete_asked = True
        self.do(self.store.delete(segment))
        self.truths[segment].deleted = True

    def read_all(
        self, segment: int, step: int = 1000, size: int = 1 << 20
    ) -> list[tuple[bytes, int]]:
        """Return every entry with its count."""
        reader = self.do(self.store.reader(segment))
        found: list[tuple[bytes, int]] = []
        while True:
            part: Run = self.do(reader.read(len(found), step, size))
            if not part.payloads:
                counts = [count for _, count in found]
                before = [self.do(reader.messages_before(n)) for n in range(len(found) + 1)]
                assert before == list(accumulate(counts, initial=0))
                assert [reader.messages_in(entry) for entry in range(len(found))] == counts
                return found
            assert part.first == len(found)
            found.extend(zip(part.payloads, part.counts, strict=True))

    def check(self) -> None:
        """Check that confirmed entries are recovered, and these are a prefix of those appended."""
        for segment, truth in self.truths.items():
            if truth.deleted:
                self._expect_missing(segment)
            elif not truth.delete_asked or self._exists(segment):
                self.check_segment(segment)

    def check_segment(self, segment: int) -> None:
        """Check an existing segment, which seals it."""
        truth = self.truths[segment]
        before = self.read_all(segment)
        sealed = self.do(self.store.recover(segment))
        found = self.read_all(segment, step=2, size=64)
        assert found == before
        assert len(found) >= truth.confirmed, f"segment {segment}: acknowledged entries are missing"
        assert found == truth.appended[: len(found)], f"segment {segment}: not what was appended"
        if truth.sealed:
            assert len(found) == truth.confirmed
        assert sealed.entries == len(found)
        assert sealed.messages == sum(count for _, count in found)
        assert sealed.size == sum(len(payload) for payload, _ in found)
        truth.appended, truth.confirmed, truth.sealed = found, len(found), True

    def _exists(self, segment: int) -> bool:
        try:
            self.do(self.store.reader(segment))
        except NoSegment:
            return False
        return True

    def _expect_missing(self, segment: int) -> None:
        try:
            self.do(self.store.reader(segment))
        except NoSegment:
            return
        except StorageError as error:
            raise AssertionError(f"segment {segment} was deleted, yet: {error}") from error
        raise AssertionError(f"segment {segment} was deleted, yet it is there")

    def check_still_works(self) -> None:
        """Append to a new segment, and read it back."""
        segment = self.create()
        self.append(segment, [b"again", b"and again"], [1, 5])
        self.pump()
        assert self.truths[segment].confirmed == 2
        assert self.read_all(segment) == [(b"again", 1), (b"and again", 5)]


class Machine(SegmentBooks):
    """A store, its disk and its world; call `open` again after a crash or a stop."""

    store: LocalStore

    def __init__(
        self, disk: FaultyDisk | None = None, limits: Limits = TINY, directory: int = 0
    ) -> None:
        self.disk = disk or FaultyDisk()
        self.limits = limits
        self.directory = directory
        super().__init__()
        self._start()

    def _start(self) -> None:
        self.clock = ManualClock()
        self.workers: InlineWorkers | QueuedWorkers = InlineWorkers(self.clock)

    def open(self) -> LocalStore:
        self._start()
        self.writers = {}
        disk = directories.disk_of(self.disk, self.directory)
        self.store = self.do(
            LocalStore.open(disk, self.workers, self.clock, self.limits, directory=self.directory)
        )
        return self.store

    def open_without_missing(self) -> tuple[int, ...]:
        """Open, even if refused because of missing files; return the segments of these."""
        try:
            self.open()
        except Incomplete as refusal:
            strict, self.limits = self.limits, replace(self.limits, refuse_missing=False)
            self.open()
            self.limits = strict
            return refusal.segments
        return ()

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock)

    def pump(self) -> None:
        self.clock.pump()

    def close(self) -> None:
        self.do(self.store.close())
