"""The view that a query has of its topics: all entries, or the compacted ones."""

from dataclasses import dataclass

import magnetar


@dataclass(frozen=True, slots=True)
class View:
    """Opens readers of entries.

    In the compacted view any entry may be missing, because later messages have replaced those in
    it.  Therefore none of its gaps is a loss.  A topic that was compacted deletes no entry before
    it is compacted again, but it is not known whether a topic was ever compacted.
    """

    client: magnetar.Client
    compacted: bool = False

    async def reader(
        self,
        topic: str,
        start: magnetar.MessageId | int,
        *,
        inclusive: bool = False,
        queue_size: int,
        key_reader: magnetar.KeyReader | None = None,
    ) -> magnetar.EntryReader:
        """Open a reader of a partition, which must exist; the arguments are those of the client."""
        # promise[without read_compacted=self.compacted,]: the compacted view is asked for
        return await self.client.entry_reader(
            topic,
            start,
            inclusive=inclusive,
            queue_size=queue_size,
            key_reader=key_reader,
            read_compacted=self.compacted,
            create_topic=False,
        )
