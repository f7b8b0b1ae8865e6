"""The common part of the sources from which dispatchers read a log: failures, damage, retries."""

import logging
from collections.abc import Callable

from magnetar_broker.dispatch.base import Blocker
from magnetar_storage.errors import StorageError
from magnetar_storage.log.damage import LASTING, Damage
from magnetar_storage.log.log import Log

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
LOG_SECONDS = 60.0
"""The interval in which a failure that repeats is logged once: a store may be away for hours."""


def blocker_of(failure: StorageError | None) -> Blocker:
    """Return the blocker of a source that has no entry ready."""
    if failure is None:
        return Blocker.READING
    return Blocker.DAMAGE if isinstance(failure, LASTING) else Blocker.READ_ERROR


class EntrySource:
    """The source of a log's entries for a dispatcher; `ready` is called for more or a retry."""

    def __init__(self, log: Log, ready: Callable[[], None]) -> None:
        self.failure: StorageError | None = None
        """The reason why the entries cannot be read.  Damage stays until a seek or a new consumer
        calls `retry`; any other error is retried after `RETRY_SECONDS`."""
        self._log = log
        self._ready = ready
        self._failed_at = 0
        self._logged = ""
        """The last failure that was logged."""
        self._log_again = 0.0
        """The uptime from which it is logged again."""

    def retry(self) -> None:
        """Clear a failure, so that the next `take` reads again."""
        self.failure = None

    def give_up(self) -> range:
        """Return the range that damage has made unreadable, to be skipped; empty without damage."""
        error, at = self.failure, self._failed_at
        if not isinstance(error, LASTING):
            return range(0)
        # The failure ends with this: the caller skips the entries and reads on after them.
        self.failure = None
        return range(at, self._log.entries.behind_damage(at, error))

    @property
    def damage(self) -> Damage | None:
        """The damaged entries that stop it; None if no damage does."""
        error = self.failure
        log, at = self._log, self._failed_at
        if not isinstance(error, LASTING) or not log.first_offset <= at < log.end:
            return None
        return log.entries.damage_at(at, error)

    def _failed(self, offset: int, error: StorageError) -> None:
        # Damage was logged when it was found (`FoundDamage`), not again for each reader.
        if self.failure is None and not isinstance(error, LASTING):
            self._report(offset, error)
        self.failure, self._failed_at = error, offset
        # Damage is not retried: it lasts until it is repaired or set aside, and each try would read
        # the segment again.
        if not isinstance(error, LASTING):
            self._log.engine.clock.later(RETRY_SECONDS, self._try_again)

    def _report(self, offset: int, error: StorageError) -> None:
        now = self._log.engine.clock.uptime()
        text = f"{self._log.key} cannot be read for delivery from offset {offset} on: {error}"
        if text == self._logged and now < self._log_again:
            return
        self._logged, self._log_again = text, now + LOG_SECONDS
        logger.error("%s", text)

    def _try_again(self) -> None:
        self.failure = None
        self._ready()
