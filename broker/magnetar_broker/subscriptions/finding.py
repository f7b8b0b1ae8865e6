"""Finds messages in a log: the last one, and the first one since a time."""

from magnetar_proto.broker_metadata import stored_time
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadMetadata
from magnetar_proto.ids import MessageId
from magnetar_storage.log.log import Log


async def first_since(log: Log, timestamp_ms: int, known: int = 0) -> int:
    """Return the offset of the first entry published at or after a time; the end without one.

    That is by the broker's time of entries that have it.  It is looked for from `known` on if an
    entry before that is only in a store of objects.
    """
    is_slow = log.first_offset < log.end and log.is_remote(log.first_offset)
    low = known if is_slow else 0
    return await log.entries.first_where(lambda entry: _time_of(entry) >= timestamp_ms, low)


async def last_message_id(log: Log, partition: int) -> MessageId:
    """Return the id of the last deliverable entry, with its last message's index if batched."""
    # Not the last entry: messages of open transactions, and markers, are delivered to nobody.
    offset = log.last_visible()
    if offset < log.first_offset:
        return MessageId(-1, -1, -1, partition)
    ledger, entry = log.position(offset)
    run = log.tail.get(offset, 1, 1) or await log.entries.read(offset, 1, 1)
    return MessageId(ledger, entry, _last_index(run.payloads[0]), partition)


def _time_of(entry: bytes) -> int:
    """Return the time of an entry; entries with unreadable metadata count as oldest."""
    try:
        return stored_time(entry)
    except BadMetadata:
        return 0


def _last_index(entry: bytes) -> int:
    """Return the index of a batch's last message; -1 if the entry is not a batch."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return -1
    # A batch of one message has an index, too: the id that its client knows ends with 0.
    batched = metadata.HasField("num_messages_in_batch")
    return metadata.num_messages_in_batch - 1 if batched else -1
