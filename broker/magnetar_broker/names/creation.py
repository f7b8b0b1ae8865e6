"""How topics come to be: by being used, where that is allowed, or because somebody says so."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from magnetar_broker.compaction.rules import COMPACTION_CURSOR
from magnetar_broker.config import Settings
from magnetar_broker.errors import AlreadyExists, BrokerError, NotAllowed, TopicMissing
from magnetar_broker.metadata_keys import topic_key
from magnetar_broker.names.catalogue import Catalogue, Partitioned
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.deletion import Deletion
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.parallel import for_each
from magnetar_broker.policies import AUTO_TOPIC_CREATION, MAX_TOPICS, Policies
from magnetar_broker.topic import Topic
from magnetar_broker.topics import Topics
from magnetar_proto.names import TopicName
from magnetar_storage.cursor_log import CursorLog, read_cursors
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import ABSENT
from magnetar_storage.log import Engine, Log
from magnetar_storage.log_record import LogRecord

NEVER_PARTITIONED = ("-DLQ", "-RETRY")
"""Ends of names that clients make up for themselves; using one never makes partitions."""


@dataclass(frozen=True)
class Creation:
    """One per broker."""

    settings: Settings
    engine: Engine
    namespaces: Namespaces
    catalogue: Catalogue
    policies: Policies
    topics: Topics
    events: TopicEvents
    counts: TopicCounts
    deletion: Deletion

    # By being used ------------------------------------------------------------------------

    async def check_name(self, name: TopicName) -> None:
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
        self.deletion.check(name)
        partitions = await self.catalogue.partitions(name)
        if name.partition >= partitions and name.partition >= 0:
            missing = TopicMissing if partitions else NotAllowed
            raise missing(f"{name} is no partition: {name.base} has {partitions}")
        if name.partition < 0 < partitions:
            raise NotAllowed(f"{name} is partitioned: use one of its {partitions} partitions")

    @asynccontextmanager
    async def by_use(self, name: TopicName, wanted: bool) -> AsyncIterator[bool]:
        """Meanwhile the topic is opened, or made if this is true: `wanted`, and allowed.

        The caller is alone with it, its name was checked and its policies are loaded.
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
        """Whether using a topic creates it."""
        rule = self.policies.of(AUTO_TOPIC_CREATION, name.namespace_name).value
        return rule.allowed or name.is_system

    def _room(self, name: TopicName, topics: int) -> AbstractAsyncContextManager[None]:
        limit = self.policies.of(MAX_TOPICS, name.namespace_name).value
        if name.is_system or not name.is_persistent:
            limit = 0
        return self.counts.room(name.namespace_name, topics, limit)

    async def partitions(self, name: TopicName, create: bool) -> int:
        """What PARTITIONED_METADATA answers; 0 for a topic without partitions."""
        await self.namespaces.require(name.namespace_name)
        await self.deletion.settle(name)
        partitions = await self.catalogue.partitions(name)
        if name.partition >= 0:
            create = create and partitions == 0  # there are no further ones
            partitions, exists = 0, name.partition < partitions
        else:
            exists = partitions > 0
        if exists or name in self.topics or await self.catalogue.exists(name):
            return partitions
        await self.policies.load(name)
        if not (create and self.may_create(name)):
            raise TopicMissing(f"Topic {name} not found: it does not exist")
        rule = self.policies.of(AUTO_TOPIC_CREATION, name.namespace_name).value
        if not rule.partitioned or name.partition >= 0 or name.is_system:
            return 0
        if name.local.endswith(NEVER_PARTITIONED):
            return 0
        limit = self.settings.max_num_partitions_per_partitioned_topic or rule.partitions
        with suppress(AlreadyExists):  # somebody else was faster
            await self.partitioned(name, Partitioned(min(rule.partitions, limit)))
        return await self.catalogue.partitions(name)

    # Because somebody says so ---------------------------------------------------------------

    async def plain(self, name: TopicName, properties: dict[str, str]) -> None:
        """Make a persistent topic without partitions; durable on return."""
        await self.deletion.settle(name)
        async with self.topics.alone(name):
            await self.check_name(name)
            await self.policies.load(name)
            if name.partition >= 0 or name in self.topics or await self.catalogue.exists(name):
                raise AlreadyExists("This topic already exists")
            async with self._room(name, 1):
                fields = LogRecord(properties=properties).encode()
                async with self._listed(name):
                    await self.engine.metadata.put(topic_key(name), fields, ABSENT)

    async def partitioned(self, name: TopicName, new: Partitioned) -> None:
        """Make a partitioned topic; `AlreadyExists` if there is one, or a plain topic."""
        await self.deletion.settle(name)
        async with self.topics.alone_with_partitions(name):
            await self.namespaces.require(name.namespace_name)
            self.deletion.check(name)
            await self.policies.load(name)
            if name in self.topics:
                raise AlreadyExists(f"{name} exists already and is not partitioned")
            async with self._room(name, new.partitions), self._listed(name):
                await self.catalogue.create_partitioned(name, new)

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Give a partitioned topic more partitions; durable on return.

        The new ones have the subscriptions of the first one, so that nothing that is published
        to them is missed.  The caller has seen to it that there are to be more.
        """
        await self.deletion.settle(name)
        async with self.topics.alone_with_partitions(name):
            await self.namespaces.require(name.namespace_name)
            self.deletion.check(name)
            await self.policies.load(name)
            present = await self.catalogue.partitions(name)
            if not present:
                raise AlreadyExists(f"Topic {name} is not the partitioned topic.")
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
        """Meanwhile it is made, or has more than its `present` partitions.

        What is there then is told, even if this failed: it may have been stored all the same, or
        could not be opened.
        """
        try:
            yield
        except (StorageError, BrokerError):
            await self._tell(name, present)
            raise
        await self._tell(name, present)

    async def _tell(self, name: TopicName, present: int) -> None:
        if not name.is_persistent:
            return
        partitions = await self.catalogue.partitions(name)
        for index in range(present, partitions):
            self.events.tell(name.with_partition(index), True)
        if not partitions and await self.catalogue.exists(name):
            self.events.tell(name, True)

    async def _copy_subscriptions(self, first: TopicName, new: list[TopicName]) -> None:
        subscriptions = await self._subscriptions(first)

        async def subscribe(partition: TopicName) -> None:
            await self._subscribe(partition, subscriptions)

        await for_each(self.engine, new if subscriptions else (), subscribe)

    async def _subscriptions(self, name: TopicName) -> list[str]:
        """Names of a topic's durable subscriptions; nobody loads it meanwhile."""
        topic = self.topics.get(name)
        if isinstance(topic, Topic):
            found = list(topic.cursors.cursors)
        else:
            stored = await self.engine.metadata.get(topic_key(name))
            if stored is None:
                return []
            segment = LogRecord.decode(topic_key(name), stored.value).cursor_segment
            if segment is None:
                return []
            cursors = await read_cursors(self.engine.store, segment, {})
            found = [cursor.name for cursor in cursors.values()]
        return [name for name in found if name != COMPACTION_CURSOR]

    async def _subscribe(self, name: TopicName, subscriptions: list[str]) -> None:
        """Have a partition that nobody can use yet be subscribed to, from its beginning on."""
        log = await Log.open(topic_key(name), self.engine, create=True)
        assert log is not None
        cursors = await CursorLog.open(log)
        for subscription in subscriptions:
            if subscription not in cursors.cursors:
                await cursors.create(subscription, log.first_offset - 1, {})
        await cursors.close()
        await log.close()
