"""The metadata of a process that ends and is started again: its users wait for the next one."""

import pytest

from fakes.links import Joined
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, ManualTasks, run, start
from magnetar_broker.ipc.metadata_server import MetadataServer
from magnetar_broker.ipc.successive import RESTART_SECONDS, SuccessiveLinks
from magnetar_broker.ipc.successive_metadata import SuccessiveMetadata
from magnetar_storage.errors import BadVersion, Fenced, ProcessUnavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import ABSENT, RESYNC, Guard, Versioned


class World:
    """A store, and the processes that serve it one after the other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryMetadata(self.clock)
        self.links = SuccessiveLinks("the controller", self.clock)
        self.remote = SuccessiveMetadata(self.links, self.clock)
        self.joined: Joined

    def begin(self) -> None:
        self.joined = joined = Joined(self.clock)
        tasks = ManualTasks(self.clock)
        MetadataServer(joined.left, self.store, lambda key: True, self.clock, tasks)
        self.remote.follow(joined.right)
        joined.connect()
        self.links.replace(joined.right)

    def end(self, answers: bool = True) -> None:
        """End the process, before or after what it was asked took place."""
        self.joined.to_left.carry()
        if not answers:
            self.joined.to_right.held = True
            self.clock.pump()
        self.joined.cut()
        self.clock.pump()


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_asked_waits_for_the_first_process_and_for_the_next_one(world: World) -> None:
    for value in (b"1", b"2"):
        asked = [
            start(world.remote.put("/key", value)),
            start(world.remote.get("/key")),
            start(world.remote.list("/")),
            start(world.remote.read_under("/")),
        ]
        world.clock.pump()
        assert not any(one.done() for one in asked)
        world.begin()
        world.clock.pump()
        version = asked[0].result()
        assert asked[1].result() == Versioned(value, version)
        assert asked[2].result() == ["/key"]
        assert asked[3].result() == [("/key", Versioned(value, version))]
        world.end()


@pytest.mark.parametrize("answers", [True, False])
def test_what_was_under_way_is_found_out_at_the_next_process(world: World, answers: bool) -> None:
    world.begin()
    version = run(world.remote.put("/old", b"1"), world.clock)
    doomed = run(world.remote.put("/doomed", b"1"), world.clock)
    asked = [
        start(world.remote.put("/new", b"2", ABSENT)),
        start(world.remote.put("/old", b"2", version)),
        start(world.remote.put("/any", b"2")),
        start(world.remote.delete("/doomed", doomed)),
        start(world.remote.get("/old")),
    ]
    world.end(answers)
    assert not any(one.done() for one in asked)
    took_place = run(world.store.list("/"), world.clock) == ["/any", "/new", "/old"]
    assert took_place != answers
    world.begin()
    world.clock.pump()
    for key, one in zip(("/new", "/old", "/any"), asked, strict=False):
        assert run(world.store.get(key), world.clock) == Versioned(b"2", one.result())
    assert asked[3].result() is None
    assert run(world.store.get("/doomed"), world.clock) is None
    assert asked[4].result() is not None


def test_a_write_that_another_one_has_preceded_is_refused(world: World) -> None:
    world.begin()
    version = run(world.remote.put("/key", b"1"), world.clock)
    putting = start(world.remote.put("/key", b"2", version))
    deleting = start(world.remote.delete("/key", version))
    world.end()
    run(world.store.put("/key", b"3"), world.clock)
    world.begin()
    world.clock.pump()
    for one in (putting, deleting):
        with pytest.raises(BadVersion):
            one.result()


def test_refusals_are_passed_on(world: World) -> None:
    world.begin()
    with pytest.raises(BadVersion):
        run(world.remote.put("/key", b"1", 7), world.clock)
    with pytest.raises(Fenced):
        run(world.remote.delete("/key", guard=Guard("/none", 1)), world.clock)


def test_a_process_that_stays_away_is_not_waited_for_for_ever(world: World) -> None:
    world.begin()
    version = run(world.remote.put("/key", b"1"), world.clock)
    asked = [start(world.remote.put("/key", b"2", version)), start(world.remote.get("/key"))]
    world.end()
    asked += [start(world.remote.delete("/key")), start(world.remote.lease(10))]
    world.clock.advance(RESTART_SECONDS)
    for one in asked:
        with pytest.raises(ProcessUnavailable):
            one.result()


def test_a_user_that_stops_does_not_wait(world: World) -> None:
    world.begin()
    asked = [start(world.remote.put("/key", b"2")), start(world.remote.get("/key"))]
    world.end()
    asked.append(start(world.remote.get("/key")))
    world.links.wait_no_longer()
    world.clock.pump()
    for one in asked:
        with pytest.raises(ProcessUnavailable):
            one.result()


def test_a_user_that_stops_may_use_the_process_that_is_there(world: World) -> None:
    world.begin()
    world.links.wait_no_longer()
    run(world.remote.put("/key", b"1"), world.clock)
    assert run(world.remote.get("/key"), world.clock) is not None


def test_leases_and_watches_end_with_the_process(world: World) -> None:
    watch = world.remote.watch("/")
    with pytest.raises(StopAsyncIteration):
        run(anext(watch), world.clock)
    world.begin()
    watch, lease = world.remote.watch("/"), run(world.remote.lease(10), world.clock)
    run(world.remote.put("/mine", b"1", lease=lease), world.clock)
    assert run(anext(watch), world.clock) is RESYNC
    other = run(world.remote.lease(10), world.clock)
    run(world.remote.revoke(other), world.clock)
    assert other.is_lost
    putting = start(world.remote.put("/mine", b"2", lease=lease))
    world.end()
    assert lease.is_lost
    with pytest.raises(ProcessUnavailable):
        putting.result()
    world.begin()
    run(world.remote.revoke(lease), world.clock)
    assert run(world.store.get("/mine"), world.clock) is None
    held = run(world.remote.lease(10), world.clock)
    run(world.remote.close(), world.clock)
    assert held.is_lost


def test_the_latest_write_is_known_over_all_processes(world: World) -> None:
    world.begin()
    world.remote.identity = Identity(b"x" * 16, 1, 0)
    version = run(world.remote.put("/key", b"1"), world.clock)
    assert world.remote.identity == Identity(b"x" * 16, 1, version)
    world.end()
    assert world.remote.identity.revision == version
    world.begin()
    assert world.remote.identity.revision == version
    version = run(world.remote.put("/key", b"2"), world.clock)
    assert world.remote.identity == Identity(b"x" * 16, 1, version)
