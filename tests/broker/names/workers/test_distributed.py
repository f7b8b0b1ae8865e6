"""Topics served by several workers, with the directory of names in another process."""

from itertools import count, islice
from typing import Any

import pytest

from broker.names.workers.distributed_worlds import PARTED, PARTS, RECORD, TEXT, WORKERS, World
from fakes.named_worlds import NAMESPACE, named
from fakes.processes import Processes, Worker
from magnetar_broker.base.errors import (
    InUse,
    NotReady,
    SchemaInvalid,
    SchemaRefused,
    TopicNotFound,
)
from magnetar_broker.config import Settings
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.names.topic_lists import Change
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.placement.bundles import Bundles, deal, number_of_new
from magnetar_broker.policies.table import MAX_PRODUCERS, MESSAGE_TTL
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import StorageError, Unavailable

# Who serves what ------------------------------------------------------------------------


@pytest.mark.parametrize("workers", range(1, 9))
def test_partitions_are_divided_evenly_whatever_the_name_is(workers: int) -> None:
    bundles = Bundles.even(number_of_new("auto", workers))
    dealt = deal(len(bundles), range(workers))

    def owner(topic: TopicName) -> int:
        return dealt[bundles.index_of(topic)]

    even = workers.bit_count() == 1
    for number in range(50):
        topic = named(f"topic-{number}")
        assert owner(topic) == owner(topic.with_partition(0))
        for partitions in range(1, 20):
            owners = [owner(topic.with_partition(index)) for index in range(partitions)]
            counts = [owners.count(worker) for worker in range(workers)]
            spread = max(counts) - min(counts)
            rounds = -(-partitions // len(bundles))
            assert spread <= (1 if even else 1 + rounds)
    plain = [owner(named(f"topic-{number}")) for number in range(300 * workers)]
    assert all(150 < plain.count(worker) < 450 for worker in range(workers))


def test_a_topic_is_loaded_by_its_owner_alone() -> None:
    world = World()
    world.part()
    for part in PARTS:
        assert [part in worker.broker.topics for worker in world.processes.workers].count(True) == 1
        assert part in world.worker(part).broker.topics
        assert world.is_loaded(part)
    assert sorted(world.directory.topic_host.loaded(NAMESPACE)) == PARTS
    assert world.directory.topic_host.loaded("other/space") == []


def test_another_worker_is_refused() -> None:
    world = World()
    world.part()
    for name in (PARTS[0], named("new")):
        for worker in world.processes.workers:
            if worker is not world.worker(name):
                with pytest.raises(NotReady, match="another process"):
                    world.do(worker.broker.topic(name, True))
    assert not world.do(world.directory.exists(named("new")))


def test_a_lookup_names_the_process() -> None:
    world = World()
    broker = world.processes.workers[0].broker
    for part in PARTS:
        owner = world.do(broker.names.locate(part, False))
        assert owner.process_url == f"pulsar://worker-{world.processes.number_of(part)}:1"
        assert owner.default.pulsar == "pulsar://here:6650"
        assert owner == world.do(world.directory.locate(part, False))


def test_racing_opens_load_a_topic_once() -> None:
    world = World()
    name = named("topic")
    broker = world.worker(name).broker
    gate = world.delayed(world.worker(name), "load")
    asking = [world.begin(broker.topic(name, True)) for _ in range(3)]
    world.clock.pump()
    asking.append(world.begin(broker.topic(name, True)))
    assert not world.is_loaded(name)
    gate.set_result(None)
    world.clock.pump()
    topics = {one.result() for one in asking}
    assert topics == {broker.topics.get(name)}
    assert broker.topics.opened == 1


def test_a_topic_that_closes_by_itself_is_loaded_no_more() -> None:
    world = World()
    name = named("topic")
    topic = world.topic(name)
    assert isinstance(topic, Topic)
    topic.drop(Unavailable("the disk is gone"))
    world.clock.pump()
    assert not world.is_loaded(name)
    assert world.directory.topic_host.loaded(NAMESPACE) == []
    assert world.topic(name) is not topic
    assert world.is_loaded(name)


# A worker that ends ---------------------------------------------------------------------


def test_a_worker_that_dies_while_it_loads_a_topic_holds_no_lock() -> None:
    world = World()
    name = named("topic")
    worker = world.worker(name)
    world.delayed(worker, "load")
    asking = world.begin(worker.broker.topic(name, True))
    world.clock.pump()
    world.processes.replace(world.processes.number_of(name))
    with pytest.raises(Unavailable):
        asking.result()
    assert not world.is_loaded(name)
    assert world.topic(name).name == name
    assert world.is_loaded(name)


def test_the_topics_of_a_worker_that_died_are_loaded_no_more() -> None:
    world = World()
    world.part()
    world.processes.replace(world.processes.number_of(PARTS[1]))
    assert [world.is_loaded(part) for part in PARTS] == [True, False, True]
    world.topic(PARTS[1])
    assert all(map(world.is_loaded, PARTS))


def test_a_worker_that_comes_before_the_end_of_the_last_one_is_noticed_takes_its_place() -> None:
    world = World()
    world.part()
    number = world.processes.number_of(PARTS[1])
    old, new = world.processes.workers[number], world.processes.new_worker(number)
    world.processes.workers[number] = new
    world.do(new.broker.start())
    assert [world.is_loaded(part) for part in PARTS] == [True, False, True]
    assert old.joined.left.has_ended
    world.topic(PARTS[1])
    old.joined.cut()
    world.clock.pump()
    assert all(map(world.is_loaded, PARTS))


def test_without_their_worker_topics_are_refused_and_not_deleted() -> None:
    world = World()
    world.part()
    number = world.processes.number_of(PARTS[1])
    world.processes.workers[number].joined.cut()
    world.clock.pump()
    with pytest.raises(NotReady, match="starting or stopping"):
        world.do(world.directory.open(PARTS[1], True))
    with pytest.raises(NotReady, match="starting or stopping"):
        world.do(world.directory.deletion.topics.delete_partitioned(PARTED, False))
    world.do(world.directory.topic_host.unload(PARTS[1]))  # nothing to do
    world.processes.workers[number] = world.processes.new_worker(number)
    world.do(world.processes.workers[number].broker.start())
    with pytest.raises(TopicNotFound):  # that deletion is continued first
        world.do(world.directory.deletion.topics.delete_partitioned(PARTED, False))
    assert "parted" not in str(world.do(world.metadata.list("/", "", 1000)))


def test_a_deletion_goes_on_when_the_worker_is_back_that_it_lacked() -> None:
    world = World()
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("public/doomed")))
    doomed = named("topic", "public/doomed")
    world.topic(doomed)
    number = world.processes.number_of(doomed)
    world.processes.workers[number].joined.cut()
    world.clock.pump()
    with pytest.raises(NotReady, match="starting or stopping"):
        world.do(world.directory.deletion.namespace("public/doomed", True))
    assert "doomed" in str(world.do(world.metadata.list("/", "", 1000)))
    world.processes.workers[number] = world.processes.new_worker(number)
    world.do(world.processes.workers[number].broker.start())
    world.clock.pump()
    assert "doomed" not in str(world.do(world.metadata.list("/", "", 1000)))


