"""Whatever clients, administrators and maintenance do to names ends in one consistent state.

Clients come and go, topics are made, grown, unloaded and deleted, policies are set, and sometimes
the namespace or the tenant is deleted under all that, while every access to metadata takes its
time and, in one variant, some writes fail: half of these took place nevertheless.  Who asked
was answered at the end, nothing is half deleted or still locked, the listing is what is stored,
loaded topics apply their policies, and a restart finds what memory knew.
"""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from effort import seeds
from fakes.connection import RecordingConnection
from fakes.named_worlds import NamedWorld, named
from fakes.publish_runs import publish
from fakes.world import ManualPromise
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.metadata_keys import (
    DELETIONS,
    partitions_key,
    topic_key,
    topic_policies_key,
)
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.expiry.message_expiry import expire_messages, expire_subscriptions
from magnetar_broker.expiry.quotas import enforce_quotas
from magnetar_broker.expiry.trimming import trim_topic, truncate
from magnetar_broker.limits.topic_limits import limits_of, topic_limits
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.policy import PolicyValues, Subject
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import (
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    MAX_PRODUCERS,
    MESSAGE_TTL,
    RETENTION,
)
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.subscriptions.skipping import skip_all
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import Fenced, StorageError, Unavailable
from magnetar_storage.runtime.execution import yield_turn

TENANT, NAMESPACE = "tenant", "tenant/space"
PARTED = named("parted", NAMESPACE)
NAMES = (named("one", NAMESPACE), named("two", NAMESPACE), PARTED)
PARTITIONS = 3
"""Of `PARTED`, at the most."""
MEMBERS = (*NAMES, *map(PARTED.with_partition, range(PARTITIONS)))
SUBJECTS: tuple[Subject, ...] = (NAMESPACE, *NAMES)
ACCESSES = ("get", "put", "delete", "list")
WRITES = ("put", "delete")
FAILURES = 0.1
"""Of all writes."""
SEEDS = 400


