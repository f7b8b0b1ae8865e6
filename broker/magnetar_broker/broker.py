"""The broker: composes its parts, and opens topics for sessions and HTTP handlers."""

from collections import Counter
from itertools import count

from magnetar_broker.base.errors import NamespaceMissing, NotReady, TopicMissing
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.config import Settings
from magnetar_broker.lifetime.orphans import present_segments, sweep_and_log
from magnetar_broker.limits.lookup_limit import LookupLimit
from magnetar_broker.limits.shared_limits import shared_limits
from magnetar_broker.limits.topic_limits import topic_limits
from magnetar_broker.maintenance import Maintenance
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.creation import Creation
from magnetar_broker.names.deletion import DELETING, RETRY_SECONDS, Deletion
from magnetar_broker.names.inactive import InactiveDeletion
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.opening import Opening
from magnetar_broker.names.ownership import Ownership
from magnetar_broker.names.policy_enforcement import Enforcement, namespace_of
from magnetar_broker.names.stored_names import StoredNames
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_lists import TopicLists
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.publishing.publish_budget import PublishBudget
from magnetar_broker.schemas.service import Schemas, schema_limits
from magnetar_broker.topic.inactive import INACTIVE, Inactive
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_broker.topic.residence import LocalResidence
from magnetar_broker.watchdog import Watchdog
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.log.engine import Engine

SYSTEM_NAMESPACES = ("public/default", "pulsar/system")


