"""A controller ends, and another one takes over while the workers serve their topics."""

import json
from functools import partial
from typing import Any

import pytest

from broker.names.workers.distributed_worlds import PARTED, PARTS, World
from fakes.connection import RecordingConnection
from fakes.named_worlds import NAMESPACE, named
from fakes.publish_runs import publish
from fakes.runs import append
from magnetar_broker.authorization.rules import Grants
from magnetar_broker.base.metadata_keys import (
    DYNAMIC_SETTINGS,
    namespace_key,
    namespace_policies_key,
    topic_policies_key,
)
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.names.topic_lists import Change
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.policies.table import MAX_CONSUMERS, MAX_PRODUCERS
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import Fenced, LogClosed, ProcessUnavailable

NEW = named("new")


def producer(world: World, topic: Any) -> tuple[RecordingConnection, Producer]:
    connection = RecordingConnection()
    made = world.do(topic.producers.add(connection, ProducerRequest(1, f"p-{topic.name}")))
    return connection, made


def send(world: World, producer: Producer, number: int) -> None:
    sends = PublishRun(producer)
    sends.payloads, sends.counts, sends.size = [b"%d" % number], [1], 1
    sends.sequence_ids = sends.highest_ids = [number]
    publish(sends)
    world.clock.pump()


def settle(world: World, starting: list[Any]) -> None:
    world.clock.pump()
    for one in starting:
        one.result()


def test_loaded_topics_are_served_meanwhile_and_known_to_the_next_one() -> None:
    world = World()
    world.part()
    topics = [world.topic(part, create=False) for part in PARTS]
    clients = [producer(world, topic) for topic in topics]
    before = world.processes.owners.all()
    world.processes.end_controller()
    for _, one in clients:
        send(world, one, 0)
    starting = world.processes.begin_controller()
    for _, one in clients:
        send(world, one, 1)
    settle(world, starting)
    for connection, one in clients:
        send(world, one, 2)
        assert len(connection.receipts) == 3
        assert not connection.closed_producers
    world.directory = world.processes.directory
    assert world.processes.owners.all() == before
    assert all(world.is_loaded(part) for part in PARTS)
    assert [world.topic(part, create=False) for part in PARTS] == topics
    assert world.topic(NEW).name == NEW


def test_what_needs_names_waits_for_the_next_controller() -> None:
    world = World()
    worker = world.worker(NEW)
    world.processes.end_controller()
    opening = world.begin(worker.broker.topic(NEW, True))
    world.clock.pump()
    assert not opening.done()
    settle(world, world.processes.begin_controller())
    assert opening.result().name == NEW
    assert world.processes.directory.topic_host.is_loaded(NEW)


def test_a_worker_that_stops_does_not_wait_for_a_controller() -> None:
    world = World()
    worker = world.worker(NEW)
    world.processes.end_controller()
    opening = world.begin(worker.broker.topic(NEW, True))
    worker.joining.stop()
    world.clock.pump()
    with pytest.raises(ProcessUnavailable):
        opening.result()
    world.do(worker.broker.close())


@pytest.mark.parametrize("method", ["load", "unload"])
def test_a_topic_that_changes_when_the_controller_ends_changes_before_the_next_one_starts(
    method: str,
) -> None:
    world = World()
    worker = world.worker(NEW)
    if method == "unload":
        world.topic(NEW)
    gate = world.delayed(worker, method)
    if method == "load":
        world.begin(worker.broker.topic(NEW, True))
    else:
        world.begin(world.directory.opening.unload(NEW))
    world.clock.pump()
    world.processes.end_controller()
    starting = world.processes.begin_controller()
    world.clock.pump()
    assert not starting[0].done()
    directory = world.processes.directory
    assert directory.topic_host.may_write(worker.joined.left, NEW)  # type: ignore[attr-defined]
    gate.set_result(None)
    settle(world, starting)
    assert (
        directory.topic_host.is_loaded(NEW)
        == (method == "load")
        == (NEW in worker.topic_host.topics)
    )
    world.topic(NEW)


