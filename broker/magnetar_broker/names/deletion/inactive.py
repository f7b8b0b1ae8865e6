"""Deletes topics that were found inactive (`inactiveTopicPolicies`)."""

import logging

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.deletion.topic_deletion import TopicDeletion
from magnetar_broker.names.topic_host import Condition, TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)


class InactiveDeletion:
    """Deletes inactive topics; one per broker."""

    def __init__(
        self,
        catalogue: Catalogue,
        topic_host: TopicHost,
        locks: TopicLocks,
        deletion: TopicDeletion,
        parents_too: bool,
    ) -> None:
        """`parents_too` deletes partitioned topics without partitions left."""
        self._catalogue = catalogue
        self._topic_host = topic_host
        self._locks = locks
        self._deletion = deletion
        self._parents_too = parents_too

    async def delete(self, name: TopicName) -> None:
        """Delete a loaded topic if it is inactive even after it was locked."""
        try:
            if name.is_persistent:
                await self._deletion.delete_loaded(name, Condition.INACTIVE)
            else:
                await self._unload(name)
            if not self._topic_host.is_loaded(name):
                logger.info("deleted inactive topic %s (inactiveTopicPolicies)", name)
                await self._delete_parent(name)
        except BrokerError as error:
            logger.info("inactive %s is not deleted: %s", name, error)

    async def _unload(self, name: TopicName) -> None:
        async with self._locks.held(name):
            if await self._topic_host.evict([name], Condition.INACTIVE):
                await self._topic_host.unload(name)

    async def _delete_parent(self, name: TopicName) -> None:
        """Delete a partitioned topic without partitions left, if the settings ask for it."""
        if name.partition < 0 or not self._parents_too:
            return
        for index in range(await self._catalogue.partitions(name)):
            partition = name.with_partition(index)
            if self._topic_host.is_loaded(partition) or await self._catalogue.exists(partition):
                return
        await self._deletion.delete_partitioned(name.base, force=False)
