"""Bundles that move and are split, and namespaces whose bundles begin and end to have owners."""

from itertools import count

import pytest

from broker.names.workers.distributed_worlds import PARTS, WORKERS, World, middle_of
from fakes.named_worlds import NAMESPACE, named
from magnetar_broker.base.errors import (
    NamespaceNotFound,
    NotReady,
)
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.stored_bundles import StoredBundles
from magnetar_proto.names import NamespaceName


def test_a_moved_bundle_is_served_by_its_new_owner_alone() -> None:
    world = World()
    world.part()
    name = PARTS[0]
    former = world.worker(name)
    connection, consumer = world.consumer(name)
    new = world.move(name)
    assert world.worker(name) is new is not former
    assert consumer.closed and connection.closed_consumers == [1]
    assert name not in former.broker.topics and not world.is_loaded(name)
    assert {one.owners.worker_of(name) for one in world.processes.workers} == {
        world.processes.number_of(name)
    }
    with pytest.raises(NotReady, match="another process"):
        world.do(former.broker.topic(name, True))
    assert world.topic(name).name == name
    assert name in new.broker.topics
    assert all(map(world.is_loaded, PARTS))


def test_a_worker_is_prepared_before_it_is_given_a_bundle() -> None:
    world = World()
    world.part()
    name, prepared = PARTS[0], list[tuple[int, int]]()

    async def prepare(worker: int) -> None:
        prepared.append((worker, world.processes.number_of(name)))

    world.processes.placement.before_giving = prepare
    former = world.processes.number_of(name)
    world.move(name, former)
    assert prepared == []
    new = world.move(name).number
    assert prepared == [(new, former)]


def test_topics_of_other_bundles_stay() -> None:
    world = World()
    world.part()
    topics = [world.topic(part) for part in PARTS]
    world.move(PARTS[0])
    assert [topic.closed for topic in topics] == [True, False, False]
    world.move(PARTS[0], world.processes.number_of(PARTS[0]))  # to its owner
    assert [world.topic(part) is topic for part, topic in zip(PARTS, topics, strict=True)] == [
        False,
        True,
        True,
    ]


def test_a_topic_that_is_opened_while_its_bundle_changes_is_closed_first() -> None:
    world = World()
    name = named("topic")
    former, topic = world.worker(name), world.topic(name)
    gate = world.delayed(former, "unload")
    moving, new = world.begin_move(name)
    world.clock.pump()
    opening = world.begin(new.broker.topic(name, True))
    world.clock.pump()
    assert not opening.done() and not moving.done()
    gate.set_result(None)
    world.clock.pump()
    assert moving.done() and topic.closed
    assert opening.result() is new.broker.topics.get(name)


def test_a_topic_that_its_former_owner_is_loading_is_closed_there() -> None:
    world = World()
    name = named("topic")
    former = world.worker(name)
    gate = world.delayed(former, "load")
    opening = world.begin(former.broker.topic(name, True))
    world.clock.pump()
    moving, new = world.begin_move(name)
    world.clock.pump()
    assert not moving.done()
    gate.set_result(None)
    world.clock.pump()
    moving.result()
    assert opening.result().closed and name not in former.broker.topics
    assert world.topic(name) is new.broker.topics.get(name)


def test_a_topic_that_is_opened_before_the_move_has_come_to_it_is_closed_first() -> None:
    world = World()
    name = named("topic")
    former, topic = world.worker(name), world.topic(name)
    others = (named(f"other-{number}") for number in count())
    other = next(one for one in others if world.bundle_of(one) == world.bundle_of(name))
    gate = world.delayed(former, "load")
    loading = world.begin(former.broker.topic(other, True))
    world.clock.pump()
    moving, new = world.begin_move(name)
    world.clock.pump()
    opening = world.begin(new.broker.topic(name, True))
    world.clock.pump()
    assert not moving.done() and topic.closed
    assert opening.result() is new.broker.topics.get(name)
    gate.set_result(None)
    world.clock.pump()
    moving.result()
    assert loading.result().closed


def test_a_move_is_complete_when_every_worker_knows_it() -> None:
    world = World()
    name = named("topic")
    owner = world.processes.number_of(name)
    third = world.processes.workers[(owner + 2) % WORKERS]
    third.joined.to_right.held = True
    moving, new = world.begin_move(name)
    world.clock.pump()
    assert not moving.done()
    third.joined.to_right.held = False
    third.joined.to_right.carry()
    world.clock.pump()
    moving.result()
    assert third.owners.worker_of(name) == new.number


def test_a_former_owner_that_ends_holds_no_move_up() -> None:
    world = World()
    name = named("topic")
    world.topic(name)
    number = world.processes.number_of(name)
    world.delayed(world.processes.workers[number], "unload")
    moving, new = world.begin_move(name)
    world.clock.pump()
    assert not moving.done()
    world.processes.replace(number)
    moving.result()
    assert world.topic(name) is new.broker.topics.get(name)
    assert world.processes.workers[number].owners.worker_of(name) == new.number