class Races(NamedWorld):
    """A broker on which everything happens at once; the seed decides what, and how it is mixed."""

    def __init__(self, seed: int, failing: bool) -> None:
        self.dice = Random(seed)
        super().__init__(
            allow_auto_namespace_creation=self.happens(0.5),
            broker_deduplication_enabled=self.happens(0.3),
        )
        self.do(self.directory.namespaces.ensure(NamespaceName.parse(NAMESPACE)))
        self.do(self.directory.lists.of(NAMESPACE))
        self.failing = False
        self.clients: list[tuple[Producer | Consumer, AnyTopic]] = []
        """All that are there, or were closed, and the topic that each came to."""
        for method in ACCESSES:
            access = self._slow(getattr(self.metadata, method), method in WRITES)
            setattr(self.metadata, method, access)
        if self.happens(0.5):
            self.part(PARTED, 2)
        self.failing = failing

    def happens(self, probability: float) -> bool:
        return self.dice.random() < probability

    def _slow(
        self, access: Callable[..., Awaitable[Any]], is_write: bool
    ) -> Callable[..., Awaitable[Any]]:
        async def slowly(*asked: Any, **more: Any) -> Any:
            await self._wait()
            fails = is_write and self.failing and self.happens(FAILURES)
            if fails and self.happens(0.5):
                raise Unavailable("it was not written")
            found = await access(*asked, **more)
            await self._wait()
            if fails:
                raise Unavailable("it was written, but that is not known")
            return found

        return slowly

    async def _wait(self) -> None:
        for _ in range(self.dice.randrange(3)):
            await yield_turn(self.clock)

    # Clients ----------------------------------------------------------------------------------

    async def produce(self) -> None:
        topic = await self.broker.topic(self.member(), True)
        request = ProducerRequest(1, self.broker.producer_name())
        producer = await topic.producers.add(RecordingConnection(), request)
        self.clients.append((producer, topic))
        sends = PublishRun(producer)
        sends.payloads, sends.counts = [b"x"], [1]
        sends.sequence_ids, sends.highest_ids, sends.size = [0], [0], 1
        publish(sends)

    async def consume(self) -> None:
        topic = await self.broker.topic(self.member(), True)
        name, kind = self.dice.choice("xy"), self.dice.randrange(4)
        durable = self.happens(0.8)
        request = SubscribeRequest(name, kind, 1, "consumer", earliest=True, durable=durable)
        consumer = await topic.subscriptions.subscribe(RecordingConnection(), request)
        self.clients.append((consumer, topic))
        consumer.subscription.flow(consumer, 5)

    async def leave(self) -> None:
        if self.clients:
            client, _ = self.clients.pop(self.dice.randrange(len(self.clients)))
            client.close()

    async def look_up(self) -> None:
        await self.directory.partitions(self.dice.choice(NAMES), self.happens(0.7))

    # Administrators ---------------------------------------------------------------------------

    async def set_policies(self) -> None:
        await self.directory.enforcement.set(self.dice.choice(SUBJECTS), self._some_policies())

    def _some_policies(self) -> PolicyValues:
        choices: list[PolicyValues] = [
            {MAX_PRODUCERS: self.dice.randrange(2, 9)},
            {MESSAGE_TTL: self.dice.choice((None, 10))},
            {RETENTION: Retention(1, 1)},
            {DEDUPLICATION: self.happens(0.5)},
            {COMPACTION_THRESHOLD: self.dice.choice((None, 0, 1000))},
        ]
        return self.dice.choice(choices)

    async def create(self) -> None:
        await self.directory.creation.plain(self.dice.choice(NAMES), {})

    async def create_partitioned(self) -> None:
        new = Partitioned(self.dice.randrange(1, PARTITIONS + 1))
        await self.directory.creation.partitioned(PARTED, new)

    async def grow(self) -> None:
        await self.directory.creation.grow(PARTED, PARTITIONS)

    async def delete(self) -> None:
        await self.directory.deletion.topics.delete(self.member(), self.happens(0.6))

    async def delete_partitioned(self) -> None:
        await self.directory.deletion.topics.delete_partitioned(PARTED, self.happens(0.6))

    async def unload(self) -> None:
        await self.directory.opening.unload(self.member())

    async def skip(self) -> None:
        for topic in self.loaded(self.member()):
            for subscription in list(topic.subscriptions.values())[:1]:
                await skip_all(subscription)

    async def create_namespace(self) -> None:
        await self.directory.namespaces.create(NamespaceName.parse(NAMESPACE), Namespace())

    async def delete_namespace(self) -> None:
        await self.directory.deletion.namespace(NAMESPACE, self.happens(0.7))

    async def create_tenant(self) -> None:
        await self.directory.tenants.ensure(TENANT)

    async def delete_tenant(self) -> None:
        await self.directory.deletion.tenant(TENANT, True)

    # Maintenance ----------------------------------------------------------------------------

    async def keep_up(self) -> None:
        chores: list[Callable[[Topic], Awaitable[None]]] = [
            truncate,
            trim_topic,
            expire_messages,
            enforce_quotas,
            lambda topic: expire_subscriptions(topic, 60),
        ]
        for topic in self.loaded(self.member()):
            await self.dice.choice(chores)(topic)

    async def delete_inactive(self) -> None:
        await self.directory.deletion.topics.delete_loaded(self.member(), Condition.UNUSED)

    # All at once ------------------------------------------------------------------------------

    def member(self) -> TopicName:
        return self.dice.choice(MEMBERS)

    def loaded(self, *names: TopicName) -> list[Topic]:
        found = map(self.broker.topics.get, names)
        return [topic for topic in found if isinstance(topic, Topic)]

    def step(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """What is done next."""
        often = (
            self.produce, self.produce, self.consume, self.consume, self.leave, self.look_up,
            self.set_policies, self.set_policies,
            self.create, self.create_partitioned, self.grow, self.delete,
            self.delete_partitioned, self.unload, self.skip, self.keep_up, self.delete_inactive,
        )  # fmt: skip
        rarely = (
            self.create_namespace, self.delete_namespace, self.create_tenant, self.delete_tenant,
        )  # fmt: skip
        return self.dice.choice(rarely if self.happens(0.15) else often)

    def race(self) -> None:
        """Begin some steps shortly after each other, and wait until all are answered."""
        begun: list[ManualPromise] = []
        for _ in range(self.dice.randrange(3, 25)):
            begun.append(self.begin(self.step()()))
            for _ in range(self.dice.choice((0, 0, 1, 3, 8, 30))):
                self.clock.step()
        self.clock.pump()
        refusals = (BrokerError, StorageError if self.failing else Fenced)
        for answer in begun:
            assert answer.done(), "it is never answered"
            with suppress(*refusals):  # others were faster, or it could not be stored
                answer.result()
        self.failing = False
        self.do(self.directory.deletion.resume())
        self.clock.pump()

    # What holds then --------------------------------------------------------------------------

    def check(self) -> None:
        self.check_loaded()
        self.check_clients()
        self.check_stored()
        self.check_gone()
        self.check_free()
        self.check_policies()

    def check_loaded(self) -> None:
        directory, limits = self.directory, topic_limits(self.settings)
        for topic in self.loaded(*MEMBERS):
            assert not topic.closed and topic.log.failed is None
            assert topic.limits == limits_of(limits, directory.policies, topic.name)
            assert topic.deduplication.on == directory.policies.value(DEDUPLICATION, topic.name)
            assert self.do(directory.catalogue.exists(topic.name)), "it has no log"
            assert set(topic.subscriptions) >= set(topic.cursors.cursors)

    def check_clients(self) -> None:
        for client, topic in self.clients:
            assert client.closed or self.broker.topics.get(topic.name) is topic

    def check_stored(self) -> None:
        assert self.stored(DELETIONS) == [], "something is half deleted"
        listed = self.do(self.directory.lists.of(NAMESPACE)).names
        assert listed == sorted(map(str, self.do(self.directory.catalogue.topics(NAMESPACE))))
        if self.do(self.directory.namespaces.has(NAMESPACE)):
            assert TENANT in self.do(self.directory.tenants.names())
        else:
            assert not [key for key in self.stored("/") if f"/{NAMESPACE}" in key]

    def check_gone(self) -> None:
        """What does not exist has left nothing behind."""
        for name in NAMES:
            if not self.do(self.directory.exists(name)):
                left = set(self.stored("/"))
                assert left.isdisjoint((topic_policies_key(name), partitions_key(name)))
                assert name == PARTED or topic_key(name) not in left

    def check_free(self) -> None:
        """No lock stays held that a later request needs."""
        directory = self.directory
        assert not directory.namespaces.is_closed(NAMESPACE)
        assert not directory.tenants.is_closed(TENANT) and not directory.tenants.is_used(TENANT)
        for name in MEMBERS:
            directory.deletion.pending.check(name)
            self.do(self.come(name))
        for subject in SUBJECTS:
            with suppress(BrokerError):  # there is no such topic or namespace
                self.do(directory.enforcement.set(subject, {}))

    async def come(self, name: TopicName) -> None:
        async with self.directory.locks.held_with_partitions(name):
            pass
        with suppress(BrokerError):  # there is no such topic, and it may not be made
            await self.broker.topic(name, False)

    def check_policies(self) -> None:
        """The stored policies are those in memory."""
        known = self.policies_read()
        self.restart()
        assert self.policies_read() == known

    def policies_read(self) -> list[dict[str, Any]]:
        return [self.do(self.directory.policies.values_of(subject)) for subject in SUBJECTS]


@pytest.mark.parametrize("failing", [False, True], ids=["slow", "failing"])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_races_end_in_a_consistent_state(seed: int, failing: bool) -> None:
    world = Races(seed, failing)
    world.race()
    world.check()
    world.do(world.broker.close())
