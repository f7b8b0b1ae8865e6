"""Processes that write metadata over links, one of which is lost at any point of their work.

Every history is run once for each of its steps, and the link is lost there.  What was acknowledged
is in the store; of what was under way either nothing or all is.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from effort import seeds, some
from fakes.links import LinkedMetadata
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, run, start
from magnetar_storage.errors import BadVersion, Unavailable
from magnetar_storage.interfaces import (
    ABSENT,
    RESYNC,
    Absent,
    Change,
    Guard,
    Lease,
    Version,
    Versioned,
)
from magnetar_storage.runtime.execution import yield_turn

KEYS = ("/a", "/b", "/b/c")
STEPS = (5, 64, 1 << 20)
"""Bytes that a link carries at a time."""
SHARED = "/shared"


class SlowMetadata(MemoryMetadata):
    """Every write takes place a turn after it is asked for, and a turn before it is answered."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._clock = clock

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        await yield_turn(self._clock)
        version = await super().put(key, value, expect, lease, guard)
        await yield_turn(self._clock)
        return version

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await yield_turn(self._clock)
        await super().delete(key, expect, guard)
        await yield_turn(self._clock)

    async def lease(self, ttl_seconds: float) -> Lease:
        await yield_turn(self._clock)
        lease = await super().lease(ttl_seconds)
        await yield_turn(self._clock)
        return lease


@dataclass
class Writer:
    """Writes one key, which no other writes, one write after the other."""

    linked: LinkedMetadata
    key: str
    random: Random
    value: bytes | None = None
    """What was acknowledged."""
    version: Version | None = None
    wanted: list[bytes | None] = field(default_factory=list)
    """The write whose outcome is unknown."""

    async def work(self, writes: int) -> None:
        remote = self.linked.remote
        for number in range(writes):
            value = b"%s %d" % (self.key.encode(), number)
            step = self.random.choice(("put", "expected", "stale", "delete", "get"))
            if step == "get":
                found = await remote.get(self.key)
                assert (None if found is None else found.value) == self.value
            elif step == "stale":
                await self.refused(remote.put(self.key, value, 10**9))
            elif step == "delete":
                await self.write(None, remote.delete(self.key))
            elif step == "put":
                await self.write(value, remote.put(self.key, value))
            else:
                expect = ABSENT if self.version is None else self.version
                await self.write(value, remote.put(self.key, value, expect))

    async def write(self, value: bytes | None, write: Coroutine[Any, Any, Version | None]) -> None:
        self.wanted = [value]
        self.version = await write
        self.value, self.wanted = value, []

    async def refused(self, write: Coroutine[Any, Any, Version]) -> None:
        try:
            await write
        except BadVersion:
            return
        raise AssertionError("a stale version was accepted")


async def count_up(linked: LinkedMetadata, times: int, counted: list[int]) -> None:
    """Add to a number that other processes add to as well, each time one."""
    for _ in range(times):
        while True:
            found = await linked.remote.get(SHARED)
            value = b"%d" % (1 if found is None else int(found.value) + 1)
            try:
                await linked.remote.put(SHARED, value, ABSENT if found is None else found.version)
            except BadVersion:
                continue
            break
        counted.append(1)


async def hold(linked: LinkedMetadata) -> None:
    """Keep keys as long as this process lives."""
    lease = await linked.remote.lease(60)
    for number in range(3):
        await linked.remote.put(f"/held/{number}", b"", lease=lease)


class Mirror:
    """What a process knows of the store by watching it."""

    def __init__(self, linked: LinkedMetadata) -> None:
        self._linked = linked
        self._changes = linked.remote.watch("/")
        self.values: dict[str, bytes] = {}
        self.versions: list[Version] = []

    async def follow(self) -> None:
        async for change in self._changes:
            if change is RESYNC:
                listed = await self._linked.remote.read_under("/")
                self.values = {
                    key: found.value for key, found in listed if isinstance(found, Versioned)
                }
                continue
            assert isinstance(change, Change)
            self.versions.append(change.version)
            if change.value is None:
                self.values.pop(change.key, None)  # absent if it was deleted before the listing
            else:
                self.values[change.key] = change.value


class History:
    """Two processes and the store; the link of the first is lost after so many steps."""

    def __init__(self, seed: int, lost_after: int | None) -> None:
        random = Random(seed)
        self.clock = clock = ManualClock()
        self.store = SlowMetadata(clock)
        self.lost, self.other = (
            LinkedMetadata(self.store, clock, random.choice(STEPS)) for _ in range(2)
        )
        self.mirror = Mirror(self.other)
        self.writers = [Writer(self.lost, key, Random(random.random())) for key in KEYS]
        self.counted: list[int] = []
        self.mine = [
            *(start(writer.work(random.randrange(1, 5))) for writer in self.writers),
            start(hold(self.lost)),
            start(count_up(self.lost, 2, self.counted)),
        ]
        following = start(self.mirror.follow())
        theirs = start(count_up(self.other, 3, self.counted))
        self.steps = 0
        while self.steps != lost_after and clock.step():
            self.steps += 1
        if lost_after is not None:
            self.lost.cut()
        clock.pump()
        theirs.result()
        assert not following.done()

    def values(self) -> dict[str, Versioned]:
        keys = run(self.store.list(""), self.clock)
        found = {key: run(self.store.get(key), self.clock) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def check(self) -> None:
        values = {key: found.value for key, found in self.values().items()}
        for task in self.mine:
            try:
                task.result()
            except Unavailable:
                assert self.lost.is_cut
        for writer in self.writers:
            assert values.get(writer.key) in [writer.value, *writer.wanted]
        assert len(self.counted) <= int(values[SHARED]) <= len(self.counted) + 1
        assert self.mirror.values == values
        assert self.mirror.versions == sorted(set(self.mirror.versions))


@pytest.mark.parametrize("seed", seeds(20))
def test_what_was_acknowledged_is_there_wherever_the_link_is_lost(seed: int) -> None:
    whole = History(seed, None)
    whole.check()
    held = [key for key in whole.values() if key.startswith("/held/")]
    assert len(held) == 3 and len(whole.counted) == 5
    for lost_after in some(range(whole.steps), 5):
        history = History(seed, lost_after)
        history.check()
        assert not history.store._leases
        assert not [key for key in history.values() if key.startswith("/held/")]