def test_only_the_worker_that_has_a_topic_writes_its_metadata() -> None:
    world = World()
    name = named("topic")
    topic_host, former = world.processes.topic_host, world.worker(name)
    assert not topic_host.may_write(former.joined.left, name)
    gate = world.delayed(former, "load")
    opening = world.begin(former.broker.topic(name, True))
    world.clock.pump()
    assert topic_host.may_write(former.joined.left, name), "it is loading it"
    gate.set_result(None)
    world.clock.pump()
    opening.result()
    gate = world.delayed(former, "unload")
    _, new = world.begin_move(name)
    world.clock.pump()
    assert topic_host.may_write(former.joined.left, name), "it is closing it"
    assert not topic_host.may_write(new.joined.left, name)
    gate.set_result(None)
    world.clock.pump()
    assert not topic_host.may_write(former.joined.left, name)
    world.topic(name)
    assert topic_host.may_write(new.joined.left, name)
    assert not topic_host.may_write(former.joined.left, name)


def test_parts_of_a_split_bundle_stay_with_its_owner() -> None:
    world = World()
    name = named("topic")
    topic, number = world.topic(name), world.processes.number_of(name)
    bundle = world.bundle_of(name)
    parts = world.do(world.directory.bundles.split(NAMESPACE, bundle, middle_of(bundle)))
    owners = world.do(world.directory.bundles.owners_of(NAMESPACE))
    assert bundle not in owners and [owners[part] for part in parts] == [f"worker-{number}"] * 2
    assert world.topic(name) is topic
    assert world.bundle_of(name) in parts
    world.move(name)
    assert topic.closed
    stored = StoredBundles(GuardedMetadata(world.metadata, None), 4)
    assert world.do(stored.of(NAMESPACE)).of(name) in parts, "boundaries are durable"


def test_a_namespace_that_is_created_again_has_its_own_bundles() -> None:
    world = World()
    name = named("topic")
    world.topic(name)
    assert world.processes.owners.of(NAMESPACE) is not None
    world.do(world.directory.deletion.namespace(NAMESPACE, force=True))
    world.clock.pump()
    tables = [world.processes.owners, *(one.owners for one in world.processes.workers)]
    assert [table.of(NAMESPACE) for table in tables] == [None] * (WORKERS + 1)
    new = Namespace(Bundles.even(1))
    world.do(world.directory.creation.namespace(NamespaceName.parse(NAMESPACE), new, {}))
    world.topic(name)
    assert {len(table.of(NAMESPACE).workers) for table in tables} == {1}  # type: ignore[union-attr]


def test_a_namespace_that_was_deleted_has_no_owners() -> None:
    world = World()
    world.topic(named("topic"))
    world.do(world.directory.deletion.namespace(NAMESPACE, force=True))
    with pytest.raises(NamespaceNotFound):
        world.do(world.processes.placement.placed(NAMESPACE))
    assert world.processes.owners.of(NAMESPACE) is None


def test_a_namespace_that_is_deleted_while_a_bundle_is_given_stays_deleted() -> None:
    world = World()
    name = named("topic")
    world.topic(name)
    gate = world.clock.promise()

    async def late(worker: int) -> None:
        await gate

    world.processes.placement.before_giving = late
    moving, _ = world.begin_move(name)
    world.do(world.directory.deletion.namespace(NAMESPACE, force=True))
    gate.set_result(None)
    world.clock.pump()
    with pytest.raises(NamespaceNotFound):
        moving.result()
    tables = [world.processes.owners, *(one.owners for one in world.processes.workers)]
    assert [table.of(NAMESPACE) for table in tables] == [None] * (WORKERS + 1)


def test_a_worker_that_is_not_there_is_given_nothing_that_another_one_can_have() -> None:
    world = World()
    world.processes.placement.load_of = lambda worker: [0.0, 0.5, 0.9][worker]
    world.processes.workers[0].joined.cut()
    world.clock.pump()
    space = NamespaceName.parse("public/other")
    world.do(world.directory.creation.namespace(space, Namespace(Bundles.even(1)), {}))
    owners = world.do(world.directory.bundles.owners_of(str(space)))
    assert list(owners.values()) == ["worker-1"]


def test_new_namespaces_are_given_to_those_who_have_least_to_do() -> None:
    world = World()
    world.processes.placement.load_of = lambda worker: [0.5, 0.0, 0.9][worker]
    spaces = [NamespaceName.parse(f"tenant/space-{number}") for number in range(2)]
    for space in spaces:
        world.do(world.directory.tenants.ensure("tenant"))
        new = Namespace(Bundles.even(2))
        world.do(world.directory.creation.namespace(space, new, {}))
        owners = world.do(world.directory.bundles.owners_of(str(space)))
        assert list(owners.values()) == ["worker-1", "worker-0"]
