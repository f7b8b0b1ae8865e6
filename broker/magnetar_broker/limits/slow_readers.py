"""Limits clients that do not read what they are sent, each for its time and all for their bytes."""

from typing import Protocol

from magnetar_broker.limits.held_bytes import HeldBytes, Holder
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_storage.runtime.execution import Clock, Timer


class Reader(Holder, Protocol):
    """A connection to a client."""

    def unread(self) -> tuple[int, int]:
        """Return the bytes that the client has taken since it connected, and those that wait for
        it.
        """


class SlowReaders:
    """The clients of a process whose sockets take no more for now."""

    def __init__(self, clock: Clock, seconds: int, held: HeldBytes, reached: ReachedLimits) -> None:
        """Disconnect a client that takes no byte for one to two times `seconds`; 0 disables it."""
        self.held = held
        self._clock = clock
        self._seconds = seconds
        self._reached = reached
        self._timers: dict[Reader, Timer] = {}

    def full(self, reader: Reader, may_wait: bool = False) -> None:
        """Note that the client's socket is full; a reader that `may_wait` has any time."""
        taken, waiting = reader.unread()
        if self._seconds > 0 and not may_wait:
            self._watch(reader, taken)
        self.held.hold(reader, waiting)

    def grew(self, reader: Reader) -> None:
        """Note that more output waits for a client whose socket accepts no more."""
        self.held.hold(reader, reader.unread()[1])

    def drained(self, reader: Reader) -> None:
        """Note that the client has read on, or has left."""
        timer = self._timers.pop(reader, None)
        if timer is not None:
            timer.cancel()
        self.held.hold(reader, 0)

    def _watch(self, reader: Reader, taken: int) -> None:
        self._timers[reader] = self._clock.later(self._seconds, lambda: self._look(reader, taken))

    def _look(self, reader: Reader, before: int) -> None:
        taken, waiting = reader.unread()
        if taken > before:  # promise: a client that reads is not disconnected
            self._watch(reader, taken)
            self.held.hold(reader, waiting)
            return
        name = "magnetarSlowReaderTimeoutSeconds"
        self._reached.count(ClientLimit.SLOW_READER, name, reader.address)
        self.drained(reader)
        reader.give_up()
