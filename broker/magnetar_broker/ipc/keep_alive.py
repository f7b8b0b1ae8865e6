"""Notices that a peer is gone although its stream has no end, as after a loss of power.

Both sides of a link send a notice at intervals.  A link over which nothing arrives for `SILENCES`
intervals is given up.  Intervals are counted, and not time, because a process that has been paused
finds afterwards what has arrived in the meantime.
"""

from collections.abc import Callable

from magnetar_broker.ipc.link import Link
from magnetar_storage.runtime.execution import Clock, Timer

ALIVE = "link.alive"
INTERVAL_SECONDS = 5.0
SILENCES = 3
"""The number of intervals without any bytes after which the peer counts as gone."""


class KeepAlive:
    """The notices of one side of a link, and the watch over those of the other side."""

    def __init__(self, link: Link, clock: Clock, silent: Callable[[], None]) -> None:
        """Prepare a link that is not connected yet; `silent` is called once if the peer is gone."""
        self._link = link
        self._clock = clock
        self._silent = silent
        self._silences = 0
        self._timer: Timer | None = None
        link.serve({ALIVE: lambda: None})
        link.when_ended(self._stop)

    def start(self) -> None:
        """Begin to send notices, and to expect those of the peer."""
        if not self._link.has_ended:
            self._timer = self._clock.later(INTERVAL_SECONDS, self._check)

    def heard(self) -> None:
        """Note that bytes of the peer have arrived."""
        self._silences = 0  # promise: a link over which anything arrives stays

    def _check(self) -> None:
        self._silences += 1
        # promise: a peer that is gone without a sign is noticed
        if self._silences > SILENCES:
            self._silent()
            return
        self._timer = self._clock.later(INTERVAL_SECONDS, self._check)
        self._link.notify(ALIVE)  # promise: an idle link stays

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # promise: nothing is left of a link that has ended
