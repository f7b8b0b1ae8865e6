"""The directory of names: the tenants, namespaces and topics, and what applies to them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from magnetar_broker.authorization.rules import AccessRequest
from magnetar_broker.base.errors import (
    AlreadyExists,
    NamespaceNotFound,
    NotReady,
    TopicNotFound,
    being_unloaded,
)
from magnetar_broker.base.metadata_keys import CLUSTERS, RESOURCE_GROUPS
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.base.transaction_ids import COORDINATORS, FIRST_COORDINATORS
from magnetar_broker.config import Settings
from magnetar_broker.names.authorizer import Authorizer
from magnetar_broker.names.bundle_changes import BundleChanges
from magnetar_broker.names.catalogue import Catalogue, Partitioned
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.creation import Creation
from magnetar_broker.names.deletion.inactive import InactiveDeletion
from magnetar_broker.names.deletion.namespace_deletion import (
    DELETING,
    RETRY_SECONDS,
    Deletion,
)
from magnetar_broker.names.dynamic_settings import DynamicSettings
from magnetar_broker.names.interface import Listing
from magnetar_broker.names.lookup_limit import LookupLimit
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.opening import Opening
from magnetar_broker.names.permissions import Permissions
from magnetar_broker.names.policy_enforcement import Enforcement, namespace_of
from magnetar_broker.names.stored_names import StoredNames
from magnetar_broker.names.stored_objects import StoredObjects
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_lists import TopicList, TopicLists
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.placement.ownership import Owner, Ownership
from magnetar_broker.placement.stored_bundles import StoredBundles, stored_bundles
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.service import Schemas, schema_limits
from magnetar_broker.schemas.types import Schema
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import NamespaceName, TopicName

SYSTEM_NAMESPACES = ("public/default", "pulsar/system")


class Directory:
    """The directory of names: one for all processes that serve topics.

    It implements `Names` for topics in its own process, and reaches loaded topics only through
    `topic_host`.
    """

    def __init__(
        self,
        settings: Settings,
        runtime: NamesRuntime,
        ownership: Ownership,
        topic_host: TopicHost,
        policies: Policies,
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.ownership = ownership
        self.topic_host = topic_host
        self.policies = policies
        bundles = stored_bundles(settings, runtime.metadata, len(ownership.processes))
        self._begin_namespaces(bundles)
        self._begin_topics(bundles)
        self.dynamic = DynamicSettings(settings, runtime, self._configure)
        self._lookups = LookupLimit(settings.max_concurrent_lookup_request)
        self.jobs = PeriodicJobs(runtime)
        self.jobs.every(RETRY_SECONDS, DELETING, self.deletion.resume)

    def _begin_namespaces(self, bundles: StoredBundles) -> None:
        """Create what keeps tenants, namespaces and clusters, and what they allow."""
        settings, runtime, policies = self.settings, self.runtime, self.policies
        self.tenants = Tenants(runtime.metadata, settings.cluster_name, settings.max_tenants)
        self.namespaces = Namespaces(
            runtime.metadata,
            self.tenants,
            settings.allow_auto_namespace_creation,
            bundles,
            self.ownership.forget,
            settings.max_namespaces_per_tenant,
        )
        self.permissions = Permissions(self.namespaces)
        self.authorizer = Authorizer(
            settings, self.tenants, self.namespaces, policies, self.topic_host
        )
        self.tenants.changed = self.authorizer.tenant_changed
        self.namespaces.changed = self.authorizer.changed
        self.clusters = StoredObjects(runtime.metadata, CLUSTERS, "cluster", settings.cluster_name)
        self.resource_groups = StoredObjects(runtime.metadata, RESOURCE_GROUPS, "resource group")

    def _begin_topics(self, bundles: StoredBundles) -> None:
        """Create what lists, creates, opens, moves and deletes topics."""
        settings, runtime, policies = self.settings, self.runtime, self.policies
        ownership, topic_host = self.ownership, self.topic_host
        self.catalogue = Catalogue(runtime.metadata)
        self.schemas = Schemas(runtime.metadata, runtime.clock, policies, schema_limits(settings))
        self.events = TopicEvents()
        self.lists = TopicLists(
            self.events, StoredNames(runtime.metadata, self.catalogue).of, runtime.clock
        )
        self.locks = TopicLocks(runtime.clock)
        self.deletion = Deletion(
            runtime,
            self.tenants,
            self.namespaces,
            self.catalogue,
            topic_host,
            self.locks,
            self.events,
            self._delete_belongings,
        )
        self.creation = Creation(
            settings,
            runtime,
            self.namespaces,
            self.catalogue,
            policies,
            topic_host,
            self.locks,
            self.events,
            TopicCounts(self.catalogue, self.events, runtime.clock),
            self.deletion,
        )
        self.opening = Opening(
            runtime.clock,
            self.creation,
            ownership,
            topic_host,
            self.locks,
            settings.max_concurrent_topic_load_request,
        )
        self.bundles = BundleChanges(
            bundles, ownership, topic_host, self.locks, self.opening, runtime
        )
        self.enforcement = Enforcement(
            policies,
            topic_host,
            self.locks,
            runtime.clock,
            self._require,
            self.catalogue.partitions,
            self.authorizer.changed,
        )
        self._inactive = InactiveDeletion(
            self.catalogue,
            topic_host,
            self.locks,
            self.deletion.topics,
            settings.broker_delete_inactive_partitioned_topic_metadata_enabled,
        )

    async def _configure(self, settings: Settings, changed: Mapping[str, str]) -> None:
        """Follow settings that were changed while the broker runs; all processes do on return."""
        self.settings = self.creation.settings = settings
        self.tenants.limit = settings.max_tenants
        self.namespaces.limit = settings.max_namespaces_per_tenant
        self.policies.change_settings(settings)
        try:
            await self.topic_host.configure(changed)
        finally:  # even if a topic fails: former super-users have lost their rights by now
            await self.authorizer.settings_changed(settings)

    # Start and stop ---------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether names can be used, and topics are loaded."""
        return self.opening.serving

    async def start(self) -> None:
        """Load the names that are kept in memory, and serve."""
        await self.load()
        await self.serve()

    async def load(self) -> None:
        """Load the names that are kept in memory; no topic needs to be reached."""
        await self.namespaces.start()
        await self.reload()

    async def serve(self) -> None:
        """Continue interrupted deletions, create missing default namespaces, and serve."""
        await self.deletion.resume_at_start()
        for name in (*SYSTEM_NAMESPACES, *self.settings.bootstrap_namespaces):
            await self.namespaces.ensure(NamespaceName.parse(name))
            # Own the bundle before the first client comes: it may open a topic without a lookup.
            await self.bundles.owners_of(name)
        if self.settings.transaction_coordinator_enabled:
            with suppress(AlreadyExists):
                await self.creation.partitioned(COORDINATORS, Partitioned(FIRST_COORDINATORS))
        self.opening.serving = True
        self.jobs.start()

    async def reload(self) -> None:
        """Replace everything that is kept in memory by what the store has.

        For a process that becomes the directory: another one may have changed the store since this
        one has read it.  No name is used, created, changed or deleted meanwhile.
        """
        self.namespaces.forget()
        self.catalogue.forget()
        self.creation.counts.forget()
        self.schemas.forget()
        self.authorizer.forget()
        await self.policies.reload()
        await self.dynamic.load()
        await self.deletion.reload()
        # promise: a process that becomes the directory knows the stored owners
        await self.ownership.reload()
        await self.bundles.reload()
        await self.lists.reload()

    async def stop(self) -> None:
        """Close all topics; topics that are being loaded are closed before this returns."""
        self.jobs.stop()
        await self.opening.stop()

    def lookup(self) -> LookupLimit:
        """Return a context that counts a lookup; it raises `TooManyRequests` at the limit."""
        return self._lookups

    async def authorize(self, roles: Sequence[str], accesses: Sequence[AccessRequest]) -> None:
        """Check that each role has every permission asked for; raise `NotAuthorized` if not."""
        await self.authorizer.authorize(roles, accesses)

    # Topics -----------------------------------------------------------------------------

    async def open(self, name: TopicName, create: bool) -> None:
        """Load a topic in the process that owns it; see `Opening.open`."""
        await self.opening.open(name, create)

    async def locate(self, name: TopicName, authoritative: bool) -> Owner:
        """Return the owner of a topic, which need not exist; its namespace must, or is created."""
        await self.namespaces.require(name.namespace_name)
        return await self.ownership.locate(name, authoritative)

    async def partitions(self, name: TopicName, create: bool) -> int:
        """Return the number of partitions; 0 for a topic without.  See `Creation.partitions`."""
        return await self.creation.partitions(name, create)

    async def delete_inactive(self, name: TopicName) -> None:
        """Delete a loaded topic if it is inactive even after it was locked."""
        await self._inactive.delete(name)

    async def exists(self, name: TopicName) -> bool:
        """Return whether the topic exists, partitioned or not, loaded or not."""
        return (
            self.topic_host.is_loaded(name)
            or await self.catalogue.exists(name)
            or await self.catalogue.partitions(name) > 0
        )

    async def parts(self, name: TopicName) -> list[TopicName]:
        """Return the partitions of a partitioned topic, or the topic itself if it has none."""
        count = 0 if name.partition >= 0 else await self.catalogue.partitions(name)
        return [name.with_partition(index) for index in range(count)] or [name]

    async def _require(self, subject: Subject) -> None:
        """Raise the refusal for a topic or namespace that does not exist or is being deleted."""
        namespace = namespace_of(subject)
        if self.namespaces.is_closed(namespace):
            raise NotReady(f"namespace {namespace} is being created or deleted: retry")
        if isinstance(subject, str):
            if not await self.namespaces.has(namespace):
                raise NamespaceNotFound(f"namespace {namespace} does not exist: create it first")
        else:
            self.deletion.pending.check(subject)
            if not await self.exists(subject):
                raise TopicNotFound(f"topic {subject} does not exist: check the name, or create it")

    # Lists ------------------------------------------------------------------------------

    async def topics(
        self, namespace: str, pattern: TopicPattern | None, persistent: bool, non_persistent: bool
    ) -> Listing:
        """Return the stored topics of a namespace, the loaded non-persistent ones, or both."""
        if not persistent:
            names = _matching(self._volatile(namespace), pattern)
            return Listing(names, topics_hash(names))
        stored = await self.lists.of(namespace, pattern)
        if not non_persistent:
            return Listing(stored.names, stored.hash)
        names = sorted([*stored.names, *_matching(self._volatile(namespace), pattern)])
        return Listing(names, topics_hash(names))

    async def watch(self, namespace: str, pattern: TopicPattern) -> TopicList:
        """Return a namespace's stored topics; the caller adds a watcher, or removes it, at once."""
        return await self.lists.of(namespace, pattern)

    async def names(self, namespace: str, persistent: bool, non_persistent: bool) -> list[str]:
        """Return the topics of a namespace: loaded non-persistent ones, then stored ones."""
        stored = (await self.lists.of(namespace)).names if persistent else []
        return [*(self._volatile(namespace) if non_persistent else ()), *stored]

    def _volatile(self, namespace: str) -> list[str]:
        """Return the loaded non-persistent topics of a namespace, sorted."""
        return sorted(
            str(name)
            for name in self.topic_host.loaded(namespace)
            if not (name.is_persistent or name.is_system)
        )

    # Schemas ----------------------------------------------------------------------------

    async def schema(self, name: TopicName, number: int | None) -> Registered | None:
        """Return a version of a topic's schema, or the latest one; None if it does not exist."""
        return await self.schemas.get(name, number)

    async def producer_schema(self, name: TopicName, schema: Schema | None) -> bytes:
        """Return the version that a producer of a loaded topic publishes; see `Schemas`."""
        return await self.schemas.for_producer(name, schema, partial(self._check_loaded, name))

    async def check_consumer_schema(self, name: TopicName, schema: Schema, idle: bool) -> None:
        """Make sure that a consumer can read a loaded topic.  See `Schemas.for_consumer`."""
        check_loaded = partial(self._check_loaded, name)
        await self.schemas.for_consumer(name, schema, idle, check_loaded)

    def _check_loaded(self, name: TopicName) -> None:
        """Raise if a topic is not loaded: it is unloaded before its schema is deleted."""
        if not self.topic_host.is_loaded(name):  # promise: a topic that is deleted gets no schema
            raise being_unloaded(name)

    # Belongings of a deleted name -------------------------------------------------------

    async def _delete_belongings(self, subject: Subject) -> None:
        """Delete the policies, schemas and permissions of a deleted topic or namespace."""
        await self.enforcement.delete(subject)
        if not isinstance(subject, str) and not self.namespaces.is_closed(subject.namespace_name):
            with suppress(NamespaceNotFound):
                # promise: a topic that is created again has no former permissions
                await self.permissions.delete_topic(subject)
        if isinstance(subject, str):
            await self.schemas.delete_namespace(subject)
        elif not await self._has_twin(subject):
            await self.schemas.delete(subject)

    async def _has_twin(self, name: TopicName) -> bool:
        """Return whether the topic exists in the other domain: the two share one schema."""
        domain = "non-persistent" if name.is_persistent else "persistent"
        twin = TopicName(domain, name.tenant, name.namespace, name.local)
        if self.topic_host.is_loaded(twin) or await self.catalogue.partitions(twin):
            return True
        return twin.is_persistent and await self.catalogue.exists(twin)


def _matching(names: Iterable[str], pattern: TopicPattern | None) -> list[str]:
    return [name for name in names if pattern is None or pattern.matches(name)]
