"""The links to a process that may end and be started again, each time with another link."""

from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.runtime.execution import Clock

RESTART_SECONDS = 30.0
"""The time to wait for a process that has ended, in seconds."""


class SuccessiveLinks:
    """The links to one process, of which one at a time is in use."""

    def __init__(self, peer: str, clock: Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._link: Link | None = None
        self._is_closed = False
        self._changed = Waiters(clock)

    def replace(self, link: Link) -> None:
        """Replace the link: the process has started, or started again."""
        self._link = link
        self._changed.release()

    @property
    def latest(self) -> Link | None:
        """The link to the latest process, which may have ended; None before the first one."""
        return self._link

    def close(self) -> None:
        """End the link, and wait for no later one."""
        if self._link is not None:
            self._link.close()
        self.wait_no_longer()

    def wait_no_longer(self) -> None:
        """Wait for no later link: requests fail if the process has ended, or ends."""
        self._is_closed = True
        self._changed.release()

    async def present(self) -> Link:
        """Return the link to the running process; waits for the process to start.

        `ProcessUnavailable` if it stays away.
        """
        # Not by the wall clock, which may be set while the process starts.
        until = self._clock.uptime() + RESTART_SECONDS
        while (link := self._link) is None or link.has_ended:
            left = round(until - self._clock.uptime(), 3)
            if self._is_closed or left <= 0:
                raise ProcessUnavailable(f"{self._peer} has ended and is not back: retry")
            timer = self._clock.later(left, self._changed.release)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        return link
