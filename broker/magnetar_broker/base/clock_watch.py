"""Notices that the wall clock was set, so that nothing is deleted because of a wrong one.

The ages of messages are differences of times of day.  A clock that jumps forward, until somebody
or NTP sets it back, would make all messages old at once.
"""

import logging
from typing import Final

from magnetar_storage.world.runtime import Clock

logger = logging.getLogger(__name__)

CLOCK, CLOCK_SECONDS = "check of the clock", 10
JUMP_SECONDS: Final = 60
"""A smaller difference between two looks counts as an adjustment."""
HOLD_SECONDS: Final = 900
"""How long after a jump forward nothing is deleted for its age."""


class ClockWatch:
    """Compares the wall clock with the time since the machine started; `look` regularly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._difference()
        self._held_until = 0.0

    def _difference(self) -> float:
        return self._clock.now_ms() / 1000 - self._clock.uptime()

    async def look(self) -> None:
        """Log a jump of the clock, and hold deletions after one forward."""
        self._look()

    def holds_deletions(self) -> bool:
        """Whether nothing is to be deleted for its age, since the clock has jumped forward."""
        self._look()
        return self._clock.uptime() < self._held_until

    def _look(self) -> None:
        seconds = self._difference() - self._ahead
        self._ahead += seconds
        if abs(seconds) < JUMP_SECONDS:
            return
        if seconds < 0:
            self._held_until = 0.0
            logger.warning(
                "the clock was set back by %d seconds: ages of messages, delays and retention "
                "follow it", -seconds,
            )  # fmt: skip
            return
        # promise: a clock that is wrong for a while deletes nothing
        self._held_until = self._clock.uptime() + HOLD_SECONDS
        logger.warning(
            "the clock was set forward by %d seconds: nothing is deleted for its age in the next "
            "%d minutes; set the clock if it is wrong", seconds, HOLD_SECONDS // 60,
        )  # fmt: skip
