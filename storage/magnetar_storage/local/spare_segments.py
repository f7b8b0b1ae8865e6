"""Segments created ahead, so that topics that are created at the same time need not wait for them.

Spare segments are durable and empty, and nobody knows their ids: a crash leaves them like any new
segment that was not listed yet, and the next start deletes them.  While few segments are created
there are no spares.
"""

from collections import deque
from collections.abc import Callable

from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.runtime.execution import Clock, Promise, Timer

SECONDS = 1.0
"""The period in which taken segments are counted; after an idle period no spares are kept."""
TAKEN_FOR_EACH = 8
"""The number of segments taken in a period for each one that is made ahead."""

Made = Callable[[LocalSegment | None, BaseException | None], None]


class SpareSegments:
    """Hands out segments in the order of creation, so that their ids ascend."""

    def __init__(
        self,
        clock: Clock,
        most: int,
        make: Callable[[Made], None],
        remove: Callable[[LocalSegment], None],
    ) -> None:
        """`most` is the maximum that is kept.  `make` calls back, in the order of its calls, with a
        new segment that is durable, or with the error; `remove` deletes one that was not taken."""
        self._clock = clock
        self._most = most
        self._make = make
        self._remove = remove
        self._spares: deque[LocalSegment] = deque()
        self._waiting: deque[Promise] = deque()
        self._coming = 0
        self._taken = self._taken_before = 0
        self._timer: Timer | None = None

    @property
    def ids(self) -> set[int]:
        """The ids of the spares."""
        return {spare.id for spare in self._spares}

    async def take(self) -> LocalSegment:
        """Take a new, durable segment; without waiting if there is a spare."""
        self._taken += 1
        if self._timer is None:
            self._timer = self._clock.later(SECONDS, self._look)
        # Both periods count: a period that has just begun must not end the spares.
        ahead = min(self._most, max(self._taken, self._taken_before) // TAKEN_FOR_EACH)
        if self._spares:
            spare = self._spares.popleft()
            there = len(self._spares) + self._coming
            # Only when half is used: then several are made with one sync of the journal.
            if 2 * there < ahead:
                self._order(ahead - there)
            return spare
        promise = self._clock.promise()
        self._waiting.append(promise)
        # Those that are on their way may be enough for those that wait.
        if len(self._waiting) > self._coming:
            self._order(1 + ahead)
        made: LocalSegment = await promise
        return made

    def drop(self) -> None:
        """Delete all spare segments."""
        while self._spares:
            self._remove(self._spares.popleft())

    def stop(self) -> None:
        """Delete the spares, and keep none from now on."""
        self._most = 0
        self.drop()
        if self._timer is not None:
            self._timer.cancel()

    def _order(self, count: int) -> None:
        self._coming += count
        for _ in range(count):
            self._make(self._made)

    def _made(self, made: LocalSegment | None, error: BaseException | None) -> None:
        self._coming -= 1
        while self._waiting:
            promise = self._waiting.popleft()
            if promise.done():  # its waiter was cancelled
                continue
            if error is not None:
                promise.set_exception(error)
            else:
                promise.set_result(made)
            return
        # An error that nobody waits for shows again when the next one is made.
        if made is not None:
            self._spares.append(made)
            # The store was stopped while it was being made.
            if not self._most:
                self.drop()

    def _look(self) -> None:
        self._timer = None
        self._taken_before, self._taken = self._taken, 0
        if self._taken_before or self._coming:
            self._timer = self._clock.later(SECONDS, self._look)
        else:
            self.drop()
