"""Logs over metadata that is away at times, and that the broker waits for."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from fakes.logs import LogWorld
from fakes.unreliable_metadata import UnreliableMetadata
from fakes.world import start
from magnetar_storage.interfaces import MetadataStore, SegmentStore
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.metadata.retrying import RetryingMetadata

T = TypeVar("T")

STEP_SECONDS = 0.05
LONG_SECONDS = 60.0
"""The time after which `do` gives up: longer than anything is waited for."""


class OutageWorld(LogWorld):
    """Has an `UnreliableMetadata`, and lets time pass in `do`; a base before that of the world."""

    unreliable: UnreliableMetadata

    def engine_on(
        self, store: SegmentStore, metadata: MetadataStore, roll: RollLimits, cache_bytes: int
    ) -> Engine:
        self.metadata = self.unreliable = UnreliableMetadata(self.clock)
        waiting = RetryingMetadata(self.unreliable, self.clock)
        return super().engine_on(store, waiting, roll, cache_bytes)

    def away(self, seconds: float) -> None:
        """Let metadata be away from now on for a time."""
        self.unreliable.is_away = True
        self.clock.later(seconds, self._back)

    def _back(self) -> None:
        self.unreliable.is_away = False

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        outcome = start(coro)
        self.clock.pump()
        until = self.clock.uptime() + LONG_SECONDS
        while not outcome.done():
            assert self.clock.uptime() < until, "it waits for something that will never come"
            self.clock.advance(STEP_SECONDS)
        result: T = outcome.result()
        return result
