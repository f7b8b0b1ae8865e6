"""The broker: its parts, and the rules for loading and creating a topic."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TypeVar

from magnetar_broker.catalogue import Catalogue, Partitioned
from magnetar_broker.chores import Chores
from magnetar_broker.config import Settings, TopicType
from magnetar_broker.enforcement import Enforcement
from magnetar_broker.errors import (
    AlreadyExists,
    NotAllowed,
    NotReady,
    TooManyRequests,
    TopicMissing,
)
from magnetar_broker.limits import topic_limits
from magnetar_broker.namespaces import Namespaces
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.orphans import present_segments, sweep_and_tell
from magnetar_broker.ownership import Ownership
from magnetar_broker.policies import Policies
from magnetar_broker.publish_budget import PublishBudget
from magnetar_broker.schemas.service import Schemas, schema_limits
from magnetar_broker.tenants import Tenants
from magnetar_broker.topic import Topic
from magnetar_broker.topic_events import TopicEvents
from magnetar_broker.topics import Topics
from magnetar_broker.upkeep import Upkeep
from magnetar_broker.watchdog import Watchdog
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.log import Engine

T = TypeVar("T")
SYSTEM_NAMESPACES = ("public/default", "pulsar/system")


class Broker:
    """One per process.  Sessions and HTTP routes come here for topics."""

    def __init__(self, settings: Settings, engine: Engine, ownership: Ownership) -> None:
        self.settings = settings
        self.engine = engine
        self.ownership = ownership
        self.tenants = Tenants(engine.metadata, settings.cluster_name, settings.max_tenants)
        self.namespaces = Namespaces(
            engine.metadata,
            self.tenants,
            settings.allow_auto_namespace_creation,
            settings.default_number_of_namespace_bundles,
            settings.max_namespaces_per_tenant,
        )
        self.catalogue = Catalogue(engine.metadata)
        self.limits = topic_limits(settings)
        self.policies = Policies(engine.metadata, settings)
        self.schemas = Schemas(
            engine.metadata, engine.clock, self.policies, schema_limits(settings)
        )
        self.events = TopicEvents()
        self.publishes = PublishBudget(settings.max_message_publish_buffer_size_in_mb << 20)
        self.ready = False
        self.connections = self.connections_total = 0
        self._connections_from: Counter[str] = Counter()
        self.topics = Topics(engine.clock)
        self.enforcement = Enforcement(self.policies, self.topics, engine.clock)
        self._started_ms = engine.clock.now_ms()
        self.watchdog = Watchdog(engine, lambda: iter(self.topics))
        self.upkeep = Upkeep(engine)
        Chores(settings, engine, lambda: iter(self.topics)).enlist(self.upkeep)
        self._names = count()
        self._lookups = 0

    async def start(self) -> None:
        """Make the namespaces that must exist; clients may come afterwards."""
        present = await present_segments(self.engine)
        await self.namespaces.start()
        await self.policies.start()
        for name in (*SYSTEM_NAMESPACES, *self.settings.bootstrap_namespaces):
            await self.namespaces.ensure(NamespaceName.parse(name))
        self.ready = self.topics.serving = True
        self.upkeep.start()
        self.watchdog.start()
        self.engine.tasks.spawn(sweep_and_tell(self.engine, present))

    async def close(self) -> None:
        """Send every client away and seal every topic."""
        self.ready = False
        self.upkeep.stop()
        self.watchdog.stop()
        await self.topics.close()

    def connected(self, host: str) -> None:
        """A client came; it is told in its handshake if it is one too many."""
        self.connections += 1
        self.connections_total += 1
        self._connections_from[host] += 1

    def disconnected(self, host: str) -> None:
        """A client left."""
        self.connections -= 1
        self._connections_from[host] -= 1
        if not self._connections_from[host]:
            del self._connections_from[host]

    def connections_from(self, host: str) -> int:
        """How many clients are there from one address."""
        return self._connections_from[host]

    def producer_name(self) -> str:
        """A name for a producer that brought none; unique in this cluster."""
        return f"{self.settings.cluster_name}-{self._started_ms}-{next(self._names)}"

    @contextmanager
    def lookup(self) -> Iterator[None]:
        """Counts a lookup while it lasts; `TooManyRequests` above the limit."""
        limit = self.settings.max_concurrent_lookup_request
        if self._lookups >= limit:
            raise TooManyRequests(f"{limit} lookups are under way (maxConcurrentLookupRequest)")
        self._lookups += 1
        try:
            yield
        finally:
            self._lookups -= 1

    # Topics -----------------------------------------------------------------------

    async def topic(self, name: TopicName, create: bool) -> Topic | NonPersistentTopic:
        """The topic, loaded; created when `create` and the settings allow it.

        Raises the refusal that PRODUCER and SUBSCRIBE answer with.
        """
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        return await self.topics.load(name, partial(self._open, name, create))

    async def create_partitioned(self, name: TopicName, partitions: int) -> None:
        """Make a partitioned topic; `AlreadyExists` if there is one, or a plain topic."""
        async with self.topics.alone_with_partitions(name):
            if name in self.topics:
                raise AlreadyExists(f"{name} exists already and is not partitioned")
            await self.namespaces.require(name.namespace_name)
            await self.catalogue.create_partitioned(name, Partitioned(partitions))

    async def exists(self, name: TopicName) -> bool:
        """Whether there is such a topic, partitioned or not, loaded or not."""
        return (
            name in self.topics
            or await self.catalogue.exists(name)
            or await self.catalogue.partitions(name) > 0
        )

    async def _open(self, name: TopicName, create: bool) -> Topic | NonPersistentTopic:
        await self._check_name(name)
        await self.policies.load(name)
        # Whether a partition exists was decided with its parent.
        create = name.partition >= 0 or (create and self.settings.allow_auto_topic_creation)
        if create and not name.is_persistent:
            return NonPersistentTopic(
                name, self.limits, self.policies, self.engine.clock, self.engine.tasks
            )
        if create and not await self.catalogue.exists(name):
            await self._check_topics(name.namespace_name)
        topic = None
        if name.is_persistent:
            topic = await Topic.open(
                name, self.engine, create, self.limits, self.policies, self.topics.drop
            )
        if topic is None:
            raise TopicMissing(f"{name} does not exist and may not be created automatically")
        return topic

    async def _check_topics(self, namespace: str) -> None:
        limit = self.settings.max_topics_per_namespace
        if 0 < limit <= len(await self.catalogue.topics(namespace)):
            raise NotAllowed(f"{namespace} has its {limit} topics (maxTopicsPerNamespace)")

    async def _check_name(self, name: TopicName) -> None:
        """Refuse what may not be loaded here under this name."""
        settings = self.settings
        allowed = (
            settings.enable_persistent_topics
            if name.is_persistent
            else settings.enable_non_persistent_topics
        )
        if not allowed:
            raise NotAllowed(f"{name.domain} topics are switched off on this broker")
        await self.namespaces.require(name.namespace_name)
        if not await self.ownership.owns(name):
            raise NotReady(f"{name} is not served by this broker; look it up again")
        partitions = await self.catalogue.partitions(name)
        if name.partition >= partitions and name.partition >= 0:
            missing = TopicMissing if partitions else NotAllowed
            raise missing(f"{name} is no partition: {name.base} has {partitions}")
        if name.partition < 0 < partitions:
            raise NotAllowed(f"{name} is partitioned: use one of its {partitions} partitions")

    async def partitions(self, name: TopicName, create: bool) -> int:
        """What PARTITIONED_METADATA answers; 0 for a topic without partitions."""
        await self.namespaces.require(name.namespace_name)
        partitions = await self.catalogue.partitions(name)
        if name.partition >= 0:
            partitions, exists = 0, name.partition < partitions
        else:
            exists = partitions > 0
        if exists or name in self.topics or await self.catalogue.exists(name):
            return partitions
        settings = self.settings
        if not (create and settings.allow_auto_topic_creation):
            raise TopicMissing(f"{name} does not exist")
        if settings.allow_auto_topic_creation_type is TopicType.PARTITIONED and (
            name.partition < 0 and not name.local.endswith(("-DLQ", "-RETRY"))
        ):
            with suppress(AlreadyExists):  # somebody else was faster
                await self.create_partitioned(name, settings.default_num_partitions)
            return await self.catalogue.partitions(name)
        return 0

    async def names(self, namespace: str, persistent: bool, volatile: bool) -> list[str]:
        """Topics of a namespace: stored ones, and loaded ones that are not stored."""
        found: list[TopicName] = []
        if persistent:
            found += await self.catalogue.topics(namespace)
        if volatile:
            found += [
                topic.name
                for topic in self.topics
                if not topic.name.is_persistent and topic.name.namespace_name == namespace
            ]
        return [str(name) for name in sorted(found) if not name.is_system]
