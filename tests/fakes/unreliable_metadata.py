"""Metadata in memory that is away, or makes a write and loses the answer, when the test says so."""

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, ManualPromise, start
from magnetar_storage.errors import BadVersion, Fenced, Unavailable
from magnetar_storage.interfaces import PAGE, Absent, Guard, Lease, Listed, Version, Versioned

LATE_SECONDS = 0.12
"""The time after which a write that is late takes place, unless the test sets another."""


class Fate(Enum):
    """The outcome of one attempt to write."""

    ANSWERED = auto()
    LOST = auto()
    """The write takes place, or is refused, but the answer is lost."""
    NOT_MADE = auto()
    LATE = auto()
    """No answer comes; the write takes place, or is refused, `late_seconds` later."""


class Landed(NamedTuple):
    """A write that took place; `value` is None for a deletion."""

    key: str
    value: bytes | None
    version: Version


class UnreliableMetadata(MemoryMetadata):
    """Reliable until the test changes one of the attributes."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.fates: deque[Fate] = deque()
        """The fates of the next attempts to write; later ones are answered."""
        self.lost_reads: deque[bool] = deque()
        """Whether the next reads fail; later ones do not."""
        self.late_seconds = LATE_SECONDS
        self.is_away = False
        """Whether every call fails at once, and does nothing."""
        self.calls: list[str] = []
        """The names of all calls."""
        self.landed: list[Landed] = []
        self._paused: list[ManualPromise] | None = None
        self._clock = clock

    def pause(self) -> None:
        """Let calls wait until `resume`."""
        self._paused = []

    def resume(self) -> None:
        waiting, self._paused = self._paused or [], None
        for turn in waiting:
            turn.set_result(None)

    async def get(self, key: str) -> Versioned | None:
        await self._begin("get", is_read=True)
        return await super().get(key)

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        await self._begin("list", is_read=True)
        return await super().list(prefix, after, limit)

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        await self._begin("read_under", is_read=True)
        return await super().read_under(prefix, after, limit)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        await self._begin("put")
        return await self._write(partial(self.store, key, value, expect, lease, guard))

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._begin("delete")
        await self._write(partial(self.remove, key, expect, guard))

    # At once, as another process does it --------------------------------------------------------

    async def store(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        """Put a value, whatever the state of the store."""
        version = await super().put(key, value, expect, lease, guard)
        self.landed.append(Landed(key, value, version))
        return version

    async def remove(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> Version:
        """Delete a key, whatever the state of the store."""
        await super().delete(key, expect, guard)
        self.landed.append(Landed(key, None, self._writes))
        return self._writes

    # Fates ----------------------------------------------------------------------------------------

    async def _begin(self, call: str, is_read: bool = False) -> None:
        self.calls.append(call)
        if self._paused is not None:
            turn = ManualPromise()
            self._paused.append(turn)
            await turn
        if self.is_away:
            raise Unavailable("the store is away")
        if is_read and self.lost_reads and self.lost_reads.popleft():
            raise Unavailable("the read was lost")

    async def _write(self, make: Callable[[], Coroutine[Any, Any, Version]]) -> Version:
        fate = self.fates.popleft() if self.fates else Fate.ANSWERED
        if fate is Fate.ANSWERED:
            return await make()
        if fate is Fate.LATE:
            self._clock.later(self.late_seconds, lambda: _done_unless_refused(make))
        elif fate is Fate.LOST:
            _done_unless_refused(make)
        raise Unavailable(f"no answer: {fate.name}")


def _done_unless_refused(make: Callable[[], Coroutine[Any, Any, Version]]) -> None:
    with suppress(BadVersion, Fenced):
        start(make()).result()
