"""A client that is not read from for a while because it publishes faster than it may."""

from collections.abc import Callable

from magnetar_broker.session.read_gate import ReadGate
from magnetar_storage.world import Clock

REASSURE_SECONDS = 10.0
"""A client that hears nothing for longer may think that nobody is there, and come back."""


class Throttled:
    """Reasons of the moment; while there is one, `reassure` is called now and then."""

    def __init__(self, gate: ReadGate, clock: Clock, reassure: Callable[[], None]) -> None:
        self._gate = gate
        self._clock = clock
        self._reassure = reassure
        self._held = 0
        self._timed = False

    @property
    def is_held(self) -> bool:
        """Whether the client is not read from."""
        return self._held > 0

    def hold(self) -> Callable[[], None]:
        """One reason more; what comes back ends it, and is to be called once."""
        reason = self._gate.reason()
        reason.pause_reading()
        self._held += 1
        if not self._timed:
            self._timed = True
            self._clock.later(REASSURE_SECONDS, self._look)

        def release() -> None:
            self._held -= 1
            reason.resume_reading()

        return release

    def _look(self) -> None:
        self._timed = self.is_held
        if self._timed:
            self._reassure()
            self._clock.later(REASSURE_SECONDS, self._look)
