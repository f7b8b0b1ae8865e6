"""Pausing and resuming the reading of a client's socket, for several independent reasons."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from magnetar_storage.runtime.execution import Clock, Timer

KEEP_ALIVE_SECONDS = 10.0
"""A client that receives nothing for longer may give the connection up and reconnect."""


class Reading(Protocol):
    """An input that can be paused and resumed."""

    def pause_reading(self) -> None:
        """Read no more until `resume_reading` is called."""

    def resume_reading(self) -> None:
        """Resume reading."""


class Pause(Enum):
    """The reasons not to read a client."""

    UNWRITTEN = auto()
    """The client does not read its answers."""
    REQUESTS = auto()
    """Many requests of the client are under way."""
    PENDING = auto()
    """Published entries wait for the disk: of the client, or of all clients together."""
    HELD = auto()
    """The client publishes faster than its rate, or a process that serves it does not keep up."""


class ReadGate:
    """Pauses the socket at the first reason, and resumes it after the last.

    While the client is held, which may take long, `keep_alive` is called periodically: the client's
    own pings are not read then, so it needs another sign that the broker lives.
    """

    __slots__ = (
        "_clock",
        "_ended",
        "_holds",
        "_keep_alive",
        "_pauses",
        "_resumed",
        "_socket",
        "_timer",
    )

    def __init__(
        self,
        socket: Reading,
        clock: Clock,
        keep_alive: Callable[[], None],
        resumed: Callable[[], None],
    ) -> None:
        """`resumed` is called whenever the socket is read from again."""
        self._socket = socket
        self._clock = clock
        self._keep_alive = keep_alive
        self._resumed = resumed
        self._pauses: tuple[Pause, ...] = ()  # an empty set takes 216 bytes, for each client
        self._holds = 0
        self._timer: Timer | None = None
        self._ended = False

    def pause(self, reason: Pause) -> None:
        """Read nothing until the reason has ended; no effect if it is given already."""
        if not self._pauses:
            self._socket.pause_reading()
        if reason not in self._pauses:
            self._pauses += (reason,)

    def resume(self, reason: Pause) -> None:
        """End a reason: resume unless another one is left; harmless if it was not given."""
        # Callers do not keep track of whether they have paused.
        if reason in self._pauses:
            # Other reasons may be left: the socket is read from when the last one has ended.
            self._pauses = tuple([one for one in self._pauses if one is not reason])
            if not self._pauses:
                self._socket.resume_reading()
                self._resumed()

    @property
    def is_held(self) -> bool:
        """Whether the client is not read from because of `hold`."""
        return self._holds > 0

    def hold(self) -> Callable[[], None]:
        """Read nothing; call the returned function once to end that, even after the end."""
        self._holds += 1
        self.pause(Pause.HELD)
        # One timer for all holds.
        if self._timer is None:
            self._start()
        return self._release

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds:
            # The timer goes on: a client that is held again soon, as one that publishes above its
            # rate is for every read, would have one cancelled and started each time.
            self.resume(Pause.HELD)

    def _tick(self) -> None:
        self._timer = None
        if self.is_held:
            self._keep_alive()
            self._start()

    def _start(self) -> None:
        # A relay may hold a client that has just left.
        if not self._ended:
            self._timer = self._clock.later(KEEP_ALIVE_SECONDS, self._tick)

    def end(self) -> None:
        """End the timer, which would keep the closed connection in memory."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