def test_a_worker_that_stops_loads_nothing_more() -> None:
    world = World()
    world.part()
    broker = world.worker(PARTS[0]).broker
    gate = world.delayed(world.worker(PARTS[0]), "load")
    name = next(
        name
        for name in (named(f"topic-{number}") for number in range(20))
        if world.worker(name) is world.worker(PARTS[0])
    )
    asking = world.begin(broker.topic(name, True))
    stopping = world.begin(broker.close())
    world.clock.pump()
    assert not stopping.done(), "a topic is being loaded"
    gate.set_result(None)
    world.clock.pump()
    stopping.result()
    assert asking.result().closed
    with pytest.raises(NotReady, match="starting or stopping"):
        world.do(broker.topic(name, True))


# Deletion -------------------------------------------------------------------------------


@pytest.mark.parametrize("used", range(WORKERS))
def test_a_partitioned_topic_in_use_is_kept_whole(used: int) -> None:
    world = World()
    world.part()
    connection, consumer = world.consumer(PARTS[used])
    with pytest.raises(InUse):
        world.do(world.directory.deletion.topics.delete_partitioned(PARTED, False))
    assert not consumer.closed and not connection.closed_consumers
    assert world.is_loaded(PARTS[used])
    for part in PARTS:
        world.topic(part)
    consumer.close()
    world.do(world.directory.deletion.topics.delete_partitioned(PARTED, False))
    assert not any(map(world.is_loaded, PARTS))
    assert not world.do(world.directory.exists(PARTED))


def test_force_disconnects_the_clients_of_every_worker() -> None:
    world = World()
    world.part()
    consumers = [world.consumer(part)[1] for part in PARTS]
    world.do(world.directory.deletion.topics.delete_partitioned(PARTED, True))
    assert all(consumer.closed for consumer in consumers)
    assert world.store.ids() == set()


