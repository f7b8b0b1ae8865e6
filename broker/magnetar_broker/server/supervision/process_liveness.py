"""The processes of the broker that are alive but do not run: stopped, frozen, or in a loop."""

import time
from collections.abc import Callable

REPORTS = 10
"""The number of reports that a process sends within the timeout."""


class ProcessLiveness:
    """The time for which each process has been silent, by process name.

    Only time in which the supervisor itself ran is counted: while it was stopped, or the machine
    suspended, it heard nothing of what the others did.
    """

    def __init__(self, timeout_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_seconds = timeout_seconds
        self.report_seconds = timeout_seconds / REPORTS
        """The interval of a process's reports, and the longest wait of the supervisor."""
        self._clock = clock
        self._read_at = clock()
        self._running = 0.0
        """The seconds in which the supervisor ran."""
        self._reported_at: dict[str, float] = {}
        """The value of `_running` at the last report of each process."""

    def advance(self) -> None:
        """Count the time since the last call; call it after every wait.

        A wait that exceeds `report_seconds` includes time in which the supervisor did not run: the
        excess is not counted.
        """
        now = self._clock()
        # promise[min(now - self._read_at, self.report_seconds) -> now - self._read_at]: time in
        #   which the supervisor did not run counts for no process
        self._running += min(now - self._read_at, self.report_seconds)
        self._read_at = now

    def begin(self, name: str) -> None:
        """Begin to count the silence of a process that was started."""
        self._reported_at[name] = self._running

    def reported(self, name: str) -> None:
        """Note a sign of life of a process."""
        if name in self._reported_at:
            self.begin(name)  # promise: anything that comes from a process ends its silence

    def end(self, name: str) -> None:
        """Stop counting the silence of a process that has ended, or is about to end."""
        self._reported_at.pop(name, None)

    def silence(self, name: str) -> float:
        """Return for how many seconds a process has been silent; 0 if it does not run."""
        return self._running - self._reported_at.get(name, self._running)

    def has_expired(self, name: str) -> bool:
        """Return whether a process has been silent for the timeout."""
        return self.silence(name) >= self.timeout_seconds
