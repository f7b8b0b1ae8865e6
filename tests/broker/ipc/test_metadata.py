"""A metadata store over a link: what the link adds to the rules of every store, which
tests/storage/metadata/conformance.py checks."""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.links import LinkedMetadata
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, QueuedWorker, run, start
from magnetar_broker.ipc.leases import RETRY_SECONDS
from magnetar_broker.ipc.metadata_server import settled
from magnetar_storage.errors import BadVersion, DiskFull, Fenced, ProcessUnavailable, Unavailable
from magnetar_storage.interfaces import (
    ABSENT,
    RESYNC,
    Change,
    Changes,
    Guard,
    Lease,
    Resync,
    Version,
    Versioned,
)
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.metadata.watch import QUEUE_LIMIT
from magnetar_storage.runtime.disk import LocalDisk
from magnetar_storage.runtime.execution import yield_turn


async def next_of(watch: Changes) -> Change | Resync:
    return await anext(watch)


class Linked(LinkedMetadata):
    """A store in memory, and the same over a link."""

    def __init__(
        self, store: MemoryMetadata | None = None, may_write: Callable[[str], bool] = bool
    ) -> None:
        clock = ManualClock()
        self.store = store or MemoryMetadata(clock)
        super().__init__(self.store, clock, may_write=may_write)

    def keys(self) -> list[str]:
        return run(self.store.list(""), self.clock)


def test_requests_of_a_turn_are_one_write() -> None:
    linked = Linked()
    puts = [start(linked.remote.put(f"/{at}", b"x", ABSENT)) for at in range(20)]
    linked.clock.pump()
    gets = [start(linked.remote.get(f"/{at}")) for at in range(20)]
    linked.clock.pump()
    assert [get.result() for get in gets] == [(b"x", put.result()) for put in puts]
    assert len(linked.to_right.writes) == len(linked.to_left.writes) == 2


# Fencing -----------------------------------------------------------------------------


def test_keys_of_others_are_read_and_not_written() -> None:
    linked = Linked(may_write=lambda key: key.startswith("/mine"))
    version = run(linked.store.put("/other", b"1"), linked.clock)
    for write in (
        linked.remote.put("/other", b"2"),
        linked.remote.put("/other", b"2", version),
        linked.remote.delete("/other"),
    ):
        with pytest.raises(Fenced, match=r"^/other: the left side may not write it"):
            run(write, linked.clock)
    assert run(linked.remote.get("/other"), linked.clock) == (b"1", version)
    run(linked.remote.put("/mine", b"3"), linked.clock)
    run(linked.remote.delete("/mine"), linked.clock)
    assert linked.keys() == ["/other"]


def test_who_may_write_is_asked_for_every_write() -> None:
    mine: set[str] = {"/a"}
    linked = Linked(may_write=lambda key: key in mine)
    run(linked.remote.put("/a", b"1"), linked.clock)
    mine.clear()
    with pytest.raises(Fenced):
        run(linked.remote.put("/a", b"2"), linked.clock)


# Watches -----------------------------------------------------------------------------


def watched(linked: Linked, prefix: str) -> Changes:
    """Return a watch whose reader knows that it must list the prefix."""
    watch = linked.remote.watch(prefix)
    assert run(next_of(watch), linked.clock) is RESYNC
    return watch


def test_a_watch_sees_what_others_write_in_order() -> None:
    linked = Linked()
    watch = watched(linked, "/t/")
    versions = [run(linked.store.put(f"/t/{at}", b"%d" % at), linked.clock) for at in range(3)]
    versions.append(run(linked.remote.put("/t/0", b"again"), linked.clock))
    seen = [run(next_of(watch), linked.clock) for _ in range(4)]
    assert seen == [
        *(Change(f"/t/{at}", b"%d" % at, versions[at]) for at in range(3)),
        Change("/t/0", b"again", versions[3]),
    ]


def test_what_this_process_writes_after_it_began_to_watch_is_seen() -> None:
    linked = Linked()
    watch = watched(linked, "/")
    version = run(linked.remote.put("/a", b""), linked.clock)
    assert run(next_of(watch), linked.clock) == Change("/a", b"", version)


def test_a_process_that_does_not_read_is_notified_to_list_again() -> None:
    """Its changes wait in the store's watch, which has a limit, and not in the link."""
    linked = Linked()
    watch = watched(linked, "/")
    linked.right.pause()
    for at in range(QUEUE_LIMIT + 2):
        run(linked.store.put("/a", b"%d" % at), linked.clock)
    linked.clock.pump()
    linked.right.resume()
    linked.clock.pump()
    assert sum(map(len, linked.to_left.writes)) < 1000
    assert run(next_of(watch), linked.clock) is RESYNC
    version = run(linked.store.put("/a", b"later"), linked.clock)
    assert run(next_of(watch), linked.clock) == Change("/a", b"later", version)


