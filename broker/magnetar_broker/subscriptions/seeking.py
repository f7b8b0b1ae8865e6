"""The target of a seek: the entry to continue with, and which of its messages are wanted."""

from magnetar_broker.compaction.topic_compaction import TopicCompaction
from magnetar_broker.subscriptions.batch_masks import unacked_mask
from magnetar_broker.subscriptions.finding import first_since
from magnetar_proto.ids import MessageId
from magnetar_storage.log.log import Log

Target = tuple[int, int | None]
"""An offset, and the mask of the messages that are wanted of that entry; None for all."""


async def target_of(
    log: Log, compaction: TopicCompaction | None, position: MessageId, ack_set: tuple[int, ...]
) -> Target:
    """Return the place of a message or, if the log does not have it, of the next one.

    With `compaction` a message below its horizon is looked up among the compacted entries.
    `ack_set` applies only to the entry that `position` names, not to one that follows it.
    """
    if position.is_latest:
        return log.end, None
    if compaction is None:
        offset = log.seek(position.ledger, position.entry)
    else:
        offset = await compaction.offset_at(position)
    exact = log.offset_of(position.ledger, position.entry) == offset
    return offset, unacked_mask(log, offset, ack_set) if ack_set and exact else None


async def target_since(log: Log, timestamp_ms: int, compacted: bool) -> Target:
    """Return the first message published at or after a time."""
    offset = await first_since(log, timestamp_ms)
    # Compacted entries are not searched by time: if all of the log is wanted, some of what only
    # compacted data has may be wanted too, so reading begins with all of it.
    return (0 if compacted and offset <= log.first_offset else offset), None
