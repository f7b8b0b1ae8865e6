"""The memory of a directory can be rebuilt from the store, whichever process changed that."""

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.names.operations import CHANGES, CREATIONS, PARTED, PLAIN, SPACE, TENANT
from broker.names.workers.distributed_worlds import World
from effort import examples
from fakes.logs import LogWorld
from fakes.named_worlds import named
from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.base.errors import BrokerError, NamespaceNotFound
from magnetar_broker.base.metadata_keys import deletion_key, namespace_key, topic_policies_key
from magnetar_broker.config import Settings
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.topic_lists import Change
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.placement.bundles import BundleRefused, Bundles
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.table import MAX_PRODUCERS, MESSAGE_TTL
from magnetar_broker.standalone import standalone
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import Corrupt

NAMESPACES = (SPACE, f"{TENANT}/new", "used/space")
TOPICS = (PLAIN, PARTED, named("new", SPACE), named("more", SPACE))
SUBJECTS: tuple[Subject, ...] = (*NAMESPACES, *TOPICS)
ROLES = ("admin", "other", "role")
SETTINGS = Settings(
    authentication_enabled=True,
    authentication_providers=("AuthenticationProviderToken",),
    token_secret_key="x" * 44,
    authorization_enabled=True,
)


class Directories(LogWorld):
    """Several directories on one store, of which one at a time may change it."""

    def directory(self) -> Directory:
        """Return another directory, which has started."""
        made = standalone(SETTINGS, self.engine, SoleOwner("pulsar://here:6650")).directory
        self.do(made.start())
        return made

    def seen(self, of: Directory) -> dict[str, Any]:
        """Return what a directory answers, so that it then has all of it in memory."""
        tenants = self.do(of.tenants.names())
        found: dict[str, Any] = {
            "tenants": [(name, self.do(of.tenants.get(name))) for name in tenants],
            "settings": (dict(of.dynamic.values), of.settings.max_tenants, of.tenants.limit),
            "deletions": of.deletion.pending.names(),
            "closed": [of.tenants.is_closed(TENANT), *map(of.namespaces.is_closed, NAMESPACES)],
        }
        for kind, objects in (("clusters", of.clusters), ("groups", of.resource_groups)):
            found[kind] = {name: self.do(objects.get(name)) for name in self.do(objects.names())}
        for name in NAMESPACES:
            found[name] = self._namespace(of, name)
        for topic in TOPICS:
            found[str(topic)] = (
                self.do(of.partitions(topic, create=False)) if self.do(of.exists(topic)) else None,
                self.do(of.schemas.versions(topic)),
                self._allowed(of, str(topic)),
            )
        for subject in SUBJECTS:
            found[f"policies of {subject}"] = (
                self.do(of.policies.values_of(subject)),
                of.policies.has_explicit(subject),
                self.do(of.policies.effective(MAX_PRODUCERS, subject)),
                self.do(of.policies.effective(MESSAGE_TTL, subject)),
            )
        return found

    def _namespace(self, of: Directory, name: str) -> object:
        require = self.outcome(of.namespaces.require(name))
        if require is NamespaceNotFound:
            return require
        listed = self.do(of.topics(name, None, True, True))
        return (
            require,
            self.outcome(of.namespaces.get(name)),
            sorted(listed.names),
            listed.hash,
            self._allowed(of, name),
            [self._has_room(of, name, limit) for limit in range(1, 8)],
        )

    def _allowed(self, of: Directory, subject: str) -> list[object]:
        access = AccessRequest(RequiredPermission.PRODUCE_OR_CONSUME, subject)
        return [self.outcome(of.authorize([role], [access])) for role in ROLES]

    def _has_room(self, of: Directory, namespace: str, limit: int) -> object:
        async def reserve() -> None:
            async with of.creation.counts.room(namespace, 1, limit):
                pass

        return self.outcome(reserve())

    def outcome(self, work: Coroutine[Any, Any, Any]) -> object:
        """Return the result, or the type of the refusal."""
        try:
            return self.do(work)
        except (BrokerError, BundleRefused) as refusal:
            return type(refusal)


def filled() -> tuple[Directories, Directory]:
    world = Directories()
    directory = world.directory()
    for create in CREATIONS.values():
        world.do(create(directory))
    return world, directory


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from(sorted(CHANGES)), max_size=8))
def test_a_directory_that_is_loaded_again_knows_what_another_one_did(names: list[str]) -> None:
    world, active = filled()
    idle = world.directory()
    world.seen(idle)
    for name in names:
        world.outcome(CHANGES[name](active))
    world.do(idle.reload())
    expected = world.seen(world.directory())
    assert world.seen(idle) == expected
    world.do(active.reload())
    assert world.seen(active) == expected


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_of_another_directory_is_learned(name: str) -> None:
    world, active = filled()
    idle = world.directory()
    before = world.seen(idle)
    world.do(CHANGES[name](active))
    world.do(idle.reload())
    expected = world.seen(active)
    assert world.seen(idle) == expected
    assert expected != before


