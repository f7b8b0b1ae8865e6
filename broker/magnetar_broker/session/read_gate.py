"""Whether a client is read from: not while any of several reasons holds."""

from collections.abc import Callable
from typing import Protocol


class Reading(Protocol):
    """Something that can stop taking input, and go on."""

    def pause_reading(self) -> None:
        """Read no more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""


class ReadGate:
    """Joins the reasons: the socket is paused by the first and resumed after the last."""

    def __init__(self, socket: Reading, resumed: Callable[[], None]) -> None:
        self._socket = socket
        self._resumed = resumed
        self._holding: set[Reason] = set()

    def reason(self) -> "Reason":
        """One reason of its own."""
        return Reason(self)

    def hold(self, reason: "Reason") -> None:
        """The reason holds from now on."""
        if not self._holding:
            self._socket.pause_reading()
        self._holding.add(reason)

    def release(self, reason: "Reason") -> None:
        """The reason holds no longer."""
        if reason in self._holding:
            self._holding.remove(reason)
            if not self._holding:
                self._socket.resume_reading()
                self._resumed()


class Reason:
    """A `Reading` that stands for one reason not to read."""

    def __init__(self, gate: ReadGate) -> None:
        self._gate = gate

    def pause_reading(self) -> None:
        """Hold the gate closed."""
        self._gate.hold(self)

    def resume_reading(self) -> None:
        """Hold it no longer."""
        self._gate.release(self)
