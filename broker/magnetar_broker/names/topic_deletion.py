"""Deleting topics and partitioned topics."""

from collections.abc import Awaitable, Callable

from magnetar_broker.base.errors import AlreadyExists, InUse, TopicMissing
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.base.parallel import for_each
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.pending_deletions import PendingDeletions
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log

DeleteAttached = Callable[[str | TopicName], Awaitable[None]]
"""Deletes the policies and schemas of a topic or namespace; repeating it is safe."""


class TopicDeletion:
    """One per broker.  Topics with connected clients are deleted only by `force`."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        topics: Topics,
        pending: PendingDeletions,
        delete_attached: DeleteAttached,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._topics = topics
        self._pending = pending
        self._delete_attached = delete_attached

    async def settle(self, topic: TopicName) -> None:
        """Continue an interrupted deletion of a topic, or of the topic of this partition."""
        for name in self._pending.of_topic(topic):
            await self.resume(TopicName.parse(name))

    async def resume(self, name: TopicName) -> None:
        """Continue an interrupted deletion of exactly this name."""
        async with self._topics.locks.held_with_partitions(name):
            await self._finish(name, [])

    async def delete(self, name: TopicName, force: bool) -> None:
        """Delete a topic that is not partitioned, or the content of a partition; durable on return.

        `TopicMissing`, `AlreadyExists` if it is partitioned, `InUse` if clients are connected.
        """
        await self.settle(name)
        async with self._topics.locks.held_with_partitions(name):
            if name.partition < 0 and await self._catalogue.partitions(name):
                raise AlreadyExists(f"{name} is a partitioned topic: delete it as such")
            if not await self._exists(name):
                raise TopicMissing(f"topic {name} does not exist")
            await self._delete(name, _anyway if force else _unused)

    async def delete_partitioned(self, name: TopicName, force: bool) -> None:
        """Delete a partitioned topic with all its partitions; durable on return."""
        await self.settle(name)
        async with self._topics.locks.held_with_partitions(name):
            if not await self._catalogue.partitions(name):
                if await self._exists(name):
                    raise AlreadyExists(f"{name} is not partitioned: delete it as a topic")
                raise TopicMissing(f"partitioned topic {name} does not exist")
            await self._delete(name, _anyway if force else _unused)

    async def delete_inactive(self, name: TopicName, only_if: Callable[[AnyTopic], bool]) -> None:
        """Delete a loaded topic or partition if `only_if` is true once it is locked."""
        await self.settle(name)
        async with self._topics.locks.held_with_partitions(name):
            if name in self._topics:
                await self._delete(name, only_if)

    async def erase(self, name: TopicName) -> None:
        """Delete the log of a topic whose namespace is being deleted."""
        async with self._topics.locks.held(name):
            for topic in self._topics.evict([name], _anyway) or ():
                await topic.delete()
            if name.is_persistent:
                await self._remove_log(name)

    async def _exists(self, name: TopicName) -> bool:
        if 0 <= name.partition < await self._catalogue.partitions(name):
            return True
        return name in self._topics or await self._catalogue.exists(name)

    async def _delete(self, name: TopicName, only_if: Callable[[AnyTopic], bool]) -> None:
        """The caller holds the lock."""
        # Clients are disconnected before the mark is stored: whatever producers have published by
        # then, they knew no deletion; nothing is acknowledged to them and deleted afterwards.
        evicted = self._topics.evict(await self._members(name), only_if)
        if evicted is None:
            raise InUse(
                f"{name} has connected producers or consumers: close them, or delete it by force"
            )
        try:
            await self._pending.begin(str(name))
        except StorageError:
            await for_each(self._engine, evicted, _closing)
            raise
        await self._finish(name, evicted)

    async def _members(self, name: TopicName) -> list[TopicName]:
        """The partitions of a partitioned topic, or the topic itself."""
        partitions = 0 if name.partition >= 0 else await self._catalogue.partitions(name)
        return [name.with_partition(index) for index in range(partitions)] or [name]

    async def _finish(self, name: TopicName, evicted: list[AnyTopic]) -> None:
        """The caller holds the lock; `evicted` are the topics that were loaded."""
        if not await self._pending.is_begun(str(name)):
            return
        await for_each(self._engine, evicted, _deleting)
        if name.partition >= 0:
            await self._remove_log(name)
            await self._pending.end(str(name))
            return  # a partition exists, and is listed, as long as its topic
        if self._pending.listed(str(name)) is None:
            self._pending.remember(str(name), await self._members(name))
        if name.is_persistent:
            await for_each(self._engine, await self._catalogue.family(name), self._remove_log)
        await self._delete_attached(name)
        await self._catalogue.delete_partitioned(name)
        self._pending.announce(str(name))
        await self._pending.end(str(name))

    async def _remove_log(self, name: TopicName) -> None:
        await Log.remove(topic_key(name), self._engine)


def _anyway(topic: AnyTopic) -> bool:
    return True


def _unused(topic: AnyTopic) -> bool:
    return not topic.in_use


async def _closing(topic: AnyTopic) -> None:
    await topic.close()


async def _deleting(topic: AnyTopic) -> None:
    await topic.delete()
