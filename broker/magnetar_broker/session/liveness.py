"""Detects dead clients: a silent one gets a PING, and is closed if it stays silent."""

from collections.abc import Callable

from magnetar_storage.runtime.execution import Clock, Promise, Timer


class Liveness:
    """The liveness of one connection; all input of the client counts, not only PONG."""

    __slots__ = ("_active", "_clock", "_ping", "_probe_seconds", "_probes")

    def __init__(self, clock: Clock, probe_seconds: float, ping: Callable[[], None]) -> None:
        """`ping` sends a PING; `probe` waits `probe_seconds` for an answer."""
        self._clock = clock
        self._probe_seconds = probe_seconds
        self._ping = ping
        self._active = True
        self._probes: list[Promise] = []

    def received(self) -> None:
        """Note input of the client."""
        self._active = True
        if self._probes:
            self._settle(True)

    def resumed(self) -> None:
        """Note that the client is read from again: its earlier silence meant nothing.

        This does not answer a probe: a dead client would look alive, and keep its producer's name.
        """
        self._active = True

    def check(self) -> bool:
        """Ping the client if it was silent since the last check; False if it was pinged then."""
        if not self._active:
            return False
        self._active = False
        self._ping()
        return True

    async def probe(self) -> bool:
        """Return whether the client answers a PING in time."""
        probe = self._clock.promise()
        self._probes.append(probe)
        self._ping()
        timer: Timer = self._clock.later(self._probe_seconds, lambda: _answer(probe, False))
        try:
            return bool(await probe)
        finally:
            timer.cancel()
            self._probes.remove(probe)

    def end(self) -> None:
        """End all probes, because the connection is closed."""
        self._settle(False)

    def _settle(self, alive: bool) -> None:
        for probe in list(self._probes):
            _answer(probe, alive)


def _answer(probe: Promise, alive: bool) -> None:
    if not probe.done():  # else the client has answered, or the waiter was cancelled
        probe.set_result(alive)
