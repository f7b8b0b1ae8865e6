"""The topics that a task writes to: opening, keeping and closing their producers."""

import logging
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar.base.errors import IncompatibleSchema
from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Encoded
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.sink.partition_sender import PartitionSender
from pyspark_magnetar.sink.write_options import Producing

logger = logging.getLogger(__name__)

MAX_IDLE = 256
"""The most producers that a process keeps for its next tasks."""


@dataclass(frozen=True, slots=True)
class Sending:
    """The options of a producer other than its name and topic."""

    producing: Producing
    schema: SchemaInfo | None
    required: tuple[str, ...] = ()
    """The columns that cannot be null."""

    async def open(self, client: magnetar.Client, topic: str, **more: Any) -> magnetar.Producer:
        """Open a producer for this topic, with `more` options."""
        schema = None if self.schema is None else Encoded(self.schema)
        options = self.producing.options() | {"schema": schema}
        try:
            return await client.producer(topic, **options, **more)
        except IncompatibleSchema as error:
            if self.required:
                error.add_note(
                    f"{', '.join(self.required)} cannot be null, so a topic whose messages lack "
                    "such a column refuses it; Spark takes a column of a literal for one: make it "
                    "nullable, as by IF(id >= 0, 'literal', NULL) with another column id"
                )
            raise


class Topic(ABC):
    """A topic, with a sender for each partition that is written to."""

    def __init__(self) -> None:
        self.senders: dict[int, PartitionSender] = {}

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions; 1 if the topic is not partitioned."""

    def sender(self, partition: int) -> PartitionSender:
        """Return the sender of a partition, which is opened on first use."""
        found = self.senders.get(partition)
        if found is None:
            found = self.senders[partition] = self._open(partition)
        return found

    @abstractmethod
    def _open(self, partition: int) -> PartitionSender: ...

    async def settle(self) -> None:
        """Wait until everything sent is stored; raise the first error."""
        await gather_all(sender.settle() for sender in self.senders.values())

    @abstractmethod
    def leave(self) -> None:
        """Release the topic at the end of the task, after `settle`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the producers that the task still has; raise errors of sending."""


class SharedTopic(Topic):
    """A topic written by an unnamed producer, which the process keeps for its next tasks.

    Spark reuses its Python processes, and opening a producer takes a round trip.
    """

    def __init__(
        self,
        bridge: Bridge,
        name: str,
        sending: Sending,
        txn: magnetar.Transaction | None = None,
    ) -> None:
        """With `txn`, everything sent belongs to this transaction."""
        super().__init__()
        self._key = (name, sending)
        self._bridge = bridge
        self._txn = txn
        self._idle = _idle_of(bridge, os.getpid())
        producer = self._idle.pop(self._key, None)
        if producer is None:
            producer = bridge.run(sending.open(bridge.client, name))
        self._producer = producer

    @property
    def partitions(self) -> int:
        return len(self._producer.partitions)

    def _open(self, partition: int) -> PartitionSender:
        return PartitionSender(self._producer.partitions[partition], self._txn)

    def leave(self) -> None:
        self._idle[self._key] = self._producer
        while len(self._idle) > MAX_IDLE:
            _, longest_unused = self._idle.popitem(last=False)
            self._bridge.run(_close_unused(longest_unused))

    async def close(self) -> None:
        if self._idle.get(self._key) is not self._producer:  # else the next tasks have it
            await self._producer.close()


async def _close_unused(producer: magnetar.Producer[bytes]) -> None:
    try:
        await producer.close()
    except magnetar.MagnetarError as error:
        # Everything sent with it is stored: the task that closes it has nothing to repeat.
        logger.warning("%s: an unused producer was not closed: %s", producer.topic, error)


Idle = OrderedDict[tuple[str, Sending], magnetar.Producer[bytes]]


@lru_cache(maxsize=16)
def _idle_of(bridge: Bridge, pid: int) -> Idle:
    """Return the producers that this process keeps on a bridge: one task at a time uses them."""
    return OrderedDict()
