"""Policies: precedence, and what survives."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import LogWorld
from fakes.policy_values import policy_values
from fakes.sessions import TOPIC
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import topic_policies_key
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import SchemaCompatibility
from magnetar_broker.policies.explain import explained
from magnetar_broker.policies.policy import Origin, Policy, Resolved, Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import (
    DEDUPLICATION,
    ENCRYPTION_REQUIRED,
    MAX_PRODUCERS,
    SCHEMA_COMPATIBILITY,
    SUBSCRIPTION_TYPES,
    TABLE,
)
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.interfaces import Versioned

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
OTHER = TopicName.parse("persistent://public/other/topic")
TOPICS = (NAME, NAME.with_partition(3), TopicName.parse(TOPIC + "-2"), OTHER)
SUBJECTS: tuple[Subject, ...] = (*TOPICS, NAMESPACE, OTHER.namespace_name)


def policies(world: LogWorld) -> Policies:
    return Policies(GuardedMetadata(world.metadata, None), Settings())


def reads_of(world: LogWorld) -> list[str]:
    """The keys that are read from now on."""
    keys: list[str] = []
    get = world.metadata.get

    async def shown(key: str) -> Versioned | None:
        keys.append(key)
        return await get(key)

    world.metadata.get = shown  # type: ignore[method-assign]
    return keys


# Precedence -------------------------------------------------------------------------------------


def test_topic_before_namespace_before_broker() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.load(NAME))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.BROKER)
    world.do(found.set(NAMESPACE, {DEDUPLICATION: True}))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(True, Origin.NAMESPACE)
    world.do(found.set(NAME, {DEDUPLICATION: False}))
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.TOPIC)
    assert not found.value(DEDUPLICATION, NAME)
    world.do(found.set(NAME, {DEDUPLICATION: None}))
    assert found.value(DEDUPLICATION, NAME)


def test_partitions_share_the_policies_of_their_topic() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.set(NAME, {MAX_PRODUCERS: 1}))
    assert found.value(MAX_PRODUCERS, NAME.with_partition(3)) == 1
    assert found.value(MAX_PRODUCERS, TopicName.parse(TOPIC + "-2")) == 10_000


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (SCHEMA_COMPATIBILITY, SchemaCompatibility.UNDEFINED),
        (SUBSCRIPTION_TYPES, frozenset()),
        (ENCRYPTION_REQUIRED, False),
    ],
)
def test_some_values_mean_unset(policy: Policy[Any], value: Any) -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.set(NAMESPACE, {policy: value}))
    assert found.of_namespace(policy, NAMESPACE).origin is Origin.BROKER
    assert world.do(found.explicit(policy, NAMESPACE)) is None


def test_a_limit_of_zero_takes_precedence_too() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.set(NAMESPACE, {MAX_PRODUCERS: 5}))
    world.do(found.set(NAME, {MAX_PRODUCERS: 0}))
    assert found.resolve(MAX_PRODUCERS, NAME) == Resolved(0, Origin.TOPIC)


# The model ----------------------------------------------------------------------------------------

CHANGE = st.tuples(st.just("set"), st.sampled_from(SUBJECTS), st.lists(policy_values(), max_size=3))
Event = tuple[str, Any, list[Any]]
EVENTS: st.SearchStrategy[Event] = (
    CHANGE
    | st.tuples(st.just("fail"), st.sampled_from(SUBJECTS), st.lists(policy_values(), max_size=2))
    | st.tuples(st.just("delete"), st.sampled_from(SUBJECTS), st.just([]))
    | st.tuples(st.just("restart"), st.sampled_from(SUBJECTS), st.just([]))
)


class Model:
    """Three dicts."""

    def __init__(self) -> None:
        self.values: dict[tuple[Subject, str], Any] = {}

    def set(self, subject: Subject, values: list[tuple[Policy[Any], Any]]) -> None:
        for policy, value in values:
            stored, kept = policy, value
            if policy.part is not None:
                stored = policy.part.of
                kept = dict(self.values.get((self._one(subject), stored.name), {}))
                kept.pop(policy.part.member, None)
                if value is not None:
                    kept[policy.part.member] = value
            key = (self._one(subject), stored.name)
            self.values.pop(key, None)
            if kept is not None and kept != stored.unset and (kept != {} or stored is policy):
                self.values[key] = kept

    def delete(self, subject: Subject) -> None:
        one = self._one(subject)
        self.values = {key: value for key, value in self.values.items() if key[0] != one}

    def effective(self, policy: Policy[Any], topic: TopicName) -> Resolved[Any]:
        own = self._explicit(policy, topic.base)
        above = self._explicit(policy, topic.namespace_name)
        if policy.merge is not None:
            return self._merged(policy, own, above)
        if own is not None:
            return Resolved(own, Origin.TOPIC)
        if above is not None:
            return Resolved(above, Origin.NAMESPACE)
        return Resolved(policy.default(Settings()), Origin.BROKER)

    def _merged(self, policy: Policy[Any], own: Any, above: Any) -> Resolved[Any]:
        assert policy.merge is not None
        value, origin = policy.default(Settings()), Origin.BROKER
        if above is not None:
            value, origin = policy.merge(value, above), Origin.NAMESPACE
        if own is not None:
            value, origin = policy.merge(value, own), Origin.TOPIC
        return Resolved(value, origin)

    def _explicit(self, policy: Policy[Any], one: Subject) -> Any:
        if policy.part is not None:
            return self.values.get((one, policy.part.of.name), {}).get(policy.part.member)
        return self.values.get((one, policy.name))

    def _one(self, subject: Subject) -> Subject:
        return subject if isinstance(subject, str) else subject.base


@settings(max_examples=examples(60))
@given(st.lists(EVENTS, max_size=12))
def test_effective_values_are_those_of_a_plain_model(
    events: list[tuple[str, Subject, list[tuple[Policy[Any], Any]]]],
) -> None:
    world, model = LogWorld(), Model()
    found = policies(world)
    for what, subject, values in events:
        match what:
            case "set":
                world.do(found.set(subject, dict(values)))
                model.set(subject, list(dict(values).items()))
            case "fail":
                with world.failing_metadata(), pytest.raises(Unavailable):
                    world.do(found.set(subject, dict(values)))
            case "delete":
                world.do(found.delete(subject))
                model.delete(subject)
            case "restart":
                found = policies(world)
        for topic in TOPICS:
            world.do(found.load(topic))
            for policy in TABLE.values():
                assert found.resolve(policy, topic) == model.effective(policy, topic)
    for topic in TOPICS:
        for name, shown in world.do(explained(found, topic)).items():
            expected = model.effective(TABLE[name], topic)
            value = shown["value"]
            decoded = None if value is None else TABLE[name].codec.decode(value)
            assert decoded == expected.value
            assert shown.get("noEffect", "") == TABLE[name].declared.no_effect
            assert shown["origin"] == expected.origin


# What is stored -----------------------------------------------------------------------------------


def test_values_survive_and_leave_others_alone() -> None:
    world = LogWorld()
    before = policies(world)
    world.do(before.set(NAME, {MAX_PRODUCERS: 5, DEDUPLICATION: True}))
    world.do(before.set(NAME, {DEDUPLICATION: None}))
    after = policies(world)
    assert world.do(after.explicit(MAX_PRODUCERS, NAME)) == 5  # type: ignore[arg-type]
    assert world.do(after.explicit(DEDUPLICATION, NAME)) is None  # type: ignore[arg-type]
    assert world.do(after.explicit(MAX_PRODUCERS, NAMESPACE)) is None  # type: ignore[arg-type]


def test_names_that_only_other_builds_know_are_kept() -> None:
    world = LogWorld()
    key = topic_policies_key(NAME)
    world.do(world.metadata.put(key, b'{"of_the_future": {"a": 1}, "deduplication": true}'))
    found = policies(world)
    world.do(found.set(NAME, {MAX_PRODUCERS: 5}))
    stored = world.do(world.metadata.get(key))
    assert stored is not None
    assert json.loads(stored.value) == {
        "of_the_future": {"a": 1},
        "deduplication": True,
        "max_producers": 5,
    }
    assert found.value(DEDUPLICATION, NAME)


def test_an_invalid_stored_value_is_refused_and_not_taken_for_unset() -> None:
    world = LogWorld()
    world.do(world.metadata.put(topic_policies_key(NAME), b'{"max_producers": "many"}'))
    found = policies(world)
    world.do(found.load(NAME))
    with pytest.raises(StorageError, match=r"max_producers.*set it again or delete it"):
        found.value(MAX_PRODUCERS, NAME)
    world.do(found.set(NAME, {MAX_PRODUCERS: None}))
    assert found.value(MAX_PRODUCERS, NAME) == 10_000


def test_concurrent_changes_are_both_stored() -> None:
    world = LogWorld()
    found = policies(world)
    one = world.begin(found.set(NAME, {DEDUPLICATION: True}))
    other = world.begin(found.set(NAME, {MAX_PRODUCERS: 1}))
    world.clock.pump()
    one.result(), other.result()
    for known in (found, policies(world)):
        world.do(known.load(NAME))
        assert known.value(DEDUPLICATION, NAME) and known.value(MAX_PRODUCERS, NAME) == 1


def test_topics_without_explicit_values_cost_neither_memory_nor_reads() -> None:
    world = LogWorld()
    world.do(policies(world).set(OTHER, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.reload())
    reads = reads_of(world)
    for number in range(10):
        world.do(found.load(TopicName.parse(f"{TOPIC}-{number}")))
    assert found.known == 0 and not reads
    world.do(found.load(OTHER))
    assert found.known == 1 and reads == [topic_policies_key(OTHER)]


def test_a_subject_deleted_while_it_is_read_stays_deleted() -> None:
    world = LogWorld()
    world.do(policies(world).set(NAME, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.reload())
    get, gate = world.metadata.get, world.clock.promise()

    async def late(key: str) -> Versioned | None:
        stored = await get(key)
        await gate
        return stored

    world.metadata.get = late  # type: ignore[method-assign]
    reading = world.begin(found.load(NAME))
    world.do(found.delete(NAME))
    gate.set_result(None)
    world.clock.pump()
    reading.result()
    assert found.resolve(DEDUPLICATION, NAME) == Resolved(False, Origin.BROKER)


def test_namespaces_are_known_from_the_start() -> None:
    world = LogWorld()
    world.do(policies(world).set(NAMESPACE, {DEDUPLICATION: True}))
    found = policies(world)
    world.do(found.reload())
    assert found.of_namespace(DEDUPLICATION, NAMESPACE) == Resolved(True, Origin.NAMESPACE)


def test_a_change_that_is_not_stored_is_not_in_effect() -> None:
    world = LogWorld()
    found = policies(world)
    with world.failing_metadata(), pytest.raises(Unavailable):
        world.do(found.set(NAME, {DEDUPLICATION: True}))
    assert not found.value(DEDUPLICATION, NAME)


def test_a_change_stored_by_a_failed_write_is_in_effect() -> None:
    world = LogWorld()
    found = policies(world)
    with world.failing_metadata(lands=True):
        world.do(found.set(NAME, {DEDUPLICATION: True}))
        world.do(found.set(NAME, {MAX_PRODUCERS: 1}))
    for known in (found, policies(world)):
        world.do(known.load(NAME))
        assert known.value(DEDUPLICATION, NAME) and known.value(MAX_PRODUCERS, NAME) == 1


def test_explained_in_words() -> None:
    world = LogWorld()
    found = policies(world)
    world.do(found.set(NAMESPACE, {MAX_PRODUCERS: 5}))
    world.do(found.set(NAME, {DEDUPLICATION: True}))
    shown = world.do(explained(found, NAME.with_partition(1)))
    assert shown["max_producers"] == {
        "value": 5,
        "origin": "namespace",
        "source": f"namespace {NAMESPACE}",
    }
    assert shown["deduplication"]["source"] == f"topic {NAME}"
    assert shown["message_ttl"]["source"] == "settings ttlDurationDefaultInSeconds"
    assert "max_topics" not in shown
    assert "max_message_size" not in world.do(explained(found, NAMESPACE))
