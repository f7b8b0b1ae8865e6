"""Topics that are written exactly once: named producers, numbered rows, and a broker that skips
duplicates."""

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar.producing.partition_producer import PartitionProducer
from magnetar_proto.names import TopicName
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.sink.numbering import Numbering
from pyspark_magnetar.sink.partition_sender import Entry, PartitionSender
from pyspark_magnetar.sink.topics import Sending, Topic
from pyspark_magnetar.sink.waiting import when_free


class DeduplicationOff(magnetar.MagnetarError):
    """The broker keeps no sequence ids on this topic."""


class NumberedTopic(Topic):
    """A topic written by one producer per partition, whose name identifies the task.

    The producers are closed with the task: its next attempt, or the next batch, may run elsewhere,
    and only one producer at a time can have a name.
    """

    def __init__(
        self,
        bridge: Bridge,
        name: str,
        sending: Sending,
        numbering: Numbering,
        name_timeout_s: float,
    ) -> None:
        super().__init__()
        if TopicName.parse(name).domain != "persistent":
            raise ValueError(
                f"{name} is not persistent: the broker deduplicates nothing there, so use "
                "exactlyOnce=none"
            )
        self._bridge = bridge
        self._sending = sending
        self.numbering = numbering
        self._name_timeout_s = name_timeout_s
        self._names = bridge.run(bridge.client.partitions(name))
        self._producers: dict[int, magnetar.Producer[bytes]] = {}

    @property
    def partitions(self) -> int:
        return len(self._names)

    def prove(self, partition: int, first: Entry, sequence_id: int) -> None:
        """Send the first message alone, and check that the broker remembers its sequence id.

        DeduplicationOff if it does not.  Call this only while the broker does not know the name,
        as it never does without deduplication.
        """
        self._bridge.run(self._prove(partition, first, sequence_id))

    async def _prove(self, partition: int, first: Entry, sequence_id: int) -> None:
        sender = self.senders[partition]
        await sender.send([first])
        await sender.settle()
        await self._producers.pop(partition).close()
        sender.producer = await self._named(partition)
        # promise[!= -> >]: a broker that does not deduplicate is refused
        if sender.last_sequence_id != sequence_id:
            raise DeduplicationOff(
                f"exactlyOnce=dedup needs deduplication, which is off on "
                f"{self._names[partition]}: switch it on for the topic, its namespace or the "
                "broker, or use exactlyOnce=none; the first row of this task was stored"
            )

    def _open(self, partition: int) -> PartitionSender:
        return PartitionSender(self._bridge.run(self._named(partition)))

    async def _named(self, partition: int) -> PartitionProducer:
        """Open the producer of a partition; Busy if another one keeps the name for too long."""
        # An earlier attempt of this task is alive, or the broker has not noticed its end: which
        # rows it has stored is certain only once its producer is closed.
        opened = await when_free(
            lambda: self._sending.open(
                self._bridge.client,
                self._names[partition],
                name=self.numbering.producer_name,
            ),
            self._name_timeout_s,
            f"the name {self.numbering.producer_name}, which another producer has",
        )
        self._producers[partition] = opened
        return opened.partitions[0]

    def leave(self) -> None:
        self._bridge.run(self.close())

    async def close(self) -> None:
        await gather_all(producer.close() for producer in self._producers.values())
