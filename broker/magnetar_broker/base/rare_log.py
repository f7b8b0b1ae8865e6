"""Logs lines that clients can cause as often as they like."""

import logging
from collections.abc import Hashable

from magnetar_storage.runtime.execution import Clock

LOG_SECONDS = 60.0
"""The interval in which at most one line of a kind is logged: clients cannot flood the log."""


class RareLog:
    """Logs the first line of each kind in an interval, and then how many more there were."""

    def __init__(self, logger: logging.Logger, level: int, clock: Clock) -> None:
        self._logger = logger
        self._level = level
        self._clock = clock
        self._left_out: dict[Hashable, int] = {}

    def write(self, kind: Hashable, line: str, summary: str) -> None:
        """Write `line`, once per interval for its kind; `summary` follows the count of the rest."""
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
