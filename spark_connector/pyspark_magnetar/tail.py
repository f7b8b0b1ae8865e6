"""The first and the last entry of each partition of a topic."""

import time
from collections.abc import Mapping

import magnetar
from magnetar.concurrency import gather_all
from pyspark_magnetar.offsets import Position

REFRESH_S = 10.0
"""New partitions are noticed within this time."""
FIRST_ENTRY_S = 30.0


class DataLoss(magnetar.MagnetarError):
    """Messages that the query still has to read were deleted."""


class Tail:
    """Asks for the last ids of all partitions, over readers that receive nothing."""

    def __init__(self, client: magnetar.Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._readers: dict[str, magnetar.EntryReader] = {}
        self._refreshed_s = float("-inf")

    async def last_positions(self) -> dict[str, Position]:
        """The last entry of each partition; (-1, -1) where nothing can be read."""
        now_s = time.monotonic()
        if now_s - self._refreshed_s > REFRESH_S:
            for partition in await self._client.partitions(self._topic):
                if partition not in self._readers:
                    self._readers[partition] = await self._client.entry_reader(
                        partition, magnetar.LATEST, queue_size=0
                    )
            self._refreshed_s = now_s
        last = await gather_all(reader.last_message_id() for reader in self._readers.values())
        return {
            partition: (message_id.ledger, message_id.entry)
            for partition, message_id in zip(self._readers, last, strict=True)
        }

    async def first_positions(self, last: Mapping[str, Position]) -> dict[str, Position]:
        """The position before the first entry of each partition in `last`."""
        found = await gather_all(
            self._before_first(partition) for partition, end in last.items() if end[1] >= 0
        )
        return {**dict.fromkeys(last, (-1, -1)), **dict(found)}

    async def _before_first(self, partition: str) -> tuple[str, Position]:
        async with await self._client.entry_reader(
            partition, magnetar.EARLIEST, queue_size=1
        ) as reader:
            first = (await reader.receive_entries(1, FIRST_ENTRY_S))[0]
        return partition, (first.ledger, first.entry - 1)


def require_kept(topic: str, read: Position, last: Position) -> None:
    """DataLoss when the topic ends before what was already read: it is not the same topic."""
    if last[1] >= 0 and last < read:
        raise DataLoss(
            f"{topic} ends at {last[0]}:{last[1]}, but the query has read {read[0]}:{read[1]}: the "
            "topic was deleted and recreated; start the query with a new checkpoint"
        )
