"""Retries operations that failed temporarily, until they time out."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from magnetar.base.errors import MagnetarError, OperationTimeout
from magnetar.base.settings import Settings
from magnetar.connections.backoff import Backoff

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Refusable(Protocol):
    """An object that attempts wait for, and that a broker may refuse in the meantime."""

    @property
    def refusal(self) -> MagnetarError | None:
        """The reason why the object is not available now, if known."""


class Retry:
    """Repeats attempts with pauses, and keeps the last error."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.last_error: MagnetarError | None = None

    async def for_ever(
        self,
        attempt: Callable[[], Awaitable[T]],
        may_retry: Callable[[MagnetarError], bool] = lambda error: error.retriable,
    ) -> T:
        """Repeat `attempt()` until it succeeds, or fails permanently."""
        backoff = Backoff(self._settings.backoff_first_ms, self._settings.backoff_max_ms)
        while True:
            try:
                return await attempt()
            except MagnetarError as error:
                if not may_retry(error):
                    raise
                # For retriable errors the pool has logged why no connection could be opened.
                if not error.retriable and str(error) != str(self.last_error):
                    logger.warning("%s; trying again", error)
                self.last_error = error
            await self._settings.clock.sleep(backoff.pause_s())

    async def in_time(
        self, attempt: Callable[[], Awaitable[T]], what: str, awaited: Refusable | None = None
    ) -> T:
        """Do the same as `for_ever`, within the operation timeout, which names the last error.

        Without an error of the attempts it names the refusal of what they wait for.
        """
        limit_s = self._settings.operation_timeout_s
        try:
            async with self._settings.clock.timeout(limit_s):
                return await self.for_ever(attempt)
        except OperationTimeout:
            raise
        except TimeoutError:
            reason = self.last_error or (None if awaited is None else awaited.refusal)
            raise OperationTimeout(
                f"{what} did not succeed within {limit_s:g} s: {reason or 'no answer'}"
            ) from None
