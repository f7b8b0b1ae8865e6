"""Policies: who is heard, and what survives."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.logs import LogWorld
from fakes.policy_values import sayings
from fakes.sessions import TOPIC
from magnetar_broker.config import Settings
from magnetar_broker.metadata_keys import topic_policies_key
from magnetar_broker.policies import (
    DEDUPLICATION,
    ENCRYPTION_REQUIRED,
    MAX_PRODUCERS,
    SCHEMA_COMPATIBILITY,
    SUBSCRIPTION_TYPES,
    TABLE,
    Origin,
    Policies,
    Policy,
    Resolved,
    SchemaCompatibility,
    Subject,
)
from magnetar_broker.policies.explain import explained
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.interfaces import Versioned

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
OTHER = TopicName.parse("persistent://public/other/topic")
TOPICS = (NAME, NAME.with_partition(3), TopicName.parse(TOPIC + "-2"), OTHER)
SUBJECTS: tuple[Subject, ...] = (*TOPICS, NAMESPACE, OTHER.namespace_name)


def policies(world: LogWorld) -> Policies:
    return Policies(world.metadata, Settings())


def reads_of(world: LogWorld) -> list[str]:
    """The keys that are read from now on."""
    keys: list[str] = []
    get = world.metadata.get

    async def told(key: str) -> Versioned | None:
        keys.append(key)
        return await get(key)

    world.metadata.get = told  # type: ignore[method-assign]
    return keys


# Who is heard -----------------------------------------------------------------------------------


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
    world.do(found.say(NAME, {MAX_PRODUCERS: 1}))
    assert found.value(MAX_PRODUCERS, NAME.with_partition(3)) == 1
    assert found.value(MAX_PRODUCERS, TopicName.parse(TOPIC + "-2")) == 10_000


@pytest.mark.parametrize(
    ("policy", "silence"),
    [
        (SCHEMA_COMPATIBILITY, SchemaCompatibility.UNDEFINED),
        (SUBSCRIPTION_TYPES, frozenset()),
        (ENCRYPTION_REQUIRED, False),
    ],
)
def test_some_values_say_nothing(policy: Policy[Any], silence: Any) -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.say(NAMESPACE, {policy: silence}))
    assert found.of(policy, NAMESPACE).origin is Origin.BROKER
    assert world.do(found.said(policy, NAMESPACE)) is None


def test_limits_of_zero_are_heard() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.say(NAMESPACE, {MAX_PRODUCERS: 5}))
    world.do(found.say(NAME, {MAX_PRODUCERS: 0}))
    assert found.resolve(MAX_PRODUCERS, NAME) == Resolved(0, Origin.TOPIC)


# The model ----------------------------------------------------------------------------------------

SAYING = st.tuples(st.just("say"), st.sampled_from(SUBJECTS), st.lists(sayings(), max_size=3))
EVENTS = (
    SAYING
    | st.tuples(st.just("fail"), st.sampled_from(SUBJECTS), st.lists(sayings(), max_size=2))
    | st.tuples(st.just("forget"), st.sampled_from(SUBJECTS), st.just([]))
    | st.tuples(st.just("restart"), st.sampled_from(SUBJECTS), st.just([]))
)


class Model:
    """Three dicts."""

    def __init__(self) -> None:
        self.said: dict[tuple[Subject, str], Any] = {}

    def say(self, subject: Subject, said: list[tuple[Policy[Any], Any]]) -> None:
        for policy, value in said:
            key = (self._one(subject), policy.name)
            self.said.pop(key, None)
            if value is not None and value != policy.unsaid:
                self.said[key] = value

    def forget(self, subject: Subject) -> None:
        one = self._one(subject)
        self.said = {key: value for key, value in self.said.items() if key[0] != one}

    def holds(self, policy: Policy[Any], topic: TopicName) -> Resolved[Any]:
        own = self.said.get((topic.base, policy.name))
        above = self.said.get((topic.namespace_name, policy.name))
        if own is not None:
            return Resolved(own, Origin.TOPIC)
        if above is not None:
            return Resolved(above, Origin.NAMESPACE)
        return Resolved(policy.default(Settings()), Origin.BROKER)

    def _one(self, subject: Subject) -> Subject:
        return subject if isinstance(subject, str) else subject.base


@settings(max_examples=60)
@given(st.lists(EVENTS, max_size=12))
def test_what_holds_is_what_a_plain_model_says(
    events: list[tuple[str, Subject, list[tuple[Policy[Any], Any]]]],
) -> None:
    world, model = LogWorld(), Model()
    found = policies(world)
    for what, subject, said in events:
        match what:
            case "say":
                world.do(found.say(subject, dict(said)))
                model.say(subject, list(dict(said).items()))
            case "fail":
                with world.failing_metadata(), pytest.raises(Unavailable):
                    world.do(found.say(subject, dict(said)))
            case "forget":
                world.do(found.forget(subject))
                model.forget(subject)
            case "restart":
                found = policies(world)
        for topic in TOPICS:
            world.do(found.load(topic))
            for policy in TABLE.values():
                assert found.resolve(policy, topic) == model.holds(policy, topic)
    for topic in TOPICS:
        for name, told in world.do(explained(found, topic)).items():
            expected = model.holds(TABLE[name], topic)
            assert TABLE[name].form.decode(told["value"]) == expected.value
            assert told["origin"] == expected.origin


# What is stored -----------------------------------------------------------------------------------


def test_what_was_said_survives_and_leaves_the_rest_alone() -> None:
    world = LogWorld()
    before = policies(world)
    world.do(before.say(NAME, {MAX_PRODUCERS: 5, DEDUPLICATION: True}))
    world.do(before.say(NAME, {DEDUPLICATION: None}))
    after = policies(world)
    assert world.do(after.said(MAX_PRODUCERS, NAME)) == 5
    assert world.do(after.said(DEDUPLICATION, NAME)) is None
    assert world.do(after.said(MAX_PRODUCERS, NAMESPACE)) is None


def test_names_that_only_other_builds_know_are_kept() -> None:
    world = LogWorld()
    key = topic_policies_key(NAME)
    world.do(world.metadata.put(key, b'{"of_the_future": {"a": 1}, "deduplication": true}'))
    found = policies(world)
    world.do(found.say(NAME, {MAX_PRODUCERS: 5}))
    stored = world.do(world.metadata.get(key))
    assert stored is not None
    assert json.loads(stored.value) == {
        "of_the_future": {"a": 1},
        "deduplication": True,
        "max_producers": 5,
    }
    assert found.value(DEDUPLICATION, NAME)


def test_a_stored_value_that_nobody_can_keep_to_is_no_silence() -> None:
    world = LogWorld()
    world.do(world.metadata.put(topic_policies_key(NAME), b'{"max_producers": "many"}'))
    found = policies(world)
    world.do(found.load(NAME))
    with pytest.raises(StorageError, match=r"max_producers.*say it anew or unsay it"):
        found.value(MAX_PRODUCERS, NAME)
    world.do(found.say(NAME, {MAX_PRODUCERS: None}))
    assert found.value(MAX_PRODUCERS, NAME) == 10_000


def test_two_who_say_something_at_once_are_both_heard() -> None:
    world = LogWorld()
    found = policies(world)
    one = world.begin(found.say(NAME, {DEDUPLICATION: True}))
    other = world.begin(found.say(NAME, {MAX_PRODUCERS: 1}))
    world.clock.pump()
    one.result(), other.result()
    for known in (found, policies(world)):
        world.do(known.load(NAME))
        assert known.value(DEDUPLICATION, NAME) and known.value(MAX_PRODUCERS, NAME) == 1


def test_topics_that_say_nothing_cost_neither_memory_nor_reads() -> None:
    world = LogWorld()
    world.do(policies(world).say(OTHER, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.start())
    reads = reads_of(world)
    for number in range(10):
        world.do(found.load(TopicName.parse(f"{TOPIC}-{number}")))
    assert found.known == 0 and not reads
    world.do(found.load(OTHER))
    assert found.known == 1 and reads == [topic_policies_key(OTHER)]


def test_what_is_deleted_while_it_is_read_is_gone() -> None:
    world = LogWorld()
    world.do(policies(world).say(NAME, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.start())
    get, gate = world.metadata.get, world.clock.promise()

    async def late(key: str) -> Versioned | None:
        stored = await get(key)
        await gate
        return stored

    world.metadata.get = late  # type: ignore[method-assign]
    reading = world.begin(found.load(NAME))
    world.do(found.forget(NAME))
    gate.set_result(None)
    world.clock.pump()
    reading.result()
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.BROKER)


def test_namespaces_are_known_from_the_start() -> None:
    world = LogWorld()
    world.do(policies(world).say(NAMESPACE, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.start())
    assert found.of(DEDUPLICATION, NAMESPACE) == Resolved(True, Origin.NAMESPACE)


def test_what_could_not_be_stored_does_not_hold() -> None:
    world = LogWorld()
    found = policies(world)
    with world.failing_metadata(), pytest.raises(Unavailable):
        world.do(found.say(NAME, {DEDUPLICATION: True}))
    assert not found.value(DEDUPLICATION, NAME)


def test_what_was_stored_although_it_seemed_to_fail_holds() -> None:
    world = LogWorld()
    found = policies(world)
    with world.failing_metadata(lands=True):
        world.do(found.say(NAME, {DEDUPLICATION: True}))
        world.do(found.say(NAME, {MAX_PRODUCERS: 1}))
    for known in (found, policies(world)):
        world.do(known.load(NAME))
        assert known.value(DEDUPLICATION, NAME) and known.value(MAX_PRODUCERS, NAME) == 1


def test_explained_in_words() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.say(NAMESPACE, {MAX_PRODUCERS: 5}))
    world.do(found.say(NAME, {DEDUPLICATION: True}))
    told = world.do(explained(found, NAME.with_partition(1)))
    assert told["max_producers"] == {
        "value": 5,
        "origin": "namespace",
        "saidBy": f"namespace {NAMESPACE}",
    }
    assert told["deduplication"]["saidBy"] == f"topic {NAME}"
    assert told["message_ttl"]["saidBy"] == "settings ttlDurationDefaultInSeconds"
    assert "max_topics" not in told
    assert "max_message_size" not in world.do(explained(found, NAMESPACE))