def test_a_watcher_that_is_slow_is_notified_to_list_again() -> None:
    linked = Linked()
    watch = watched(linked, "/")
    for at in range(QUEUE_LIMIT + 2):
        run(linked.store.put("/a", b"%d" % at), linked.clock)
        linked.clock.pump()
    assert run(next_of(watch), linked.clock) is RESYNC


def test_changes_that_nobody_watches_any_more_are_not_sent() -> None:
    linked = Linked()
    watch = watched(linked, "/")
    del watch
    gc.collect()
    linked.to_left.writes.clear()
    for _ in range(4):
        run(linked.store.put("/a", b""), linked.clock)
        linked.clock.pump()
    assert len(linked.to_left.writes) == 2, "the first change, and that the watch has ended"


def test_watches_end_with_the_link_on_both_sides() -> None:
    linked = Linked()
    watch = watched(linked, "/")
    waiting = start(next_of(watch))
    run(linked.store.put("/a", b""), linked.clock)
    linked.cut()
    linked.clock.pump()
    for ended in (waiting, start(next_of(watch)), start(next_of(linked.remote.watch("/")))):
        with pytest.raises(StopAsyncIteration):
            ended.result()
    assert not linked.store._watchers._watches


def test_watches_end_when_the_store_is_closed() -> None:
    linked = Linked()
    watch = watched(linked, "/")
    run(linked.store.put("/a", b""), linked.clock)
    run(linked.store.close(), linked.clock)
    linked.clock.pump()
    assert isinstance(run(next_of(watch), linked.clock), Change)
    with pytest.raises(StopAsyncIteration):
        run(next_of(watch), linked.clock)


# Leases ------------------------------------------------------------------------------


def test_a_lease_lives_as_long_as_it_is_renewed() -> None:
    linked = Linked()
    lease = run(linked.remote.lease(9), linked.clock)
    run(linked.remote.put("/mine", b"", lease=lease), linked.clock)
    for _ in range(100):
        linked.clock.advance(1)
    assert linked.keys() == ["/mine"]
    linked.to_right.held = True  # the process hangs
    linked.clock.advance(6)
    assert linked.keys() == ["/mine"]
    linked.clock.advance(3)
    assert linked.keys() == []
    assert lease.is_lost and lease.deadline <= linked.clock.uptime()
    linked.to_right.held = False
    linked.to_right.carry()
    linked.clock.advance(9)  # its renewals come too late
    with pytest.raises(Unavailable, match=f"lease {lease.id} has ended"):
        run(linked.remote.put("/mine", b"", lease=lease), linked.clock)
    run(linked.remote.revoke(lease), linked.clock)


def test_a_lease_ends_with_the_link() -> None:
    linked = Linked()
    lease = run(linked.remote.lease(60), linked.clock)
    run(linked.remote.put("/mine", b"", lease=lease), linked.clock)
    run(linked.remote.put("/kept", b""), linked.clock)
    linked.cut()
    linked.clock.pump()
    assert linked.keys() == ["/kept"]
    linked.clock.advance(200)
    assert lease.is_lost and not linked.remote._renewals._held


def test_a_process_knows_of_a_loss_before_its_keys_go() -> None:
    linked = Linked()
    lease = run(linked.remote.lease(9), linked.clock)
    run(linked.remote.put("/mine", b"", lease=lease), linked.clock)
    keys_at_loss: list[list[str]] = []
    lease.when_lost(lambda: keys_at_loss.append(linked.keys()))
    linked.clock.advance(20)
    assert lease.deadline > linked.clock.uptime()
    linked.to_right.held = True
    while not lease.is_lost:
        assert linked.clock.uptime() < lease.deadline
        linked.clock.advance(0.5)
    assert keys_at_loss == [["/mine"]]
    linked.clock.advance(3)
    assert linked.keys() == []


def test_a_process_whose_renewals_arrive_learns_that_its_lease_has_ended() -> None:
    linked = Linked()
    lease = run(linked.remote.lease(9), linked.clock)
    # The other process has ended it: for instance, its clock was set forward.
    linked.server._leases._expire(lease.id)
    linked.clock.pump()
    assert lease.is_lost
    late: list[str] = []
    lease.when_lost(lambda: late.append(lease.id))
    assert late == [lease.id]


def test_an_answer_that_was_delayed_extends_a_lease_from_when_it_was_asked_for() -> None:
    linked = Linked()
    asked = linked.clock.uptime()
    lease = run(linked.remote.lease(9), linked.clock)
    linked.to_left.held = True
    linked.clock.advance(5)  # the renewal after 3 s has arrived, its answer has not
    assert lease.deadline == asked + 7.5
    linked.to_left.held = False
    linked.to_left.carry()
    linked.clock.pump()
    assert lease.deadline == asked + 3 + 7.5


