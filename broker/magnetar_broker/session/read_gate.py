"""Pausing and resuming the reading of a client's socket, for several independent reasons."""

from collections.abc import Callable
from typing import Protocol


class Reading(Protocol):
    """Something whose input can be paused and resumed."""

    def pause_reading(self) -> None:
        """Read no more until `resume_reading` is called."""

    def resume_reading(self) -> None:
        """Read again."""


class ReadGate:
    """Pauses the socket at the first reason, and resumes it after the last."""

    def __init__(self, socket: Reading, resumed: Callable[[], None]) -> None:
        """`resumed` is called whenever the socket is read from again."""
        self._socket = socket
        self._resumed = resumed
        self._holding: set[PauseReason] = set()

    def reason(self) -> "PauseReason":
        """Return a new reason, which does not pause yet."""
        return PauseReason(self)

    def hold(self, reason: "PauseReason") -> None:
        """Pause for a reason."""
        if not self._holding:
            self._socket.pause_reading()
        self._holding.add(reason)

    def release(self, reason: "PauseReason") -> None:
        """Resume unless another reason is left; harmless for a reason that does not pause."""
        if reason in self._holding:
            self._holding.remove(reason)
            if not self._holding:
                self._socket.resume_reading()
                self._resumed()


class PauseReason:
    """One reason to pause: a `Reading` of its own."""

    def __init__(self, gate: ReadGate) -> None:
        self._gate = gate

    def pause_reading(self) -> None:
        """Pause the socket for this reason."""
        self._gate.hold(self)

    def resume_reading(self) -> None:
        """End this reason."""
        self._gate.release(self)