def test_the_values_of_loaded_topics_are_in_memory_after_a_reload() -> None:
    world, active = filled()
    idle = world.directory()
    world.do(idle.policies.load(PLAIN))
    world.do(active.enforcement.set(PLAIN, {MAX_PRODUCERS: 7}))
    world.do(idle.reload())
    assert idle.policies.value(MAX_PRODUCERS, PLAIN) == 7
    assert idle.policies.known == 2


def test_values_that_nobody_has_asked_for_stay_in_the_store() -> None:
    world, _ = filled()
    idle = world.directory()
    assert idle.policies.known == 1
    assert idle.policies.has_explicit(PLAIN)


def test_damaged_values_of_a_topic_do_not_prevent_the_load() -> None:
    world, _ = filled()
    key, pages = topic_policies_key(PLAIN), world.metadata.read_under

    async def read_under(*asked: Any) -> list[Any]:
        damaged = Corrupt(key, 0, "damaged")
        return [(at, damaged if at == key else one) for at, one in await pages(*asked)]

    world.metadata.read_under = read_under  # type: ignore[assignment]
    idle = world.directory()
    assert idle.policies.has_explicit(PLAIN)
    world.do(idle.policies.load(PLAIN))
    with pytest.raises(Corrupt):
        world.do(idle.policies.reload())


class Watching:
    """The names of a list as a watcher knows them."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def changed(self, changes: list[Change]) -> None:
        for name, exists in changes:
            (self.names.add if exists else self.names.remove)(name)


def test_watchers_learn_what_another_directory_has_created_and_deleted() -> None:
    world, active = filled()
    idle, watching = world.directory(), Watching()
    watched = world.do(idle.watch(SPACE, TopicPattern(f"{SPACE}/.*")))
    watching.names.update(watched.names)
    watched.add(watching)
    world.do(active.creation.plain(named("new", SPACE), {}))
    world.do(active.creation.grow(PARTED, 4))
    world.do(active.deletion.topics.delete(PLAIN, force=True))
    world.do(idle.reload())
    world.clock.pump()
    stored = world.do(active.topics(SPACE, None, True, False))
    assert (
        watching.names
        == set(stored.names)
        == {str(name) for name in (named("new", SPACE), *map(PARTED.with_partition, range(4)))}
    )
    world.do(idle.creation.plain(named("more", SPACE), {}))
    world.clock.advance(1)  # watchers are not notified of every change by itself
    assert str(named("more", SPACE)) in watching.names


def test_deletions_that_another_directory_has_begun_and_ended_are_known() -> None:
    world, active = filled()
    world.do(active.namespaces.ensure(NamespaceName.parse("tenant/ending")))
    idle = world.directory()
    for name in ("tenant/begun", "tenant/ending", "begun", str(PLAIN)):
        world.do(world.metadata.put(deletion_key(name), b"{}"))
    world.do(idle.reload())
    assert idle.deletion.pending.names() == sorted(
        ["begun", str(PLAIN), "tenant/begun", "tenant/ending"]
    )
    assert idle.tenants.is_closed("begun") and idle.namespaces.is_closed("tenant/begun")
    for name in ("tenant/ending", "begun"):
        world.do(world.metadata.delete(deletion_key(name)))
    for _ in range(2):
        world.do(idle.reload())
        assert idle.deletion.pending.names() == [str(PLAIN), "tenant/begun"]
        assert idle.namespaces.is_closed("tenant/begun")
        assert not idle.namespaces.is_closed("tenant/ending")
        assert not idle.tenants.is_closed("begun")
    world.do(idle.namespaces.require("tenant/ending"))


def test_the_owners_of_bundles_are_adapted_to_those_that_are_stored() -> None:
    world = World(2)
    for create in CREATIONS.values():
        world.do(create(world.directory))
    placement, stored = world.processes.placement, world.directory.bundles.stored
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("tenant/gone")))
    for namespace in (SPACE, "tenant/gone"):
        world.do(placement.placed(namespace))
    before = placement.owners.of(SPACE)
    assert before is not None
    world.do(stored.change(SPACE, lambda _: Bundles.even(4)))
    world.do(world.metadata.delete(namespace_key("tenant/gone")))
    world.do(world.directory.reload())
    after = placement.owners.of(SPACE)
    assert after is not None
    assert after.bundles == Bundles.even(4)
    assert after.workers == before.workers * 4
    assert placement.owners.of("tenant/gone") is None
    world.clock.pump()
    for worker in world.processes.workers:
        assert worker.owners.of(SPACE) == after


class StoredOwner(SoleOwner):
    """Has used two namespaces, according to the store."""

    async def reload(self) -> None:
        for namespace in (SPACE, "tenant/gone"):
            await self.owners_of(namespace, Bundles.even(1))


def test_stored_owners_are_loaded_and_those_of_deleted_namespaces_forgotten() -> None:
    world, _ = filled()
    owner = StoredOwner("pulsar://here:6650")
    made = standalone(SETTINGS, world.engine, owner).directory
    world.do(made.load())
    assert owner.namespaces == [SPACE]