def test_a_lease_is_of_one_link() -> None:
    clock = ManualClock()
    store = MemoryMetadata(clock)
    one, other = LinkedMetadata(store, clock).remote, LinkedMetadata(store, clock).remote
    lease = run(one.lease(60), clock)
    with pytest.raises(Unavailable, match="has ended"):
        run(other.put("/mine", b"", lease=lease), clock)
    run(other.revoke(lease), clock)
    run(one.put("/mine", b"", lease=lease), clock)


class MoodyLeases(MemoryMetadata):
    """Leases are answered a turn after they are made, and cannot be revoked while it is full."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self.full = False
        self.revoked = 0

    async def lease(self, ttl_seconds: float) -> Lease:
        lease = await super().lease(ttl_seconds)
        await yield_turn(self._clock)
        return lease

    async def revoke(self, lease: Lease) -> None:
        if self.full:
            raise DiskFull("no room")
        self.revoked += 1
        await super().revoke(lease)


def test_a_lease_that_is_made_as_the_link_ends_ends_too() -> None:
    clock = ManualClock()
    store = MoodyLeases(clock)
    linked = LinkedMetadata(store, clock)
    asked = start(linked.remote.lease(60))
    while not store._leases:
        assert clock.step()
    linked.cut()
    clock.pump()
    with pytest.raises(Unavailable):
        asked.result()
    assert not store._leases


def test_a_lease_that_cannot_be_ended_is_ended_later(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    store = MoodyLeases(clock)
    linked = LinkedMetadata(store, clock)
    lease = run(linked.remote.lease(60), clock)
    run(linked.remote.put("/mine", b"", lease=lease), clock)
    store.full = True
    linked.cut()
    clock.pump()
    assert run(store.list("/"), clock) == ["/mine"]
    assert f"the keys of the left side under {lease.id} are still there" in caplog.text
    store.full = False
    clock.advance(RETRY_SECONDS)
    assert run(store.list("/"), clock) == []


def test_a_lease_whose_revocation_failed_ends_when_its_time_is_over() -> None:
    clock = ManualClock()
    store = MoodyLeases(clock)
    linked = LinkedMetadata(store, clock)
    lease = run(linked.remote.lease(60), clock)
    run(linked.remote.put("/mine", b"", lease=lease), clock)
    store.full = True
    with pytest.raises(DiskFull):
        run(linked.remote.revoke(lease), clock)
    store.full = False
    clock.advance(60)
    assert run(store.list("/"), clock) == []


def test_a_lease_that_was_revoked_is_not_ended_again() -> None:
    clock = ManualClock()
    store = MoodyLeases(clock)
    linked = LinkedMetadata(store, clock)
    run(linked.remote.revoke(run(linked.remote.lease(60), clock)), clock)
    assert store.revoked == 1
    clock.advance(60)
    linked.cut()
    clock.pump()
    assert store.revoked == 1


# A process after another -------------------------------------------------------------


def test_a_process_that_comes_after_another_sees_all_that_it_wrote(tmp_path: Path) -> None:
    clock = ManualClock()
    worker = QueuedWorker(clock)
    disk = LocalDisk(str(tmp_path))
    store = run(SqliteMetadata.open(disk, worker, clock), clock, worker.step)
    linked = LinkedMetadata(store, clock)
    start(store.put("/first", b""))
    clock.pump()
    start(linked.remote.put("/late", b"value"))  # behind the first, which is being written

    async def later() -> Versioned | None:
        await settled(linked.right, store)
        return await store.get("/late")

    found = start(later())
    clock.pump()
    linked.cut()
    assert run(store.get("/late"), clock, worker.step) is None
    while worker.step():
        clock.pump()
    assert found.result() == (b"value", 2)
    run(store.close(), clock, worker.step)


class FullMetadata(MemoryMetadata):
    """There is no room to write."""

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        raise DiskFull("no room")


def test_what_a_process_wrote_is_settled_when_it_has_ended_and_when_writes_fail() -> None:
    linked = Linked(FullMetadata(ManualClock()))
    waiting = start(settled(linked.right, linked.store))
    linked.clock.pump()
    assert not waiting.done()
    linked.cut()
    linked.clock.pump()
    assert waiting.result() is None


# Unknown outcomes --------------------------------------------------------------------


def test_a_write_whose_answer_is_lost_is_unknown_and_one_after_the_end_is_not_made() -> None:
    linked = Linked()
    linked.to_left.held = True
    put = start(linked.remote.put("/a", b""))
    linked.clock.pump()
    linked.cut()
    with pytest.raises(ProcessUnavailable, match=r"whether metadata\.put took place is unknown"):
        put.result()
    with pytest.raises(ProcessUnavailable, match=r"metadata\.put was not sent"):
        run(linked.remote.put("/b", b""), linked.clock)
    assert linked.keys() == ["/a"]


def test_refusals_are_those_of_the_store() -> None:
    linked = Linked()
    run(linked.remote.put("/a", b""), linked.clock)
    with pytest.raises(BadVersion, match=r"^/a: expected no such key, but it is at version 1$"):
        run(linked.remote.put("/a", b"", ABSENT), linked.clock)