def test_what_a_worker_cannot_do_is_refused_as_that() -> None:
    world = World()
    world.topic(named("topic"))
    worker = world.worker(named("topic"))

    async def fail(*asked: Any) -> bool:
        raise Unavailable("the disk is gone")

    worker.topic_host.evict = fail  # type: ignore[assignment]
    with pytest.raises(Unavailable, match="the disk is gone"):
        world.do(world.directory.topic_host.evict([named("topic")], Condition.ANYWAY))


def test_inactive_topics_are_deleted() -> None:
    world = World(broker_delete_inactive_topics_enabled=True)
    world.part()
    frequency = world.processes.settings.broker_delete_inactive_topics_frequency_seconds
    for _ in range(3):
        world.clock.advance(frequency)
    assert not any(map(world.is_loaded, PARTS))


# Policies -------------------------------------------------------------------------------


def producers_of(worker: Worker, name: TopicName) -> int:
    return worker.policies.value(MAX_PRODUCERS, name)


def test_policies_are_in_force_everywhere_before_they_are_answered() -> None:
    world = World()
    world.part()
    for subject, value in ((NAMESPACE, 3), (PARTED, 5)):
        gates = [world.delayed(worker, "apply") for worker in world.processes.workers]
        setting = world.begin(world.directory.enforcement.set(subject, {MAX_PRODUCERS: value}))
        world.clock.pump()
        for gate in gates:
            assert not setting.done()
            gate.set_result(None)
            world.clock.pump()
        setting.result()
        for part in PARTS:
            assert world.topic(part).limits.max_producers == value
        assert {producers_of(one, PARTED) for one in world.processes.workers} == {value}
    world.do(world.directory.enforcement.set(PARTED, {MAX_PRODUCERS: None}))
    assert {world.topic(part).limits.max_producers for part in PARTS} == {3}


def test_a_new_worker_knows_all_policies() -> None:
    world = World()
    world.part()
    world.do(world.directory.enforcement.set(NAMESPACE, {MESSAGE_TTL: 7}))
    world.do(world.directory.enforcement.set(PARTED, {MAX_PRODUCERS: 5}))
    world.processes.replace(world.processes.number_of(PARTS[2]))
    limits = world.topic(PARTS[2]).limits
    assert (limits.max_producers, limits.message_ttl_seconds) == (5, 7)


def test_stored_policies_are_known_when_a_topic_is_loaded() -> None:
    first = World()
    first.part()
    first.do(first.directory.enforcement.set(PARTED, {MAX_PRODUCERS: 5}))
    for worker in first.processes.workers:
        first.do(worker.broker.close())
    first.processes = Processes(Settings(), first.engine, first.clock, WORKERS)
    first.processes.start()
    assert {first.topic(part).limits.max_producers for part in PARTS} == {5}


def test_deleted_policies_are_forgotten_everywhere() -> None:
    world = World()
    world.part()
    world.do(world.directory.enforcement.set(PARTED, {MAX_PRODUCERS: 5}))
    assert {producers_of(one, PARTED) for one in world.processes.workers} == {5}
    world.do(world.directory.deletion.topics.delete_partitioned(PARTED, False))
    world.clock.pump()
    assert not any(one.policies.known for one in world.processes.workers)


def test_a_worker_that_dies_while_it_applies_policies_keeps_nobody_waiting() -> None:
    world = World()
    world.part()
    worker = world.worker(PARTS[1])
    world.delayed(worker, "apply")
    setting = world.begin(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 3}))
    world.clock.pump()
    world.processes.replace(world.processes.number_of(PARTS[1]))
    setting.result()
    assert world.topic(PARTS[1]).limits.max_producers == 3


def test_a_topic_that_cannot_apply_policies_is_reported() -> None:
    world = World()
    world.part()

    async def fail() -> None:
        raise Unavailable("the disk is gone")

    topic = world.topic(PARTS[1])
    topic.policies_changed = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="the disk is gone"):
        world.do(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 3}))
    assert world.topic(PARTS[0]).limits.max_producers == 3


# Lists and schemas ----------------------------------------------------------------------


class Watching:
    """Records changes."""

    def __init__(self) -> None:
        self.seen: list[Change] = []

    def changed(self, changes: list[Change]) -> None:
        self.seen += changes


