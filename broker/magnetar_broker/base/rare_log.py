"""Lines of the log about what clients can cause as often as they like."""

import logging
from collections.abc import Hashable

from magnetar_storage.world.runtime import Clock

LOG_SECONDS = 60.0
"""At most one line of a kind in this time: a flood of clients must not become one of lines."""


class RareLog:
    """Of each kind the first line in a while, and after that how many more there were."""

    def __init__(self, logger: logging.Logger, level: int, clock: Clock) -> None:
        self._logger = logger
        self._level = level
        self._clock = clock
        self._left_out: dict[Hashable, int] = {}

    def write(self, kind: Hashable, line: str, summary: str) -> None:
        """Write `line`, unless its kind had one; `summary` goes behind the number of those."""
        if kind in self._left_out:
            self._left_out[kind] += 1
            return
        self._logger.log(self._level, "%s", line)
        self._left_out[kind] = 0
        self._clock.later(LOG_SECONDS, lambda: self._summarize(kind, summary))

    def _summarize(self, kind: Hashable, summary: str) -> None:
        number = self._left_out.pop(kind)
        if number:
            self._logger.log(
                self._level, "%d more in the last %.0f s: %s", number, LOG_SECONDS, summary
            )
