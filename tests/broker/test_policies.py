"""Policies: who is heard, what survives, and what loaded topics do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import LogWorld
from fakes.sessions import TOPIC, SessionWorld, produce
from magnetar_broker.config import Settings
from magnetar_broker.policies import (
    DEDUPLICATION,
    DELAYED_DELIVERY,
    ENCRYPTION_REQUIRED,
    DelayedDelivery,
    Origin,
    Policies,
    Policy,
    Resolved,
)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskFull, Unavailable

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
DELAYS = st.builds(DelayedDelivery, st.booleans(), st.integers(), st.integers(0))


def policies(world: LogWorld) -> Policies:
    return Policies(world.metadata, Settings())


def test_topic_before_namespace_before_broker() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.load(NAME))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.BROKER)
    world.do(found.say(NAMESPACE, {DEDUPLICATION: True}))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(True, Origin.NAMESPACE)
    world.do(found.say(NAME, {DEDUPLICATION: False}))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.TOPIC)
    assert not found.value(DEDUPLICATION, NAME)
    world.do(found.say(NAME, {DEDUPLICATION: None}))
    assert found.value(DEDUPLICATION, NAME)


def test_partitions_share_the_policies_of_their_topic() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.say(NAME, {ENCRYPTION_REQUIRED: True}))
    assert found.value(ENCRYPTION_REQUIRED, NAME.with_partition(3))
    assert not found.value(ENCRYPTION_REQUIRED, TopicName.parse(TOPIC + "-2"))


def test_what_was_said_survives_and_leaves_the_rest_alone() -> None:
    world = LogWorld()
    before = policies(world)
    delays = DelayedDelivery(False, 7, 8)
    world.do(before.say(NAME, {DELAYED_DELIVERY: delays}))
    world.do(before.say(NAME, {DEDUPLICATION: True}))
    world.do(before.say(NAME, {DEDUPLICATION: None}))
    after = policies(world)
    world.do(after.load(NAME))
    assert after.value(DELAYED_DELIVERY, NAME) == delays
    assert world.do(after.said(DELAYED_DELIVERY, NAME)) == delays
    assert world.do(after.said(DEDUPLICATION, NAME)) is None
    assert world.do(after.said(DELAYED_DELIVERY, NAMESPACE)) is None


def test_two_who_say_something_at_once_are_both_heard() -> None:
    world = LogWorld()
    found = policies(world)
    one = world.begin(found.say(NAME, {DEDUPLICATION: True}))
    other = world.begin(found.say(NAME, {ENCRYPTION_REQUIRED: True}))
    world.clock.pump()
    one.result(), other.result()
    assert found.value(DEDUPLICATION, NAME) and found.value(ENCRYPTION_REQUIRED, NAME)
    after = policies(world)
    world.do(after.load(NAME))
    assert after.value(DEDUPLICATION, NAME) and after.value(ENCRYPTION_REQUIRED, NAME)


def test_asking_for_topics_that_say_nothing_costs_no_memory() -> None:
    world = LogWorld()
    found = policies(world)
    for number in range(10):
        world.do(found.load(TopicName.parse(f"{TOPIC}-{number}")))
    assert found.known == 0
    world.do(found.say(NAME, {DEDUPLICATION: True}))
    assert found.known == 1


def test_what_could_not_be_stored_does_not_hold() -> None:
    world = LogWorld()
    found = policies(world)
    with world.failing_metadata(), pytest.raises(Unavailable):
        world.do(found.say(NAME, {DEDUPLICATION: True}))
    assert not found.value(DEDUPLICATION, NAME)


# Values ---------------------------------------------------------------------------------------


@given(DELAYS.filter(lambda d: max(abs(d.tick_ms), d.max_delay_ms) < 1 << 63))
def test_delays_are_what_was_written(delays: DelayedDelivery) -> None:
    assert DELAYED_DELIVERY.form.decode(DELAYED_DELIVERY.form.encode(delays)) == delays


def test_delays_as_other_clients_write_them() -> None:
    read = DELAYED_DELIVERY.form.decode
    assert read({}) == DelayedDelivery(False, 0, 0)
    assert read({"active": "true", "tickTime": "5"}) == DelayedDelivery(True, 5, 0)
    assert read({"maxDelayInMillis": 9}).max_delay_ms == 9


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (DEDUPLICATION, "yes"),
        (DEDUPLICATION, {}),
        (DEDUPLICATION, None),
        (DELAYED_DELIVERY, True),
        (DELAYED_DELIVERY, {"tickTime": 1.5}),
        (DELAYED_DELIVERY, {"tickTime": True}),
        (DELAYED_DELIVERY, {"tickTime": "soon"}),
        (DELAYED_DELIVERY, {"tickTime": 1 << 63}),
        (DELAYED_DELIVERY, {"active": []}),
    ],
)
def test_what_is_no_value(policy: Policy[object], value: object) -> None:
    with pytest.raises(ValueError):
        policy.form.decode(value)


# Loaded topics ----------------------------------------------------------------------------------


def test_loaded_topics_keep_to_what_was_said_before_it_is_answered() -> None:
    world = SessionWorld()
    topic, other = world.topic(), world.topic("persistent://public/other/topic")
    world.do(world.broker.enforcement.say(NAMESPACE, {DEDUPLICATION: True}))
    assert topic.deduplication.on and not other.deduplication.on
    world.do(world.broker.enforcement.say(NAME, {DEDUPLICATION: False}))
    assert not topic.deduplication.on


def test_a_topic_that_is_being_loaded_keeps_to_it_as_well() -> None:
    world = SessionWorld()
    world.topic()
    gate = world.store.create_gate = world.clock.promise()
    loading = world.begin(world.broker.topic(TopicName.parse(TOPIC + "-2"), create=True))
    said = world.begin(world.broker.enforcement.say(NAMESPACE, {DEDUPLICATION: True}))
    gate.set_result(None)
    world.clock.pump()
    said.result()
    assert loading.result().deduplication.on


def test_a_topic_that_fails_meanwhile_keeps_no_other_one_from_it() -> None:
    world = SessionWorld()
    failing, other = world.topic(), world.topic(TOPIC + "-2")
    world.do(other.ensure_subscription("sub"))  # it can write without a new segment
    world.store.create_failure = DiskFull("no room")
    world.do(world.broker.enforcement.say(NAMESPACE, {DEDUPLICATION: True}))
    assert failing.closed and other.deduplication.on
    world.store.create_failure = None
    assert world.topic() is not failing and world.topic().deduplication.on


@pytest.mark.parametrize("topic", [TOPIC, TOPIC.replace("persistent", "non-persistent")])
def test_encryption_that_becomes_required_sends_plain_producers_away(topic: str) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1, topic=topic))
    world.do(world.broker.enforcement.say(NAMESPACE, {ENCRYPTION_REQUIRED: True}))
    (told,) = client.heard()
    assert isinstance(told, pb.CommandCloseProducer)