def test_any_worker_lists_and_watches_the_topics_of_all() -> None:
    world = World()
    world.part()
    names = world.processes.workers[0].broker.names
    volatile = named("volatile", domain="non-persistent")
    world.topic(volatile)
    stored = [str(part) for part in PARTS]
    listing = world.do(names.topics(NAMESPACE, None, True, False))
    assert (listing.names, listing) == (
        stored,
        world.do(world.directory.topics(NAMESPACE, None, True, False)),
    )
    assert world.do(names.topics(NAMESPACE, None, False, True)).names == [str(volatile)]
    both = world.do(names.topics(NAMESPACE, TopicPattern(".*parted"), True, True))
    assert both.names == stored

    watching = Watching()
    watched = world.do(names.watch(NAMESPACE, TopicPattern(".*/a.*")))
    watched.add(watching)
    assert watched.names == []
    empty = watched.hash
    for local in ("a1", "b1"):
        world.topic(named(local))
    assert watching.seen == [(str(named("a1")), True)]
    assert watched.hash != empty
    watched.remove(watching)
    world.topic(named("a2"))
    assert len(watching.seen) == 1
    assert not any(one.watchers for one in world.directory.lists._lists.values())


def test_changes_until_a_watcher_is_added_are_part_of_the_list() -> None:
    world = World()
    # Not topics of the worker that watches: its link is held.
    others = filter(world.processes.number_of, (named(f"a{number}") for number in count()))
    a1, a2, a3 = islice(others, 3)
    for name in (a1, a2):
        world.topic(name)
    names, watching = world.processes.workers[0].broker.names, Watching()
    asked = world.begin(names.watch(NAMESPACE, TopicPattern(".*/a.*")))
    while not world.directory.lists._lists:
        world.clock.step()
    to_right = world.processes.workers[0].joined.to_right
    to_right.held = True  # the answer and what follows it arrive together
    world.clock.pump()
    world.do(world.directory.deletion.topics.delete(a1, True))
    world.do(world.directory.creation.plain(a3, {}))
    world.clock.advance(1)
    to_right.held = False
    to_right.carry()
    world.clock.pump()
    watched = asked.result()
    watched.add(watching)
    assert watched.names == [str(a2), str(a3)]
    listing = world.do(names.topics(NAMESPACE, TopicPattern(".*/a.*"), True, False))
    assert watched.hash == listing.hash
    assert not watching.seen


def test_the_watched_lists_of_a_worker_that_died_are_watched_no_more() -> None:
    world = World()
    names = world.processes.workers[0].broker.names
    world.do(names.watch(NAMESPACE, TopicPattern(".*")))
    assert any(one.watchers for one in world.directory.lists._lists.values())
    world.processes.workers[0].joined.cut()
    world.clock.pump()
    assert not any(one.watchers for one in world.directory.lists._lists.values())


def test_a_list_that_is_not_wanted_any_more_when_it_is_read_is_not_watched() -> None:
    world = World()
    names = world.processes.workers[0].broker.names
    asking = names.watch(NAMESPACE, TopicPattern(".*"))
    waits_for = asking.send(None)
    assert waits_for is not None
    asking.close()
    world.clock.pump()
    assert not any(one.watchers for one in world.directory.lists._lists.values())


def test_schemas_are_one_for_all_workers() -> None:
    world = World()
    world.part()
    brokers = [world.worker(part).broker for part in PARTS]
    assert world.do(brokers[0].names.schema(PARTS[0], None)) is None
    assert world.do(brokers[0].names.producer_schema(PARTS[0], None)) == b""
    version = world.do(brokers[0].names.producer_schema(PARTS[0], RECORD))
    assert version == world.do(brokers[1].names.producer_schema(PARTS[1], RECORD))
    found = world.do(brokers[2].names.schema(PARTS[2], None))
    assert found is not None
    assert (found.number, found.schema) == (0, RECORD)
    assert found == world.do(world.directory.schema(PARTED, 0))
    world.do(brokers[2].names.check_consumer_schema(PARTS[2], RECORD, False))
    with pytest.raises(SchemaRefused):
        world.do(brokers[1].names.producer_schema(PARTS[1], TEXT))
    with pytest.raises(SchemaInvalid):
        world.do(brokers[1].names.producer_schema(PARTS[1], RECORD._replace(data=b"{")))


def test_a_topic_that_is_not_loaded_gets_no_schema() -> None:
    world = World()
    name = named("topic")
    world.topic(name)
    broker = world.worker(name).broker
    world.do(world.directory.deletion.topics.delete(name, True))
    with pytest.raises(NotReady, match="being unloaded"):
        world.do(broker.names.producer_schema(name, RECORD))
    assert not world.do(world.directory.schemas.has(name))
