"""Creates topics and namespaces: by use, where that is allowed, or by the admin API."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from magnetar_broker.base.errors import AlreadyExists, BrokerError, NotAllowed, TopicNotFound
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.config import Settings
from magnetar_broker.names.catalogue import Catalogue, Partitioned
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.deletion.namespace_deletion import Deletion
from magnetar_broker.names.namespaces import Namespace, Namespaces
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.policies.policy import PolicyValues
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import AUTO_TOPIC_CREATION, MAX_TOPICS
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import ABSENT
from magnetar_storage.log.log_record import LogRecord

NEVER_PARTITIONED = ("-DLQ", "-RETRY")
"""Endings of dead letter and retry topics, which clients name; use never partitions them."""


@dataclass
class Creation:
    """Creates topics and namespaces; one per broker."""

    settings: Settings
    """The settings that are in effect now."""
    runtime: NamesRuntime
    namespaces: Namespaces
    catalogue: Catalogue
    policies: Policies
    topic_host: TopicHost
    locks: TopicLocks
    events: TopicEvents
    counts: TopicCounts
    deletion: Deletion

    # Namespaces ---------------------------------------------------------------------------

    async def namespace(self, name: NamespaceName, new: Namespace, policies: PolicyValues) -> None:
        """Create a namespace with its policies; durable on return.

        A crash, or a metadata store that fails, leaves both or none: policies without their
        namespace would apply to a later one of this name.  `AlreadyExists`, `TenantNotFound`,
        `LimitReached`.
        """

        async def store() -> None:
            if policies:
                await self.policies.set(str(name), policies)  # no topic has to apply them yet
            await self.namespaces.create(name, new)

        await self.deletion.create_namespace(str(name), store)

    # By use ------------------------------------------------------------------------

    async def check_name(self, name: TopicName) -> None:
        """Raise the refusal if a topic of this name cannot be opened on this broker."""
        settings = self.settings
        allowed = (
            settings.enable_persistent_topics
            if name.is_persistent
            else settings.enable_non_persistent_topics
        )
        if not allowed:
            raise NotAllowed(
                f"{name.domain} topics are disabled on this broker: see enablePersistentTopics and "
                "enableNonPersistentTopics"
            )
        await self.namespaces.require(name.namespace_name)
        self.deletion.pending.check(name)
        partitions = await self.catalogue.partitions(name)
        if name.partition >= partitions and name.partition >= 0:
            raise await self._no_partition(name, partitions)
        if name.partition < 0 < partitions:
            raise NotAllowed(f"{name} is partitioned: use one of its {partitions} partitions")

    async def _no_partition(self, name: TopicName, partitions: int) -> BrokerError:
        """Return the refusal of a partition whose number is too high for its topic."""
        if partitions:
            return TopicNotFound(
                f"partition {name} does not exist: {name.base} has {partitions} partitions"
            )
        await self.policies.load(name)
        # Some clients wait for a topic that is missing, and end at what is not allowed.
        # promise[without if self.may_create(name) else TopicNotFound]: a deleted topic is missing,
        #   partitioned or not
        refusal = NotAllowed if self.may_create(name) else TopicNotFound
        return refusal(
            f"{name} does not exist; create {name.base} with partitions: it was deleted, or never "
            "had any"
        )

    @asynccontextmanager
    async def by_use(self, name: TopicName, wanted: bool) -> AsyncIterator[bool]:
        """Hold open the decision whether the caller creates a topic: it does if this yields True.

        The caller opens the topic within the block.  `wanted` asks for creation; policies and
        limits decide.  The caller holds the topic's lock, has checked the name and loaded the
        policies.
        """
        if name.partition >= 0:  # whether it exists was decided with its parent
            yield True
        elif not (wanted and self.may_create(name)):
            yield False
        elif not name.is_persistent or await self.catalogue.exists(name):
            yield True
        else:
            async with self._room(name, 1), self._listed(name):
                yield True

    def may_create(self, name: TopicName) -> bool:
        """Return whether a client may create a topic by using it."""
        rule = self.policies.of_namespace(AUTO_TOPIC_CREATION, name.namespace_name).value
        return rule.allowed or name.is_system

    def _room(self, name: TopicName, topics: int) -> AbstractAsyncContextManager[None]:
        if name.is_persistent and not name.is_system:
            self.runtime.space.check()  # promise: no topic is created on a disk without room
        limit = self.policies.of_namespace(MAX_TOPICS, name.namespace_name).value
        # Limits are for what users store: non-persistent topics store nothing, and the broker's
        # own topics must not fail because a namespace is full.
        if name.is_system or not name.is_persistent:
            limit = 0
        return self.counts.room(name.namespace_name, topics, limit)

    async def partitions(self, name: TopicName, create: bool) -> int:
        """Return the number of partitions for PARTITIONED_METADATA; 0 if not partitioned."""
        await self.namespaces.require(name.namespace_name)
        await self.deletion.topics.settle(name)
        partitions = await self.catalogue.partitions(name)
        if name.partition >= 0:
            create = create and partitions == 0  # there are no further ones
            partitions, exists = 0, name.partition < partitions
        else:
            exists = partitions > 0
        if exists or self.topic_host.is_loaded(name) or await self.catalogue.exists(name):
            return partitions
        await self.policies.load(name)
        if not (create and self.may_create(name)):
            raise TopicNotFound(
                f"topic {name} does not exist: create it, or enable autoTopicCreation"
            )
        rule = self.policies.of_namespace(AUTO_TOPIC_CREATION, name.namespace_name).value
        if not rule.partitioned or name.partition >= 0 or name.is_system:
            return 0
        if name.local.endswith(NEVER_PARTITIONED):
            return 0
        limit = self.settings.max_num_partitions_per_partitioned_topic or rule.partitions
        with suppress(AlreadyExists):  # another request has created it
            await self.partitioned(name, Partitioned(min(rule.partitions, limit)))
        return await self.catalogue.partitions(name)

    # By request -----------------------------------------------------------------------------

    async def plain(self, name: TopicName, properties: dict[str, str]) -> None:
        """Create a persistent topic without partitions; durable on return."""
        await self.deletion.topics.settle(name)
        async with self.locks.held(name):
            await self.check_name(name)
            await self.policies.load(name)
            if (
                name.partition >= 0
                or self.topic_host.is_loaded(name)
                or await self.catalogue.exists(name)
            ):
                raise AlreadyExists(f"topic {name} already exists")
            async with self._room(name, 1):
                now_ms = self.runtime.clock.now_ms()
                record = LogRecord(properties=properties, created_ms=now_ms)
                async with self._listed(name):
                    await self.runtime.metadata.put(topic_key(name), record.encode(), ABSENT)

    async def partitioned(self, name: TopicName, new: Partitioned) -> None:
        """Create a partitioned topic; `AlreadyExists` if there is one, or a plain topic."""
        await self.deletion.topics.settle(name)
        async with self.locks.family_held(name):
            await self.namespaces.require(name.namespace_name)
            self.deletion.pending.check(name)
            await self.policies.load(name)
            if self.topic_host.is_loaded(name):
                raise AlreadyExists(f"{name} already exists and is not partitioned")
            async with self._room(name, new.partitions), self._listed(name):
                created = replace(new, created_ms=self.runtime.clock.now_ms())
                await self.catalogue.create_partitioned(name, created)

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Add partitions to a partitioned topic; durable on return.

        The new partitions get the subscriptions of the first one, so that nothing that is published
        to them is missed.  The caller has checked that `partitions` exceeds the present number.
        """
        await self.deletion.topics.settle(name)
        async with self.locks.family_held(name):
            await self.namespaces.require(name.namespace_name)
            self.deletion.pending.check(name)
            await self.policies.load(name)
            present = await self.catalogue.partitions(name)
            if not present:
                raise AlreadyExists(f"{name} is not a partitioned topic")
            if partitions <= present:
                return
            async with self._room(name, partitions - present):
                if name.is_persistent:
                    new = [name.with_partition(index) for index in range(present, partitions)]
                    await self._copy_subscriptions(name.with_partition(0), new)
                async with self._listed(name, present):
                    await self.catalogue.grow(name, partitions)

    @asynccontextmanager
    async def _listed(self, name: TopicName, present: int = 0) -> AsyncIterator[None]:
        """Run the body, which creates a topic or adds partitions to it, then notify listeners.

        Listeners are notified of what exists then, also if the body failed: it may have been
        stored all the same, or could not be opened.
        """
        try:
            yield
        except (StorageError, BrokerError):
            await self._notify(name, present)
            raise
        await self._notify(name, present)

    async def _notify(self, name: TopicName, present: int) -> None:
        if not name.is_persistent:
            return
        partitions = await self.catalogue.partitions(name)
        for index in range(present, partitions):
            self.events.notify(name.with_partition(index), True)
        if not partitions and await self.catalogue.exists(name):
            self.events.notify(name, True)

    async def _copy_subscriptions(self, first: TopicName, new: list[TopicName]) -> None:
        subscriptions = await self.topic_host.subscriptions_of(first)

        async def subscribe(partition: TopicName) -> None:
            await self.topic_host.subscribe_unlisted(partition, subscriptions)

        await for_each(self.runtime, new if subscriptions else (), subscribe)
