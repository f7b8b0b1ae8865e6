"""A former directory of names changes nothing in the store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.names.operations import CHANGES, CREATIONS
from broker.names.workers.distributed_worlds import World
from effort import examples
from fakes.logs import LogWorld
from fakes.world import ManualPromise
from magnetar_broker.base.guarded_metadata import NOT_YET, GuardedMetadata
from magnetar_broker.base.metadata_keys import DIRECTORY, TOPICS
from magnetar_storage.errors import Corrupt, Fenced
from magnetar_storage.interfaces import Guard, Listed, Versioned
from magnetar_storage.runtime.execution import yield_turn


def filled() -> World:
    world = World(1)
    for create in CREATIONS.values():
        world.do(create(world.directory))
    return world


def stored(world: World) -> dict[str, Versioned | Corrupt]:
    """Return everything that the store has, except for who the directory is."""
    return {key: found for key, found in _all(world) if key != DIRECTORY}


def _all(world: World) -> Sequence[Listed]:
    return world.do(world.metadata.read_under("", limit=1_000_000))


def take_over(world: World) -> None:
    """Let another process become the directory."""
    world.do(GuardedMetadata(world.metadata, NOT_YET).lead(30, lambda: None))


def lose_lease(world: World) -> None:
    """Let the lease of the directory end, without another directory."""
    world.do(world.metadata.delete(DIRECTORY))


def begin(world: World, name: str) -> ManualPromise:
    return world.begin(CHANGES[name](world.directory))


@pytest.mark.parametrize("name", CHANGES)
def test_a_directory_changes_the_store(name: str) -> None:
    world = filled()
    before = stored(world)
    world.do(CHANGES[name](world.directory))
    assert stored(world) != before


@pytest.mark.parametrize("replace", [take_over, lose_lease])
@pytest.mark.parametrize("name", CHANGES)
def test_a_former_directory_changes_nothing(name: str, replace: Callable[[World], None]) -> None:
    world = filled()
    replace(world)
    before = stored(world)
    changing = begin(world, name)
    world.clock.pump()
    with pytest.raises(Fenced, match=DIRECTORY):
        changing.result()
    assert stored(world) == before


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=6), st.integers(0, 60))
def test_a_directory_that_is_replaced_during_changes_writes_no_more(
    names: list[str], steps: int
) -> None:
    world = filled()
    for method in ("get", "put", "delete", "list"):
        setattr(world.metadata, method, _slow(world, getattr(world.metadata, method)))
    changing = [begin(world, name) for name in names]
    for _ in range(steps):
        world.clock.step()
    taking = world.begin(GuardedMetadata(world.metadata, NOT_YET).lead(30, lambda: None))
    while not taking.done():
        assert world.clock.step()
    before = _of_directory(world)
    world.clock.pump()
    assert _of_directory(world) == before
    assert all(one.done() for one in changing)


def _slow(world: World, access: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def slowly(*asked: Any, **more: Any) -> Any:
        await yield_turn(world.clock)
        return await access(*asked, **more)

    return slowly


def _of_directory(world: World) -> dict[str, Versioned | Corrupt]:
    """Return what only the directory writes: workers delete the records of logs."""
    return {key: found for key, found in stored(world).items() if not key.startswith(TOPICS)}


# The store ----------------------------------------------------------------------------------------


def test_a_directory_that_has_lost_its_lease_is_told() -> None:
    world, lost = LogWorld(), list[str]()
    world.do(GuardedMetadata(world.metadata, NOT_YET).lead(30, lambda: lost.append("lost")))
    assert lost == []
    world.do(world.metadata.close())
    assert lost == ["lost"]
    assert world.do(world.metadata.get(DIRECTORY)) is None


def test_a_process_that_is_not_the_directory_yet_writes_nothing() -> None:
    world = LogWorld()
    metadata = GuardedMetadata(world.metadata, NOT_YET)
    with pytest.raises(Fenced):
        world.do(metadata.put("/key", b"value"))
    world.do(metadata.lead(30, lambda: None))
    world.do(metadata.put("/key", b"value"))
    world.do(GuardedMetadata(world.metadata, NOT_YET).lead(30, lambda: None))
    with pytest.raises(Fenced):
        world.do(metadata.delete("/key"))


def test_a_store_without_a_guard_writes() -> None:
    world = LogWorld()
    metadata = GuardedMetadata(world.metadata, None)
    version = world.do(metadata.put("/key", b"value"))
    assert world.do(metadata.get("/key")) == Versioned(b"value", version)
    world.do(metadata.delete("/key", version))
    assert world.do(metadata.list("/")) == []


def test_a_write_has_no_second_guard() -> None:
    world = LogWorld()
    metadata = GuardedMetadata(world.metadata, None)
    with pytest.raises(ValueError, match="one guard"):
        world.do(metadata.put("/key", b"value", guard=Guard("/other", 1)))
    with pytest.raises(ValueError, match="one guard"):
        world.do(metadata.delete("/key", guard=Guard("/other", 1)))
