"""A consumer of stored entries: batches are neither unpacked nor acknowledged in part."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from magnetar.base.closing import Closing
from magnetar.base.concurrency import gather_all
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.partition_consumer import PartitionConsumer
from magnetar.messages import Entry

_source_of = attrgetter("source")


class EntryConsumer(Closing):
    """Receives from a subscription; created by `Client.entry_consumer`."""

    def __init__(self, partitions: Sequence[PartitionConsumer[Entry]], inbox: Inbox[Entry]) -> None:
        self._partitions = partitions
        self._inbox = inbox

    async def receive_entries(
        self, max_entries: int = 1000, timeout_s: float | None = None
    ) -> list[Entry]:
        """Return at most `max_entries` entries; OperationTimeout if not one comes in time."""
        return await self._inbox.take(max_entries, timeout_s)

    def ack(self, entries: Iterable[Entry]) -> None:
        """Acknowledge whole entries."""
        for source, run in groupby(entries, _source_of):
            source.ack_entries(run)

    async def close(self) -> None:
        """Flush acknowledgements and close; the subscription stays at the broker."""
        await gather_all(partition.close() for partition in self._partitions)
