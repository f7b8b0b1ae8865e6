"""A process that was the directory of names, and is no longer, changes nothing in the store."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.names.workers.distributed_worlds import TEXT, World
from effort import examples
from fakes.logs import LogWorld
from fakes.named_worlds import named
from fakes.world import ManualPromise
from magnetar_broker.base.guarded_metadata import GuardedMetadata, become_directory
from magnetar_broker.base.metadata_keys import DIRECTORY, TOPICS
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.policies.table import MAX_PRODUCERS, MESSAGE_TTL
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import Corrupt, Fenced
from magnetar_storage.interfaces import Guard, Listed, Versioned
from magnetar_storage.runtime.execution import yield_turn

TENANT, SPACE = "tenant", "tenant/space"
PLAIN, PARTED = named("plain", SPACE), named("parted", SPACE)

Operation = Callable[[Directory], Coroutine[Any, Any, Any]]

CREATIONS: dict[str, Operation] = {
    "tenant": lambda at: at.tenants.create(TENANT, Tenant(("admin",))),
    "namespace": lambda at: at.namespaces.create(
        NamespaceName.parse(SPACE), Namespace(Bundles.even(1))
    ),
    "topic": lambda at: at.creation.plain(PLAIN, {"a": "b"}),
    "partitioned topic": lambda at: at.creation.partitioned(PARTED, Partitioned(2)),
    "policies of a namespace": lambda at: at.enforcement.set(SPACE, {MESSAGE_TTL: 10}),
    "policies of a topic": lambda at: at.enforcement.set(PLAIN, {MAX_PRODUCERS: 3}),
    "permissions": lambda at: at.permissions.grant(SPACE, "role", ["produce"]),
    "schema": lambda at: at.schemas.register(PLAIN, TEXT),
    "cluster": lambda at: at.clusters.create("there", {"data": {}}),
    "resource group": lambda at: at.resource_groups.create("group", {"publishRateInMsgs": 1}),
    "setting": lambda at: at.dynamic.set("maxTenants", "100"),
}
"""Operations that succeed in this order."""
CHANGES: dict[str, Operation] = {
    "tenant": lambda at: at.tenants.change(TENANT, Tenant(("other",))),
    "new tenant": lambda at: at.tenants.create("new", Tenant()),
    "properties": lambda at: at.namespaces.change_properties(SPACE, lambda _: {"a": "b"}),
    "new namespace": lambda at: at.creation.namespace(
        NamespaceName.parse(f"{TENANT}/new"), Namespace(), {MESSAGE_TTL: 10}
    ),
    "namespace by use": lambda at: at.namespaces.ensure(NamespaceName.parse("used/space")),
    "bundles": lambda at: at.bundles.split(SPACE, "0x00000000_0xffffffff", lambda _: [1 << 31]),
    "new topic": lambda at: at.creation.plain(named("new", SPACE), {}),
    "new partitioned topic": lambda at: at.creation.partitioned(
        named("more", SPACE), Partitioned(2)
    ),
    "growth": lambda at: at.creation.grow(PARTED, 3),
    "policies of a namespace": lambda at: at.enforcement.set(SPACE, {MESSAGE_TTL: 20}),
    "policies of a topic": lambda at: at.enforcement.set(PLAIN, {MAX_PRODUCERS: 4}),
    "end of policies": lambda at: at.policies.delete(PLAIN),
    "permissions": lambda at: at.permissions.revoke(SPACE, "role"),
    "new schema": lambda at: at.schemas.register(PARTED, TEXT),
    "end of a schema": lambda at: at.schemas.remove(PLAIN),
    "deletion of a schema": lambda at: at.schemas.delete(PLAIN),
    "cluster": lambda at: at.clusters.merge("there", {"data": {"authPlugin": "x"}}),
    "new cluster": lambda at: at.clusters.create("elsewhere", {}),
    "deletion of a cluster": lambda at: at.clusters.delete("there"),
    "resource group": lambda at: at.resource_groups.merge("group", {"publishRateInMsgs": 2}),
    "deletion of a resource group": lambda at: at.resource_groups.delete("group"),
    "setting": lambda at: at.dynamic.set("maxTenants", "200"),
    "end of a setting": lambda at: at.dynamic.delete("maxTenants"),
    "deletion of a topic": lambda at: at.deletion.topics.delete(PLAIN, force=True),
    "deletion of a partitioned topic": lambda at: at.deletion.topics.delete_partitioned(
        PARTED, force=True
    ),
    "deletion of a namespace": lambda at: at.deletion.namespace(SPACE, force=True),
    "deletion of a tenant": lambda at: at.deletion.tenant(TENANT, force=True),
}
"""Operations that succeed after the creations, and that a former directory must not complete."""


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
    world.do(become_directory(world.metadata, 30, lambda: None))


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
    taking = world.begin(become_directory(world.metadata, 30, lambda: None))
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
    world.do(become_directory(world.metadata, 30, lambda: lost.append("lost")))
    assert lost == []
    world.do(world.metadata.close())
    assert lost == ["lost"]
    assert world.do(world.metadata.get(DIRECTORY)) is None


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
