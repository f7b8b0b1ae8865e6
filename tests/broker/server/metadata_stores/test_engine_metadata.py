"""The store of a process over a server: order, groups, leases and the end."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial

import pytest

from fakes.posted_clock import PostedClock
from fakes.world import run, start
from magnetar_broker.server.metadata_stores.engine import Batch, Outcome, Position, lease_ended
from magnetar_broker.server.metadata_stores.engine_metadata import EngineMetadata
from magnetar_broker.server.metadata_stores.engine_thread import EngineThread
from magnetar_broker.server.metadata_stores.groups import GroupLimits
from magnetar_storage.errors import BadVersion, LeaseEnded, Unavailable
from magnetar_storage.interfaces import RESYNC, Change, Lease, Listed, Versioned
from magnetar_storage.metadata.writes import Delete, EndLease, Put, Write


class Server:
    """A server that answers what the test says."""

    limits = GroupLimits(writes=2, bytes=100, repeats_keys=True)

    def __init__(self) -> None:
        self.groups: list[Sequence[Write]] = []
        self.errors: dict[int, Exception] = {}
        """The errors with which groups fail, by the number of the group."""
        self.refused: dict[str, Exception] = {}
        """The errors with which writes are refused, by key."""
        self.exists = True
        """Whether leases exist."""
        self.ended_leases: set[str] = set()
        self.batches: asyncio.Queue[Batch] = asyncio.Queue()
        self.asked: list[Position | None] = []
        self.cancelled = threading.Event()
        self.is_closed = False
        self.unreachable: Exception | None = None

    async def open(self) -> None:
        if self.unreachable is not None:
            raise self.unreachable

    async def get(self, key: str) -> Versioned | None:
        if key == "/never":
            await asyncio.get_running_loop().create_future()
        return None

    async def write(self, group: Sequence[Write]) -> Sequence[Outcome]:
        number = len(self.groups)
        self.groups.append(list(group))
        if number in self.errors:
            raise self.errors[number]
        return [self._outcome(write, number) for write in group]

    def _outcome(self, write: Write, number: int) -> Outcome:
        if isinstance(write, Put) and write.lease in self.ended_leases:
            return lease_ended(write)
        error = self.refused.get(getattr(write, "key", ""))
        assert error is None or isinstance(error, BadVersion)
        return number if error is None else error

    async def keys(self, prefix: str, after: str, limit: int) -> list[str]:
        return [f"{prefix}{after}{limit}"]

    async def read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        return []

    async def changes(self, prefix: str, after: Position | None) -> AsyncGenerator[Batch]:
        self.asked.append(after)
        try:
            yield Batch(1, None)
            while True:
                yield await self.batches.get()
        finally:
            self.cancelled.set()

    async def grant(self, ttl_seconds: float) -> str:
        return "7"

    async def renew(self, lease: str) -> bool:
        return self.exists

    async def close(self) -> None:
        self.is_closed = True


class World:
    """A store over a server, whose thread the test waits for."""

    def __init__(self) -> None:
        self.clock = PostedClock()
        self.server = Server()
        self.thread = EngineThread("test", self.clock.post)
        self.store = EngineMetadata(self.server, self.thread, self.clock)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    run(world.store.open(), world.clock)
    yield world
    run(world.store.close(), world.clock)


def test_writes_of_a_turn_are_groups_and_complete_in_order(world: World) -> None:
    order: list[int] = []
    writes = [start(world.store.put(f"/{number}", b"")) for number in range(4)]
    writes.append(start(world.store.delete("/0", 3)))
    for number, write in enumerate(writes):
        write.when_done(partial(order.append, number))
    world.clock.pump()
    assert order == [0, 1, 2, 3, 4]
    assert [write.result() for write in writes[:4]] == [0, 0, 1, 1]
    puts = [Put(f"/{number}", b"", None, None) for number in range(4)]
    assert world.server.groups == [puts[:2], puts[2:], [Delete("/0", 3)]]


def test_a_refused_write_does_not_fail_the_others_of_its_group(world: World) -> None:
    world.server.refused["/1"] = BadVersion("no")
    writes = [start(world.store.put(f"/{number}", b"")) for number in range(2)]
    world.clock.pump()
    assert writes[0].result() == 0
    with pytest.raises(BadVersion, match="no"):
        writes[1].result()


def test_an_unknown_outcome_fails_the_group_and_not_the_next_one(world: World) -> None:
    world.server.errors[0] = Unavailable("lost")
    writes = [start(world.store.put(f"/{number}", b"")) for number in range(3)]
    world.clock.pump()
    failed = []
    for write in writes[:2]:
        with pytest.raises(Unavailable, match="lost") as caught:
            write.result()
        failed.append(caught.value)
    assert failed[0] is not failed[1]
    assert writes[2].result() == 1


def test_text_that_is_not_valid_fails_only_its_own_request(world: World) -> None:
    wrong = start(world.store.put("/\ud800", b""))
    right = start(world.store.put("/right", b""))
    world.clock.pump()
    with pytest.raises(UnicodeEncodeError):
        wrong.result()
    assert right.result() == 0
    with pytest.raises(UnicodeEncodeError):
        run(world.store.get("/\ud800"), world.clock)


def test_a_defect_is_raised_to_the_caller(world: World) -> None:
    world.server.errors[0] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        run(world.store.put("/a", b""), world.clock)


def test_listings_are_passed_on(world: World) -> None:
    assert run(world.store.list("/a", "/b", 3), world.clock) == ["/a/b3"]
    assert run(world.store.read_under("/a"), world.clock) == []


# Leases -----------------------------------------------------------------------------------------


def lost(world: World, lease: Lease) -> None:
    """Wait until the lease is lost."""
    promise = world.clock.promise()
    lease.when_lost(lambda: promise.set_result(None))
    world.clock.pump()
    assert promise.done() and lease.is_lost


def test_a_lease_is_renewed_and_its_deadline_moves(world: World) -> None:
    lease = run(world.store.lease(1.0), world.clock)
    first = lease.deadline
    assert world.clock.uptime() < first
    while lease.deadline == first:
        run(world.store.get("/a"), world.clock)
    assert lease.deadline > first and not lease.is_lost


def test_a_lease_that_has_ended_is_lost(world: World) -> None:
    world.server.exists = False
    lease = run(world.store.lease(0.05), world.clock)
    lost(world, lease)
    with pytest.raises(LeaseEnded):
        run(world.store.put("/a", b"", lease=lease), world.clock)
    assert world.server.groups == []


def test_a_put_that_shows_that_a_lease_has_ended_loses_it(world: World) -> None:
    lease = run(world.store.lease(1000), world.clock)
    world.server.ended_leases.add(lease.id)
    with pytest.raises(LeaseEnded, match="lease 7 has ended"):
        run(world.store.put("/a", b"", lease=lease), world.clock)
    assert lease.is_lost


def test_the_end_of_a_lease_follows_the_writes_before_it(world: World) -> None:
    lease = run(world.store.lease(1000), world.clock)
    put, end = start(world.store.put("/a", b"", lease=lease)), start(world.store.revoke(lease))
    assert lease.is_lost
    world.clock.pump()
    assert put.result() == 0 and end.result() is None
    assert world.server.groups == [[Put("/a", b"", None, "7")], [EndLease("7")]]


# Watches ----------------------------------------------------------------------------------------


def test_changes_of_a_server_reach_the_watch_until_it_is_ended(world: World) -> None:
    watch = world.store.watch("/t/")
    assert run(aiter_next(watch), world.clock) is RESYNC
    change = Change("/t/a", b"", 2)
    world.thread.submit(partial(world.server.batches.put, Batch(2, [change])), lambda *_: None)
    assert run(aiter_next(watch), world.clock) == change
    assert not world.server.cancelled.is_set()
    watch.end()
    world.server.cancelled.wait()


def test_a_watch_that_nobody_has_is_not_fed(world: World) -> None:
    watch = world.store.watch("/t/")
    assert run(aiter_next(watch), world.clock) is RESYNC
    del watch
    world.server.cancelled.wait()


async def aiter_next(watch: object) -> object:
    return await anext(watch)  # type: ignore[call-overload]


# The end ----------------------------------------------------------------------------------------


def test_closing_waits_for_writes_and_ends_leases_and_watches() -> None:
    world = World()
    lease = run(world.store.lease(1000), world.clock)
    watch = world.store.watch("/")
    put = start(world.store.put("/a", b""))
    never = start(world.store.get("/never"))
    run(world.store.close(), world.clock)
    assert put.result() == 0 and lease.is_lost and world.server.is_closed
    assert world.server.groups[-1] == [EndLease("7")]
    with pytest.raises(Unavailable, match="is closed"):
        never.result()
    for request in (world.store.get("/a"), world.store.put("/a", b""), world.store.lease(1)):
        with pytest.raises(Unavailable, match="is closed"):
            run(request, world.clock)
    for ended in (watch, world.store.watch("/")):
        with pytest.raises(StopAsyncIteration):
            while True:
                run(aiter_next(ended), world.clock)
    run(world.store.close(), world.clock)


def test_closing_does_not_need_the_server() -> None:
    world = World()
    lease = run(world.store.lease(1000), world.clock)
    world.server.errors[0] = Unavailable("away")
    run(world.store.close(), world.clock)
    assert lease.is_lost and world.server.is_closed


def test_a_server_that_cannot_be_reached_is_closed_again() -> None:
    world = World()
    world.server.unreachable = Unavailable("away")
    with pytest.raises(Unavailable, match="away"):
        run(world.store.open(), world.clock)
    assert world.server.is_closed
