"""The broker: its parts, and the rules for loading and creating a topic."""

from collections import Counter
from functools import partial
from itertools import count
from typing import TypeVar

from magnetar_broker.chores import Chores
from magnetar_broker.config import Settings
from magnetar_broker.enforcement import Enforcement, namespace_of
from magnetar_broker.errors import (
    AlreadyExists,
    NamespaceMissing,
    NotReady,
    TopicMissing,
)
from magnetar_broker.lifetime.inactive import INACTIVE, Inactive
from magnetar_broker.limits import topic_limits
from magnetar_broker.lookup_limit import LookupLimit
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.creation import Creation
from magnetar_broker.names.deletion import DELETING, RETRY_SECONDS, Deletion
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.stored_names import StoredNames
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_lists import TopicLists
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.orphans import present_segments, sweep_and_tell
from magnetar_broker.ownership import Ownership
from magnetar_broker.policies import Policies, Subject
from magnetar_broker.publishing.publish_budget import PublishBudget
from magnetar_broker.schemas.service import Schemas, schema_limits
from magnetar_broker.topic import Topic
from magnetar_broker.topics import AnyTopic, Topics
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
        self.lists = TopicLists(
            self.events, StoredNames(engine.metadata, self.catalogue).of, engine.clock
        )
        self.publishes = PublishBudget(settings.max_message_publish_buffer_size_in_mb << 20)
        self.ready = False
        self.connections = self.connections_total = 0
        self._connections_from: Counter[str] = Counter()
        self.topics = Topics(engine, settings.max_concurrent_topic_load_request)
        self.deletion = Deletion(
            engine,
            self.tenants,
            self.namespaces,
            self.catalogue,
            self.topics,
            self.events,
            self._forget,
        )
        self.creation = Creation(
            settings,
            engine,
            self.namespaces,
            self.catalogue,
            self.policies,
            self.topics,
            self.events,
            TopicCounts(self.catalogue, self.events, engine.clock),
            self.deletion,
        )
        self.enforcement = Enforcement(
            self.policies, self.topics, engine, self._require, self.catalogue.partitions
        )
        self._started_ms = engine.clock.now_ms()
        self.watchdog = Watchdog(engine, lambda: iter(self.topics))
        self.upkeep = Upkeep(engine)
        self._enlist()
        self._names = count()
        self._lookups = LookupLimit(settings.max_concurrent_lookup_request)

    def _enlist(self) -> None:
        """Give upkeep its jobs."""
        settings, clock = self.settings, self.engine.clock
        self.upkeep.every(RETRY_SECONDS, DELETING, self.deletion.resume)
        inactive = Inactive(
            settings, clock, self.policies, self.catalogue, self.topics, self.deletion
        )
        seconds = settings.broker_delete_inactive_topics_frequency_seconds
        self.upkeep.every(seconds, INACTIVE, inactive.look)
        Chores(settings, self.engine, lambda: iter(self.topics)).enlist(self.upkeep)

    async def start(self) -> None:
        """Make the namespaces that must exist; clients may come afterwards."""
        present = await present_segments(self.engine)
        await self.namespaces.start()
        await self.policies.start()
        await self.deletion.start()
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

    def lookup(self) -> LookupLimit:
        """Counts a lookup while it lasts; `TooManyRequests` above the limit."""
        return self._lookups

    # Topics -----------------------------------------------------------------------

    async def topic(self, name: TopicName, create: bool) -> AnyTopic:
        """The topic, loaded; created when `create` and the settings allow it.

        Raises the refusal that PRODUCER and SUBSCRIBE answer with.
        """
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        await self.deletion.settle(name)
        return await self.topics.load(name, partial(self._open, name, create))

    async def make_volatile(self, name: TopicName) -> None:
        """Have a non-persistent topic; `AlreadyExists` if there is one."""
        if name in self.topics:
            raise AlreadyExists("This topic already exists")
        await self.topics.load(name, partial(self._made, name))

    async def _made(self, name: TopicName) -> AnyTopic:
        await self.creation.check_name(name)
        await self.policies.load(name)
        topic = await self._opened(name, create=True)
        assert topic is not None
        return topic

    async def exists(self, name: TopicName) -> bool:
        """Whether there is such a topic, partitioned or not, loaded or not."""
        return (
            name in self.topics
            or await self.catalogue.exists(name)
            or await self.catalogue.partitions(name) > 0
        )

    async def _require(self, subject: Subject) -> None:
        """The refusal for a topic or namespace that does not exist or is being deleted."""
        namespace = namespace_of(subject)
        if self.namespaces.is_closed(namespace):
            raise NotReady(f"namespace {namespace} is being deleted; try again")
        if isinstance(subject, str):
            if not await self.namespaces.has(namespace):
                raise NamespaceMissing(f"Namespace {namespace} does not exist")
        else:
            self.deletion.check(subject)
            if not await self.exists(subject):
                raise TopicMissing(f"Topic {subject} not found")

    async def partitions(self, name: TopicName, create: bool) -> int:
        """What PARTITIONED_METADATA answers; 0 for a topic without partitions."""
        return await self.creation.partitions(name, create)

    async def _open(self, name: TopicName, create: bool) -> AnyTopic:
        await self.creation.check_name(name)
        if not await self.ownership.owns(name):
            raise NotReady(f"{name} is not served by this broker; look it up again")
        await self.policies.load(name)
        async with self.creation.by_use(name, create) as may_create:
            topic = await self._opened(name, may_create)
            if topic is None:
                raise TopicMissing(f"{name} does not exist and may not be created automatically")
            return topic

    async def _opened(self, name: TopicName, create: bool) -> AnyTopic | None:
        engine = self.engine
        if name.is_persistent:
            return await Topic.open(
                name, engine, create, self.limits, self.policies, self.topics.drop
            )
        if create:
            return NonPersistentTopic(name, self.limits, self.policies, engine.clock, engine.tasks)
        return None

    async def _forget(self, subject: Subject) -> None:
        """A topic or namespace is deleted: so is what it had besides."""
        await self.enforcement.forget(subject)
        if isinstance(subject, str):
            await self.schemas.delete_namespace(subject)
        elif not await self._has_twin(subject):
            await self.schemas.delete(subject)

    async def _has_twin(self, name: TopicName) -> bool:
        """Whether there is a topic of this name in the other domain: the two share a schema."""
        domain = "non-persistent" if name.is_persistent else "persistent"
        twin = TopicName(domain, name.tenant, name.namespace, name.local)
        if twin in self.topics or await self.catalogue.partitions(twin):
            return True
        return twin.is_persistent and await self.catalogue.exists(twin)

    async def names(self, namespace: str, persistent: bool, volatile: bool) -> list[str]:
        """Topics of a namespace: stored ones, and loaded ones that are not stored."""
        stored = (await self.lists.of(namespace)).names if persistent else []
        return [*(self.volatile_names(namespace) if volatile else ()), *stored]

    def volatile_names(self, namespace: str) -> list[str]:
        """Loaded topics of a namespace that are not stored, in order."""
        return sorted(
            str(topic.name)
            for topic in self.topics.of_namespace(namespace)
            if isinstance(topic, NonPersistentTopic) and not topic.name.is_system
        )