class Broker:
    """One per process.  `start` it before clients are served, `close` it once at the end."""

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
        self.shared_limits = shared_limits(settings)
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
        self.topics = Topics(engine)
        self._inactive = Inactive(settings, engine.clock, self.policies, self.topics)
        self.residence = LocalResidence(
            engine, self.topics, self._inactive, self.limits, self.shared_limits, self.policies
        )
        self.locks = TopicLocks(engine.clock)
        self.deletion = Deletion(
            engine,
            self.tenants,
            self.namespaces,
            self.catalogue,
            self.residence,
            self.locks,
            self.events,
            self._delete_belongings,
        )
        self.creation = Creation(
            settings,
            engine,
            self.namespaces,
            self.catalogue,
            self.policies,
            self.residence,
            self.locks,
            self.events,
            TopicCounts(self.catalogue, self.events, engine.clock),
            self.deletion,
        )
        self.opening = Opening(
            engine.clock,
            self.creation,
            ownership,
            self.residence,
            self.locks,
            settings.max_concurrent_topic_load_request,
        )
        self.enforcement = Enforcement(
            self.policies,
            self.residence,
            self.locks,
            engine.clock,
            self._require,
            self.catalogue.partitions,
        )
        self._started_ms = engine.clock.now_ms()
        self.watchdog = Watchdog(engine, lambda: iter(self.topics))
        self.jobs = PeriodicJobs(engine)
        self._register_jobs()
        self._names = count()
        self._lookups = LookupLimit(settings.max_concurrent_lookup_request)

    def _register_jobs(self) -> None:
        """Register every periodic job."""
        settings = self.settings
        self.jobs.every(RETRY_SECONDS, DELETING, self.deletion.resume)
        inactive = InactiveDeletion(
            self.catalogue,
            self.residence,
            self.locks,
            self.deletion.topics,
            settings.broker_delete_inactive_partitioned_topic_metadata_enabled,
        )
        seconds = settings.broker_delete_inactive_topics_frequency_seconds
        self.jobs.every(seconds, INACTIVE, lambda: self._inactive.look(inactive.delete))
        Maintenance(settings, self.engine, lambda: iter(self.topics)).register(self.jobs)

    async def start(self) -> None:
        """Load what is kept in memory and create missing namespaces; clients can connect then."""
        # Listed before the first topic can create a segment: only these can be orphans.
        present = await present_segments(self.engine)
        await self.namespaces.start()
        await self.policies.start()
        await self.deletion.start()
        for name in (*SYSTEM_NAMESPACES, *self.settings.bootstrap_namespaces):
            await self.namespaces.ensure(NamespaceName.parse(name))
        self.ready = self.opening.serving = True
        self.jobs.start()
        self.watchdog.start()
        self.engine.tasks.spawn(sweep_and_log(self.engine, present, lambda: not self.ready))

    async def close(self) -> None:
        """Disconnect every producer and consumer, and seal every topic."""
        self.ready = False
        self.jobs.stop()
        self.watchdog.stop()
        await self.opening.stop()
        await self.topics.close()

    def connected(self, host: str) -> None:
        """A client connected; its handshake is refused if that exceeds a limit."""
        self.connections += 1
        self.connections_total += 1
        self._connections_from[host] += 1

    def disconnected(self, host: str) -> None:
        """A client's connection ended."""
        self.connections -= 1
        self._connections_from[host] -= 1
        if not self._connections_from[host]:
            del self._connections_from[host]

    def connections_from(self, host: str) -> int:
        """The number of open connections from one address."""
        return self._connections_from[host]

    def producer_name(self) -> str:
        """A name for a producer without one; unique in this cluster."""
        return f"{self.settings.cluster_name}-{self._started_ms}-{next(self._names)}"

    def lookup(self) -> LookupLimit:
        """A context that counts a lookup; entering it raises `TooManyRequests` at the limit."""
        return self._lookups

    # Topics -----------------------------------------------------------------------

    async def topic(self, name: TopicName, create: bool) -> AnyTopic:
        """The topic, loaded; created if `create` is set and policies allow it.

        Raises the `BrokerError` that PRODUCER and SUBSCRIBE are answered with.
        """
        while (topic := self.topics.get(name)) is None:
            await self.opening.open(name, create)
        return topic

    async def exists(self, name: TopicName) -> bool:
        """Whether the topic exists, partitioned or not, loaded or not."""
        return (
            self.residence.is_loaded(name)
            or await self.catalogue.exists(name)
            or await self.catalogue.partitions(name) > 0
        )

    async def _require(self, subject: Subject) -> None:
        """Raise the refusal for a topic or namespace that does not exist or is being deleted."""
        namespace = namespace_of(subject)
        if self.namespaces.is_closed(namespace):
            raise NotReady(f"namespace {namespace} is being created or deleted: retry")
        if isinstance(subject, str):
            if not await self.namespaces.has(namespace):
                raise NamespaceMissing(f"namespace {namespace} does not exist: create it first")
        else:
            self.deletion.pending.check(subject)
            if not await self.exists(subject):
                raise TopicMissing(f"topic {subject} does not exist: check the name, or create it")

    async def partitions(self, name: TopicName, create: bool) -> int:
        """The number of partitions; 0 for a topic without.  See `Creation.partitions`."""
        return await self.creation.partitions(name, create)

    async def _delete_belongings(self, subject: Subject) -> None:
        """Delete the policies and schemas of a deleted topic or namespace."""
        await self.enforcement.delete(subject)
        if isinstance(subject, str):
            await self.schemas.delete_namespace(subject)
        elif not await self._has_twin(subject):
            await self.schemas.delete(subject)

    async def _has_twin(self, name: TopicName) -> bool:
        """Whether a topic of this name exists in the other domain: the two share one schema."""
        domain = "non-persistent" if name.is_persistent else "persistent"
        twin = TopicName(domain, name.tenant, name.namespace, name.local)
        if self.residence.is_loaded(twin) or await self.catalogue.partitions(twin):
            return True
        return twin.is_persistent and await self.catalogue.exists(twin)

    async def names(self, namespace: str, persistent: bool, non_persistent: bool) -> list[str]:
        """The topics of a namespace: persistent ones, and loaded non-persistent ones."""
        stored = (await self.lists.of(namespace)).names if persistent else []
        return [*(self.non_persistent_names(namespace) if non_persistent else ()), *stored]

    def non_persistent_names(self, namespace: str) -> list[str]:
        """The loaded non-persistent topics of a namespace, sorted."""
        return sorted(
            str(name)
            for name in self.residence.loaded(namespace)
            if not (name.is_persistent or name.is_system)
        )