def test_a_topic_that_was_evicted_is_closed() -> None:
    world = World()
    topic = world.topic(NEW)
    worker = world.worker(NEW)
    assert world.do(worker.topic_host.evict([NEW], Condition.ANYWAY))
    world.processes.replace_controller()
    assert isinstance(topic, Topic)
    with pytest.raises(LogClosed):
        append(topic.log, [b"late"], [1], print)
    assert worker.topic_host.held() == []
    assert world.topic(NEW) is not topic


def test_a_deletion_is_continued() -> None:
    world = World()
    world.part()
    gates = [world.delayed(worker, "erase") for worker in world.processes.workers]
    world.begin(world.directory.deletion.topics.delete_partitioned(PARTED, True))
    world.clock.pump()
    world.processes.end_controller()
    starting = world.processes.begin_controller()
    for gate in gates:
        gate.set_result(None)
    settle(world, starting)
    assert world.do(world.metadata.list("/topics/")) == []
    assert not world.do(world.processes.directory.exists(PARTED))


def test_a_move_is_completed() -> None:
    world = World()
    topic = world.topic(NEW)
    former = world.worker(NEW)
    connection, _ = producer(world, topic)
    number = (former.number + 1) % 3
    world.do(world.processes.placement.give(NAMESPACE, world.bundle_of(NEW), f"worker-{number}"))
    world.processes.replace_controller()
    assert world.processes.number_of(NEW) == number
    assert NEW not in former.topic_host.topics
    assert connection.closed_producers
    assert world.topic(NEW).name == NEW
    assert NEW in world.processes.workers[number].topic_host.topics


def test_policies_that_the_former_controller_has_stored_only_are_applied() -> None:
    world = World()
    one, other = world.topic(NEW), world.topic(named("other"))
    assert isinstance(one, Topic) and isinstance(other, Topic)
    world.do(world.directory.enforcement.set(NEW, {MAX_PRODUCERS: 3, MAX_CONSUMERS: 5}))
    world.do(world.directory.enforcement.set(named("other"), {MAX_PRODUCERS: 3}))
    world.processes.end_controller()
    world.do(world.metadata.put(topic_policies_key(NEW), json.dumps({"max_producers": 7}).encode()))
    world.do(world.metadata.delete(topic_policies_key(named("other"))))
    world.do(world.metadata.put(namespace_policies_key(NAMESPACE), b'{"max_consumers": 9}'))
    assert (one.limits.max_producers, one.limits.max_consumers) == (3, 5)
    settle(world, world.processes.begin_controller())
    assert (one.limits.max_producers, one.limits.max_consumers) == (7, 9)
    assert (other.limits.max_producers, other.limits.max_consumers) == (10_000, 9)
    for worker in world.processes.workers:
        assert worker.policies.value(MAX_CONSUMERS, NEW) == 9


def test_settings_that_the_former_controller_has_stored_only_are_applied() -> None:
    world = World()
    topic = world.topic(NEW)
    world.do(world.directory.dynamic.set("maxProducersPerTopic", "5"))
    assert topic.limits.max_producers == 5
    world.processes.end_controller()
    world.do(world.metadata.put(DYNAMIC_SETTINGS, b'{"maxProducersPerTopic": "6"}'))
    starting = world.processes.begin_controller()
    assert topic.limits.max_producers == 5
    settle(world, starting)
    assert topic.limits.max_producers == 6
    assert world.processes.directory.topic_host.changed_settings == {  # type: ignore[attr-defined]
        "maxProducersPerTopic": "6"
    }


