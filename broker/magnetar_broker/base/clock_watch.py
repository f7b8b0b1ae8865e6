"""Notices jumps of the wall clock, so that nothing is deleted because the clock is wrong.

The ages of messages are differences of times of day.  A clock that jumps forward, until an operator
or NTP sets it back, would make all messages old at once.
"""

import logging
from typing import Final

from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger(__name__)

CLOCK, CLOCK_SECONDS = "check of the clock", 10
JUMP_SECONDS: Final = 60
"""The smallest jump, in seconds; a smaller difference between two looks is an adjustment."""
HOLD_SECONDS: Final = 900
"""The seconds after a jump forward in which ages do not count the jump."""


class ClockWatch:
    """Compares the wall clock with the time since the machine started; call `look` regularly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._difference()
        self._jumped = 0.0
        """The seconds by which the clock jumped forward; until `_held_until` ages ignore them."""
        self._held_until = 0.0

    def _difference(self) -> float:
        return self._clock.now_ms() / 1000 - self._clock.uptime()

    async def look(self) -> None:
        """Log a jump of the clock; keep a jump forward out of ages for a while."""
        self._look()

    def now_ms(self) -> int:
        """Return the time of day for ages; for a while after a jump forward, without the jump.

        Code that deletes or acknowledges messages for their age uses this time.
        """
        self._look()
        now_ms = self._clock.now_ms()
        if self._clock.uptime() >= self._held_until:
            return now_ms
        # promise: a clock that is wrong for a while deletes nothing
        now_ms -= round(self._jumped * 1000)
        return now_ms

    def _look(self) -> None:
        seconds = self._difference() - self._ahead
        self._ahead += seconds
        if abs(seconds) < JUMP_SECONDS:
            return
        uptime = self._clock.uptime()
        held = self._jumped if uptime < self._held_until else 0.0
        self._jumped = max(held + seconds, 0.0)
        if seconds < 0:
            logger.warning(
                "the clock was set back by %d seconds: ages of messages, delays and retention "
                "follow it", -seconds,
            )  # fmt: skip
            return
        self._held_until = uptime + HOLD_SECONDS
        logger.warning(
            "the clock was set forward by %d seconds: in the next %d minutes nothing is deleted "
            "for being older by that; set the clock if it is wrong", seconds, HOLD_SECONDS // 60,
        )  # fmt: skip
