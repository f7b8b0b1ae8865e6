"""Deleting topics and partitioned topics."""

from collections.abc import Awaitable, Callable

from magnetar_broker.base.errors import AlreadyExists, InUse, NotAllowed, TopicNotFound
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.deletion.pending_deletions import PendingDeletions
from magnetar_broker.names.topic_host import Condition, TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError

DeleteAttached = Callable[[str | TopicName], Awaitable[None]]
"""Deletes the policies and schemas of a topic or namespace; repeating it is safe."""


class TopicDeletion:
    """Deletes topics; one per broker.  Topics with clients are deleted only by `force`."""

    def __init__(
        self,
        runtime: Runtime,
        catalogue: Catalogue,
        topic_host: TopicHost,
        locks: TopicLocks,
        pending: PendingDeletions,
        delete_attached: DeleteAttached,
    ) -> None:
        self._runtime = runtime
        self._catalogue = catalogue
        self._topic_host = topic_host
        self._locks = locks
        self._pending = pending
        self._delete_attached = delete_attached

    async def settle(self, topic: TopicName) -> None:
        """Continue an interrupted deletion of a topic, or of the topic of this partition."""
        for name in self._pending.of_topic(topic):
            await self.resume(TopicName.parse(name))

    async def resume(self, name: TopicName) -> None:
        """Continue an interrupted deletion of exactly this name."""
        async with self._locks.held_with_partitions(name):
            await self._finish(name)

    async def delete(self, name: TopicName, force: bool) -> None:
        """Delete an unpartitioned topic, or the content of a partition; durable on return.

        `TopicNotFound`, `AlreadyExists` if it is partitioned, `InUse` if clients are connected.
        """
        _check_kept(name)
        await self.settle(name)
        async with self._locks.held_with_partitions(name):
            if name.partition < 0 and await self._catalogue.partitions(name):
                raise AlreadyExists(f"{name} is a partitioned topic: delete it as such")
            if not await self._exists(name):
                raise TopicNotFound(f"topic {name} does not exist")
            await self._delete(name, _condition(force))

    async def delete_partitioned(self, name: TopicName, force: bool) -> None:
        """Delete a partitioned topic with all its partitions; durable on return."""
        _check_kept(name)
        await self.settle(name)
        async with self._locks.held_with_partitions(name):
            if not await self._catalogue.partitions(name):
                if await self._exists(name):
                    raise AlreadyExists(f"{name} is not partitioned: delete it as a topic")
                raise TopicNotFound(f"partitioned topic {name} does not exist")
            await self._delete(name, _condition(force))

    async def delete_loaded(self, name: TopicName, condition: Condition) -> None:
        """Delete a topic or partition if it is loaded, and meets the condition after it was locked.

        `InUse` if it does not meet it.
        """
        await self.settle(name)
        async with self._locks.held_with_partitions(name):
            if self._topic_host.is_loaded(name):
                await self._delete(name, condition)

    async def erase(self, name: TopicName) -> None:
        """Delete the log of a topic whose namespace is being deleted."""
        async with self._locks.held(name):
            await self._topic_host.erase(name)

    async def _exists(self, name: TopicName) -> bool:
        if 0 <= name.partition < await self._catalogue.partitions(name):
            return True
        return self._topic_host.is_loaded(name) or await self._catalogue.exists(name)

    async def _delete(self, name: TopicName, condition: Condition) -> None:
        """Delete a topic; the caller holds the lock."""
        # Clients are disconnected before the mark is stored: whatever producers have published by
        # then, they knew no deletion; nothing is acknowledged to them and deleted afterwards.
        members = await self._members(name)
        if not await self._topic_host.evict(members, condition):
            raise InUse(
                f"{name} has connected producers or consumers: close them, or delete it by force"
            )
        try:
            await self._pending.begin(str(name))
        except StorageError:
            await for_each(self._runtime, members, self._topic_host.unload)
            raise
        await self._finish(name)

    async def _members(self, name: TopicName) -> list[TopicName]:
        """Return the partitions of a partitioned topic, or the topic itself."""
        partitions = 0 if name.partition >= 0 else await self._catalogue.partitions(name)
        return [name.with_partition(index) for index in range(partitions)] or [name]

    async def _finish(self, name: TopicName) -> None:
        """Finish a deletion; the caller holds the lock."""
        if not await self._pending.is_begun(str(name)):
            return
        if name.partition >= 0:
            await self._topic_host.erase(name)
            await self._pending.end(str(name))
            return  # a partition exists, and is listed, as long as its topic
        members = await self._members(name)
        if self._pending.listed(str(name)) is None:
            self._pending.remember(str(name), members)
        family = await self._catalogue.family(name) if name.is_persistent else []
        await for_each(self._runtime, sorted({*members, *family}), self._topic_host.erase)
        # promise: the policies and the schema of a topic go with it
        await self._delete_attached(name)
        await self._catalogue.delete_partitioned(name)
        self._pending.announce(str(name))
        await self._pending.end(str(name))


def _check_kept(name: TopicName) -> None:
    """Raise `NotAllowed` for a topic of transaction coordinators."""
    # A new coordinator would count from 0 again, and its transactions be taken for earlier ones.
    if name.base == COORDINATORS:
        raise NotAllowed(f"{name} has the state of transactions: it cannot be deleted")


def _condition(force: bool) -> Condition:
    return Condition.ANYWAY if force else Condition.UNUSED