def test_permissions_that_the_former_controller_has_stored_only_are_enforced() -> None:
    world = World(
        authentication_enabled=True,
        authentication_providers=("AuthenticationProviderToken",),
        token_secret_key="x" * 44,
        authorization_enabled=True,
    )
    world.processes.end_controller()
    permissions = {"namespace": {"role": ["produce"]}}
    fields = json.dumps({"permissions": permissions}).encode()
    world.do(world.metadata.put(namespace_key(NAMESPACE), fields))
    checked: list[tuple[int, Grants]] = []
    for worker in world.processes.workers:
        worker.topic_host.reauthorize = partial(note, checked, worker.number)  # type: ignore[method-assign]
    settle(world, world.processes.begin_controller())
    assert sorted(number for number, grants in checked) == [0, 1, 2]
    assert all(grants.permissions == permissions for _, grants in checked)


async def note(
    checked: list[tuple[int, Grants]], number: int, namespace: str, grants: Grants
) -> None:
    if namespace == NAMESPACE:
        checked.append((number, grants))


class Watching:
    def __init__(self) -> None:
        self.changes: list[Change] = []

    def changed(self, changes: list[Change]) -> None:
        self.changes += changes


def test_watchers_of_lists_miss_nothing() -> None:
    world = World()
    worker, watching = world.processes.workers[0], Watching()
    for name in ("kept", "gone"):
        world.do(world.directory.creation.plain(named(name), {}))
    watched = world.do(worker.names.watch(NAMESPACE, TopicPattern(f"{NAMESPACE}/.*")))
    watched.add(watching)
    ended = world.do(worker.names.watch(NAMESPACE, TopicPattern(f"{NAMESPACE}/k.*")))
    former = world.directory
    world.processes.end_controller()
    world.do(former.creation.plain(NEW, {}))
    world.do(former.catalogue._metadata.delete(f"/topics/{NAMESPACE}/persistent/gone"))
    ended.remove(watching)
    settle(world, world.processes.begin_controller())
    assert watching.changes == [(str(named("gone")), False), (str(NEW), True)]
    assert watched.names == [str(named("kept")), str(NEW)]
    world.do(world.processes.directory.creation.plain(named("later"), {}))
    world.clock.advance(1)
    assert watching.changes[2:] == [(str(named("later")), True)]


def test_a_former_controller_that_goes_on_changes_nothing() -> None:
    world = World()
    world.topic(NEW)
    former = world.directory
    world.processes.replace_controller()
    for change in (
        former.namespaces.ensure(NamespaceName.parse("public/other")),
        former.deletion.topics.delete(NEW, force=True),
        former.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 1}),
    ):
        changing = world.begin(change)
        world.clock.pump()
        with pytest.raises(Fenced):
            changing.result()
    assert NEW in world.worker(NEW).topic_host.topics


def test_no_directory_serves_before_all_workers_have_said_what_they_have_loaded() -> None:
    world = World()
    world.topic(NEW)
    gone = world.processes.workers[(world.worker(NEW).number + 1) % 3]
    world.processes.end_controller()
    world.processes.workers.remove(gone)
    starting = world.processes.begin_controller()
    world.clock.pump()
    assert not any(one.done() for one in starting)
    assert not world.processes.directory.ready
    world.processes.workers.insert(gone.number, world.processes.new_worker(gone.number))
    starting.append(world.begin(world.processes.workers[gone.number].broker.start()))
    settle(world, starting)
    assert world.processes.directory.topic_host.is_loaded(NEW)


def test_controllers_that_end_while_they_start_are_replaced() -> None:
    world = World()
    topic = world.topic(NEW)
    connection, client = producer(world, topic)
    for steps in range(40):
        world.processes.end_controller()
        starting = world.processes.begin_controller()
        for _ in range(steps):
            world.clock.step()
        send_soon(client, steps)
    settle(world, starting)
    assert len(connection.receipts) == 40
    assert world.processes.directory.topic_host.is_loaded(NEW)
    assert world.topic(NEW) is topic


def send_soon(producer: Producer, number: int) -> None:
    sends = PublishRun(producer)
    sends.payloads, sends.counts, sends.size = [b"%d" % number], [1], 1
    sends.sequence_ids = sends.highest_ids = [number]
    publish(sends)
