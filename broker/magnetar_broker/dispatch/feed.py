"""Where a dispatcher's entries come from: memory if recent, else read ahead from the store."""

import logging
from collections.abc import Callable

from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log import Log

logger = logging.getLogger(__name__)

AHEAD_ENTRIES = 2000
AHEAD_BYTES = 1 << 20
NOTHING = Run(0, [], ())
LASTING = (Corrupt, NoSegment)
RETRY_SECONDS = 1.0


class Feed:
    """Serves one dispatcher.  A dispatcher that got nothing is called when there is more."""

    def __init__(self, entries: Log, ready: Callable[[], None]) -> None:
        self.failure: StorageError | None = None
        """Why the entries cannot be read.  Damage stays until a seek or a new consumer tries
        again; anything else is tried again by itself."""
        self._log = entries
        self._ready = ready
        self._ahead = NOTHING
        self._reading = False

    def take(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Entries from `offset` on, all of one segment; None when there are none (yet)."""
        end = self._log.segment_end(offset)
        if offset >= end:
            self._ahead = NOTHING
            return None
        if self.failure is not None:
            return None
        max_entries = min(max_entries, end - offset)
        run = self._log.recent(offset, max_entries, max_bytes)
        if run is not None:
            self._ahead = NOTHING
            return run
        at = offset - self._ahead.first
        if 0 <= at < len(self._ahead.payloads):
            payloads = self._ahead.payloads[at : at + max_entries]
            return Run(offset, payloads, self._ahead.counts[at : at + len(payloads)])
        if not self._reading:
            self._reading = True
            self._log.engine.tasks.spawn(self._read(offset))
        return None

    def retry(self) -> None:
        """Forget a failure."""
        self.failure = None

    def clear(self) -> None:
        """Give back the memory: nobody reads at present."""
        self._ahead = NOTHING

    async def _read(self, offset: int) -> None:
        try:
            self._ahead = await self._log.read(offset, AHEAD_ENTRIES, AHEAD_BYTES)
        except StorageError as error:
            if offset >= self._log.first_offset:  # else it was trimmed meanwhile: read on behind
                self._failed(offset, error)
        finally:
            self._reading = False
        self._ready()

    def _failed(self, offset: int, error: StorageError) -> None:
        if self.failure is None:
            logger.error("%s cannot be read from offset %d: %s", self._log.key, offset, error)
        self.failure = error
        if not isinstance(error, LASTING):
            self._log.engine.clock.later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self.failure = None
        self._ready()
