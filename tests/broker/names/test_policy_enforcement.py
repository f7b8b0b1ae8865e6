"""Setting policies: loaded topics apply them before the answer, and end with the last of them."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.sessions import TOPIC, SessionWorld, produce
from fakes.world import ManualPromise
from magnetar_broker.base.errors import NamespaceNotFound, NotReady, TopicNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.parallel import WIDTH
from magnetar_broker.config import Settings
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import (
    DEDUPLICATION,
    ENCRYPTION_REQUIRED,
    MAX_PRODUCERS,
    SUBSCRIPTION_DISPATCH_RATES,
)
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.topic.loaded_topics import Topics
from magnetar_broker.topic.local_topic_host import TOPICS_A_TURN
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskFull, Unavailable

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
Rates = dict[str, DispatchRate]
PARTITION = NAME.with_partition(0)


def test_loaded_topics_apply_a_policy_before_it_is_answered() -> None:
    world = SessionWorld(bootstrap_namespaces=("public/other",))
    topic, other = world.topic(), world.topic("persistent://public/other/topic")
    world.do(world.directory.enforcement.set(NAMESPACE, {DEDUPLICATION: True}))
    assert topic.deduplication.on and not other.deduplication.on
    world.do(world.directory.enforcement.set(NAME, {DEDUPLICATION: False}))
    assert not topic.deduplication.on


def test_policies_of_a_topic_apply_to_its_partitions_only() -> None:
    world = SessionWorld()
    world.do(world.directory.catalogue.create_partitioned(NAME, Partitioned(2)))
    partition = world.topic(str(PARTITION))
    others = [world.topic(f"{TOPIC}{suffix}") for suffix in ("-partition-", "2", "-2")]
    world.do(world.directory.enforcement.set(PARTITION, {MAX_PRODUCERS: 1}))
    assert partition.limits.max_producers == 1
    assert [topic.limits.max_producers for topic in others] == [10_000] * 3


def test_setting_a_policy_costs_no_more_where_there_are_many_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SessionWorld()
    topic = world.topic()

    def look_at_all(_: Topics) -> None:
        raise AssertionError("others were asked")

    monkeypatch.setattr(Topics, "__iter__", look_at_all)
    world.do(world.directory.enforcement.set(NAME, {MAX_PRODUCERS: 1}))
    assert topic.limits.max_producers == 1


def test_a_topic_that_is_being_loaded_keeps_to_it_as_well() -> None:
    world = SessionWorld()
    world.topic()
    gate = world.store.create_gate = world.clock.promise()
    loading = world.begin(world.broker.topic(TopicName.parse(TOPIC + "-2"), create=True))
    setting = world.begin(world.directory.enforcement.set(NAMESPACE, {DEDUPLICATION: True}))
    gate.set_result(None)
    world.clock.pump()
    setting.result()
    assert loading.result().deduplication.on


def test_a_topic_that_fails_meanwhile_keeps_no_other_one_from_it() -> None:
    world = SessionWorld()
    failing, other = world.topic(), world.topic(TOPIC + "-2")
    world.do(other.subscriptions.ensure("sub"))  # it can write without a new segment
    world.store.create_failure = DiskFull("no room")
    world.do(world.directory.enforcement.set(NAMESPACE, {DEDUPLICATION: True}))
    assert failing.closed and other.deduplication.on
    world.store.create_failure = None
    assert world.topic() is not failing and world.topic().deduplication.on


def test_a_topic_that_cannot_apply_a_policy_fails_the_request_after_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SessionWorld()
    failing, other = world.topic(), world.topic(TOPIC + "-2")

    async def fail() -> None:
        raise Unavailable("not now")

    monkeypatch.setattr(failing, "policies_changed", fail)
    with pytest.raises(Unavailable, match="not now"):
        world.do(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 1}))
    assert other.limits.max_producers == 1


def test_what_could_not_be_stored_changes_nothing() -> None:
    world = SessionWorld()
    topic = world.topic()
    with world.failing_metadata(), pytest.raises(Unavailable):
        world.do(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 1}))
    assert topic.limits.max_producers == 10_000
    assert topic.policies.value(MAX_PRODUCERS, NAME) == 10_000
    world.do(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 2}))
    assert topic.limits.max_producers == 2


def test_many_topics_leave_the_loop_to_others_in_between() -> None:
    world = SessionWorld()
    a_turn = WIDTH * TOPICS_A_TURN
    topics = [world.topic(f"{TOPIC}-{number}") for number in range(3 * a_turn)]
    setting = world.begin(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 1}))
    changed: list[int] = []

    def look() -> None:
        changed.append(sum(topic.limits.max_producers == 1 for topic in topics))
        if not setting.done():
            world.clock.soon(look)

    world.clock.soon(look)
    world.clock.pump()
    setting.result()
    steps = [after - before for before, after in pairwise([0, *changed])]
    assert sum(steps) == len(topics) and max(steps) <= a_turn


@pytest.mark.parametrize("topic", [TOPIC, TOPIC.replace("persistent", "non-persistent")])
def test_encryption_that_becomes_required_sends_plain_producers_away(topic: str) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1, topic=topic))
    world.do(world.directory.enforcement.set(NAMESPACE, {ENCRYPTION_REQUIRED: True}))
    (notice,) = client.received()
    assert isinstance(notice, pb.CommandCloseProducer)


# Several at once ----------------------------------------------------------------------------------


def _delaying(world: SessionWorld, order: list[bool]) -> Callable[[], None]:
    """Writes of metadata take place in turn or when the returned call is made."""
    waiting: list[ManualPromise] = []
    put = world.metadata.put

    async def late(*asked: Any) -> Any:
        if order and order.pop():
            waiting.append(gate := world.clock.promise())
            await gate
        version = await put(*asked)
        if order and order.pop():
            waiting.append(gate := world.clock.promise())
            await gate
        return version

    def release() -> None:
        world.clock.pump()
        while waiting:
            waiting.pop().set_result(None)
            world.clock.pump()

    world.metadata.put = late  # type: ignore[assignment]
    return release


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.sampled_from([NAMESPACE, NAME]), st.none() | st.booleans()),
        min_size=2,
        max_size=6,
    ),
    st.lists(st.booleans(), max_size=12),
)
def test_the_last_that_is_stored_is_kept_to(
    policies: list[tuple[Subject, bool | None]], order: list[bool]
) -> None:
    world = SessionWorld()
    topic = world.topic()
    release = _delaying(world, order)
    changes = [
        world.begin(
            world.directory.enforcement.set(subject, {DEDUPLICATION: value, MAX_PRODUCERS: n})
        )
        for n, (subject, value) in enumerate(policies, 1)
    ]
    release()
    for one in changes:
        one.result()
    stored = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(stored.load(NAME))
    assert topic.deduplication.on == stored.value(DEDUPLICATION, NAME)
    assert topic.limits.max_producers == stored.value(MAX_PRODUCERS, NAME)


def test_changes_of_one_value_are_all_there() -> None:
    world = SessionWorld()
    world.topic()
    rate = DispatchRate(1, 1, 1, False)
    release = _delaying(world, [True, False] * 3)

    def adding(name: str) -> Callable[[Rates | None], Rates]:
        return lambda rates: {**(rates or {}), name: rate}

    changes = [
        world.begin(
            world.directory.enforcement.update(NAME, SUBSCRIPTION_DISPATCH_RATES, adding(name))
        )
        for name in "abc"
    ]
    release()
    for one in changes:
        one.result()
    rates = world.directory.policies.value(SUBSCRIPTION_DISPATCH_RATES, NAME)
    assert rates == dict.fromkeys("abc", rate)


# Those that are deleted -----------------------------------------------------------------------


@pytest.mark.parametrize("late", [[], [True], [False, True], [True, True]])
def test_a_deleted_topic_leaves_no_policies(late: list[bool]) -> None:
    world = SessionWorld()
    world.topic()
    release = _delaying(world, list(late))
    setting = world.begin(world.directory.enforcement.set(NAME, {MAX_PRODUCERS: 1}))
    deleting = world.begin(world.directory.deletion.topics.delete(NAME, force=True))
    release()
    assert setting.done() and deleting.done()
    with suppress(TopicNotFound, NotReady):
        setting.result()
    deleting.result()
    assert world.topic().limits.max_producers == 10_000
    stored = Policies(GuardedMetadata(world.metadata, None), Settings())
    assert world.do(stored.values_of(NAME)) == {}


def test_policies_of_what_does_not_exist_are_refused() -> None:
    world = SessionWorld()
    with pytest.raises(TopicNotFound):
        world.do(world.directory.enforcement.set(NAME, {MAX_PRODUCERS: 1}))
    with pytest.raises(NamespaceNotFound):
        world.do(world.directory.enforcement.set("public/missing", {MAX_PRODUCERS: 1}))
    assert world.directory.policies.known == 0


def test_what_was_forgotten_although_that_seemed_to_fail_is_forgotten() -> None:
    world = SessionWorld()
    world.topic()
    policies, delete = world.directory.policies, world.metadata.delete
    world.do(world.directory.enforcement.set(NAME, {MAX_PRODUCERS: 1}))

    async def delete_and_fail(*asked: Any) -> None:
        await delete(*asked)
        raise Unavailable("the outcome is unknown")

    world.metadata.delete = delete_and_fail  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        world.do(policies.delete(NAME))
    world.metadata.delete = delete  # type: ignore[method-assign]
    assert world.do(policies.explicit(MAX_PRODUCERS, NAME)) is None  # type: ignore[arg-type]
