"""Pauses a client that publishes faster than its rate limit."""

from collections.abc import Callable

from magnetar_broker.session.read_gate import ReadGate
from magnetar_storage.runtime.execution import Clock, Timer

KEEP_ALIVE_SECONDS = 10.0
"""A client that receives nothing for longer may give the connection up and reconnect."""


class Throttled:
    """The temporary reasons not to read a client; during one `keep_alive` is called periodically.

    The client's own pings are not read then, so it needs another sign that the broker lives.
    """

    def __init__(self, gate: ReadGate, clock: Clock, keep_alive: Callable[[], None]) -> None:
        self._gate = gate
        self._clock = clock
        self._keep_alive = keep_alive
        self._held = 0
        self._timer: Timer | None = None
        self._ended = False

    @property
    def is_held(self) -> bool:
        """Whether the client is not read from."""
        return self._held > 0

    def hold(self) -> Callable[[], None]:
        """Pause the client; call the returned function once to end this pause."""
        reason = self._gate.reason()
        reason.pause_reading()
        self._held += 1
        if self._timer is None:
            self._start()

        def release() -> None:
            self._held -= 1
            reason.resume_reading()

        return release

    def _tick(self) -> None:
        self._timer = None
        if self.is_held:
            self._keep_alive()
            self._start()

    def _start(self) -> None:
        if not self._ended:
            self._timer = self._clock.later(KEEP_ALIVE_SECONDS, self._tick)

    def end(self) -> None:
        """End the timer, which would keep the closed connection in memory."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
