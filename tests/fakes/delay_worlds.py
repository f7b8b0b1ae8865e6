"""A log with a delay index, and the delays that the test expects."""

from fakes.logs import LogWorld
from magnetar_storage.cursors.attached_state import DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.delays.delay_index import DelayIndex
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log

RUN = 8


class DelayWorld:
    """Entries of one log, delayed or not; `reopen` does what a restart does."""

    def __init__(self, world: LogWorld | None = None, run: int = RUN) -> None:
        self.world = world or LogWorld()
        self.run = run
        self.reported: list[StorageError] = []
        self.delays: dict[int, int] = {}
        """The times of all entries that were ever delayed."""
        self.released: set[int] = set()
        self.reopen()

    def reopen(self) -> DelayIndex:
        self.world.clock.forget()
        self.world.store.crash()
        self.log: Log = self.world.open()
        recent = RecentDelays(size=3, most_parts=3)
        self.cursors = self.world.do(CursorLog.open(self.log, {DELAYS: recent}))
        self.cursors._roll_bytes = 500
        self.index = self.world.do(
            DelayIndex.open(
                self.log,
                recent,
                lambda done: self.cursors.state_changed(DELAYS, done),
                self.reported.append,
                self.run,
            )
        )
        return self.index

    def close(self) -> None:
        self.world.do(self.index.close())
        self.world.do(self.cursors.close())
        self.world.do(self.log.close())

    def append(self, *delays: int | None) -> None:
        """Append entries that are due at these times; None means at once."""
        first = self.log.end
        self.world.append(self.log, *[b"%d" % (first + at) for at in range(len(delays))])
        new = {first + at: due for at, due in enumerate(delays) if due is not None}
        self.delays |= new
        if new:
            self.add(list(new))

    def pump(self) -> None:
        self.world.clock.pump()

    def settle(self) -> None:
        """Let the cursor log write its collected records."""
        self.world.clock.advance(1)

    def release(self, until_ms: int) -> list[int]:
        """Release all entries that are due, and return them."""
        due: list[int] = []
        while step := self.world.do(self.index.release(until_ms)):
            assert step == sorted(set(step))
            due += step
        self.released |= set(due)
        return sorted(due)

    def ask_the_unsure(self) -> None:
        """Add the delays that the index does not know, as a reader of entries does."""
        self.add(
            [
                offset
                for offset in self.delays
                if offset >= self.log.first_offset
                and offset in self.index.unsure
                and offset not in self.index.waiting
            ]
        )

    def add(self, offsets: list[int]) -> None:
        """Add these entries with their times, if there are any."""
        if offsets:
            self.index.add(offsets, [self.delays[offset] for offset in offsets])

    @property
    def waiting(self) -> set[int]:
        """The waiting entries according to the index."""
        return {offset for start, stop in self.index.waiting for offset in range(start, stop)}

    @property
    def expected(self) -> set[int]:
        """The waiting entries that are expected."""
        return {o for o in self.delays if o not in self.released and o >= self.log.first_offset}

    @property
    def segments(self) -> tuple[int, ...]:
        return self.log.record.delay_segments

    def stored(self) -> set[int]:
        """Return every segment that exists."""
        return self.world.store.ids()

    def damage(self, segment: int) -> None:
        """Make a segment unreadable."""
        self.world.do(self.world.store.delete(segment))
