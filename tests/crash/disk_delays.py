"""The delays of one topic on a disk that loses its power, and what must be true of them.

Some entries are due later, which stands in them; time is what was released so far.
"""

from collections.abc import Sequence
from functools import partial

from crash.disk_model import TopicModel
from magnetar_storage.cursors.attached_state import DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.delays.delay_index import DelayIndex
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log

RUN = 4
"""So few delays in memory that runs are written and merged all the time."""
DELAYED_EVERY = 3
LATEST = 100


def due_at(payload: bytes) -> int:
    """When an entry is due, 0 for at once: a third of them, by the number that makes it unique."""
    number = int(payload[5:15])
    return 1 + number // DELAYED_EVERY % LATEST if number % DELAYED_EVERY == 0 else 0


class Delays:
    """Does with an index what a topic does with it, and compares; `open` it."""

    def __init__(self, model: TopicModel, log: Log, index: DelayIndex) -> None:
        self._model = model
        self._log = log
        self._index = index

    @classmethod
    async def open(
        cls, model: TopicModel, log: Log, cursors: CursorLog, recent: RecentDelays
    ) -> "Delays":
        """`recent` is the side that `cursors` was opened with."""
        changed = partial(cursors.state_changed, DELAYS)
        return cls(model, log, await DelayIndex.open(log, recent, changed, _forgot, RUN))

    def check(self) -> None:
        """Nothing is early, and nothing that is due at once or gone waits, after opening."""
        index, model = self._index, self._model
        for offset in range(self._log.first_offset, self._log.end):
            if offset in self._log.holes or offset in index.unsure:
                continue
            due, waits = due_at(model.appended[offset][0]), offset in index.waiting
            assert waits or due <= model.released_to, f"{model.key}: {offset} would be early"
            assert due or not waits, f"{model.key}: {offset} waits for nothing"
        beyond = index.waiting.count(self._log.end, 1 << 62)
        assert not beyond, f"{model.key}: {beyond} that are not there wait"

    def look(self) -> None:
        """Look at those about which the index is not sure."""
        unsure = self._index.unsure
        stop = min(unsure.stop, self._log.end)
        entries = self._model.appended[unsure.start : stop]
        self._add(unsure.start, [payload for payload, _ in entries])
        self._index.looked_at(unsure.start, stop)

    def appended(self, first: int, payloads: Sequence[bytes]) -> None:
        """Entries are durable."""
        self._add(first, payloads)

    def _add(self, first: int, payloads: Sequence[bytes]) -> None:
        later = {
            offset: due_at(payload)
            for offset, payload in enumerate(payloads, first)
            if due_at(payload) > self._model.released_to and offset not in self._index.waiting
        }
        if later:
            self._index.add(list(later), list(later.values()))

    async def release(self, until: int) -> None:
        """It is later now: what is due waits no longer, and nothing else."""
        model, index = self._model, self._index
        model.released_to = until
        while due := await index.release(until):
            early = [offset for offset in due if due_at(model.appended[offset][0]) > until]
            assert not early, f"{model.key}: {early} came before {until}"
        if self._log.failed is not None:
            return  # nothing is released any more: it is to be opened again
        for start, stop in index.waiting:
            late = [o for o in range(start, stop) if due_at(model.appended[o][0]) <= until]
            assert not late, f"{model.key}: {late} wait after {until}"

    async def trim(self, before: int) -> None:
        """Give back the log up to there."""
        await self._log.trim(before)
        await self._index.trim()

    async def close(self) -> None:
        """The cursor log must still be open."""
        await self._index.close()


def _forgot(error: StorageError) -> None:
    raise AssertionError(f"a crash damages no run of delays: {error}")
