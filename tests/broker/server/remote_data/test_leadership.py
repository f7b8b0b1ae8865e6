"""Of several brokers on one store one serves, and another one follows."""

import logging

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, ManualPromise, start
from magnetar_broker.base.metadata_keys import DIRECTORY
from magnetar_broker.server.remote_data.leadership import Leadership, lead
from magnetar_storage.errors import BadVersion, Fenced, Unavailable
from magnetar_storage.interfaces import ABSENT, Absent, Guard, Lease, Version


class Store(MemoryMetadata):
    """Metadata in memory, whose next write fails if the test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock)
        self.made: list[Lease] = []
        self.fails: Exception | None = None

    async def lease(self, ttl_seconds: float) -> Lease:
        self.made.append(await super().lease(ttl_seconds))
        self.made[-1].deadline = self.clock.uptime() + ttl_seconds
        return self.made[-1]

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        if self.fails is not None:
            fails, self.fails = self.fails, None
            raise fails
        return await super().put(key, value, expect, lease, guard)

    def lead(self, name: str) -> ManualPromise:
        """Start a broker; the result is its `Leadership`."""
        running = start(lead(self, self.clock, 10, name))
        self.clock.pump()
        return running

    def end(self, leadership: Leadership) -> None:
        start(self.revoke(leadership.lease)).result()
        self.clock.pump()


def test_the_first_broker_serves_and_the_others_wait(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    first = store.lead("a:6650").result()
    with caplog.at_level(logging.INFO):
        second, third = store.lead("b:6650"), store.lead("c:6650")
    assert not second.done() and not third.done()
    assert caplog.messages == ["standby: a:6650 serves the data; waiting until it ends"] * 2
    store.end(first)
    assert [second.done(), third.done()].count(True) == 1
    following = (second if second.done() else third).result()
    assert not first.holds()
    with pytest.raises(Fenced):  # what the former one still writes
        start(store.put("/topics/t", b"", guard=first.guard)).result()
    start(store.put("/topics/t", b"", guard=following.guard)).result()


def test_a_broker_that_waits_has_no_lease_to_renew() -> None:
    store = Store()
    store.lead("a").result()
    store.lead("b")
    assert [lease.is_lost for lease in store.made] == [False]


def test_a_broker_that_was_slower_waits_on() -> None:
    store = Store()
    store.fails = BadVersion(DIRECTORY)
    running = store.lead("a")
    assert not running.done() and store.made[0].is_lost
    start(store.put(DIRECTORY, b'{"broker": "b"}', ABSENT)).result()
    start(store.delete(DIRECTORY)).result()
    store.clock.pump()
    assert running.result().guard.key == DIRECTORY


def test_a_broker_that_cannot_reach_the_metadata_says_so_and_keeps_no_lease() -> None:
    store = Store()
    store.fails = Unavailable("the metadata is away")
    with pytest.raises(Unavailable, match="is away"):
        store.lead("a").result()
    assert store.made[0].is_lost


def test_a_wait_ends_with_the_store() -> None:
    store = Store()
    start(store.put(DIRECTORY, b'{"broker": "a"}', ABSENT)).result()
    running = store.lead("b")
    start(store.close()).result()
    store.clock.pump()
    with pytest.raises(Unavailable, match="closed"):
        running.result()


def test_leadership_holds_until_the_end_of_the_lease() -> None:
    store = Store()
    leadership = store.lead("a").result()
    assert leadership.holds()
    store.clock.advance(9.9)
    assert leadership.holds()
    store.clock.advance(0.2)
    assert not leadership.holds()
    leadership.lease.deadline += 10  # renewed
    assert leadership.holds()
    store.end(leadership)
    assert not leadership.holds()
