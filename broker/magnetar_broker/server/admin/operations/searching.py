"""Finding messages of one topic by key or property.

A search reads a bounded range and is continued from where it ended.  Messages of a batch are found
one by one; of an encrypted batch, and of a message in chunks, only the whole entry is.
"""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import loaded
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.compression import decompress
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadBatch, RemoteError
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.log.log import Log
from magnetar_storage.world.runtime import yield_turn

READ_ENTRIES, READ_BYTES = 100, 1 << 20
"""Of one read, after which others run."""
MOST_SCANNED = 100_000
"""Entries of one search."""
SCANNED_BYTES = 256 << 20
FOUND_BYTES = 8 << 20
"""Bytes of one answer; the first message is found whatever it has."""
MAX_BATCH_BYTES = 16 << 20
MAX_BATCH_MESSAGES = 50_000
"""Larger batches count as unreadable."""

Message = tuple[int, int, int, bytes, bytes]
"""Ledger, entry, index in the batch or -1, metadata of the message by itself, and payload."""
Filter = tuple[str | None, str | None, str | None]
"""A key, the name of a property and its value, each None for any."""


Found = tuple[int, int, list[Message], tuple[int, int] | None]
"""Entries that were read; of them, those that cannot be searched; the messages; and the entry to
continue from, None at the end of the topic."""


async def search(
    broker: Broker,
    name: TopicName,
    start: tuple[int, int],
    wanted: Filter,
    most_scanned: int,
    most_found: int,
) -> Found:
    """The messages from a position on that the filter matches."""
    log = (await loaded(broker, name)).log
    offset = max(log.seek(*start), log.first_offset)
    found: list[Message] = []
    scanned = unreadable = read = size = 0
    while offset < log.end and scanned < most_scanned and read < SCANNED_BYTES:
        count = min(READ_ENTRIES, most_scanned - scanned)
        try:
            run = await log.entries.read(offset, count, READ_BYTES)
        except (Corrupt, NoSegment) as error:
            offset = log.entries.behind_damage(offset, error)
            unreadable += 1
            continue
        if not run.payloads:
            offset = log.end
            break
        for at, entry in enumerate(run.payloads, run.first):
            offset = at + 1
            scanned += 1
            read += len(entry)
            try:
                matching = list(_matching(log, at, bytes(entry), wanted))
            except RemoteError:
                unreadable += 1
                continue
            more = sum(len(one[3]) + len(one[4]) for one in matching)
            if found and (len(found) + len(matching) > most_found or size + more > FOUND_BYTES):
                # Not part of a batch: the next search begins with all of it.
                return scanned - 1, unreadable, found, log.position(at)
            found += matching
            size += more
        await yield_turn(broker.engine.clock)
    return scanned, unreadable, found, None if offset >= log.end else log.position(offset)


def _matching(log: Log, offset: int, entry: bytes, wanted: Filter) -> Iterator[Message]:
    ledger, number = log.position(offset)
    metadata, at = parse_metadata(entry)
    if metadata.HasField("marker_type"):
        return
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        if _matches(metadata, wanted):
            yield ledger, number, -1, metadata.SerializeToString(), entry[at:]
        return
    if metadata.num_messages_in_batch > MAX_BATCH_MESSAGES:
        raise BadBatch(f"{metadata.num_messages_in_batch} messages: more than are searched")
    body = decompress(metadata.compression, entry[at:], metadata.uncompressed_size, MAX_BATCH_BYTES)
    batch = decode_batch(body, metadata.num_messages_in_batch)
    for index, (single, payload) in enumerate(batch):
        if not single.compacted_out and _matches(single, wanted):
            alone = _alone(metadata, single)
            yield ledger, number, index, alone.SerializeToString(), payload


def _alone(batch: pb.MessageMetadata, single: pb.SingleMessageMetadata) -> pb.MessageMetadata:
    """The metadata of a message of a batch as if it had been sent by itself."""
    metadata = pb.MessageMetadata(
        producer_name=batch.producer_name,
        sequence_id=single.sequence_id if single.HasField("sequence_id") else batch.sequence_id,
        publish_time=batch.publish_time,
        properties=single.properties,
    )
    for field in ("partition_key", "event_time", "partition_key_b64_encoded", "ordering_key",
                  "null_value", "null_partition_key"):  # fmt: skip
        if single.HasField(field):
            setattr(metadata, field, getattr(single, field))
    if batch.HasField("schema_version"):
        metadata.schema_version = batch.schema_version
    return metadata


def _matches(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, wanted: Filter) -> bool:
    key, name, value = wanted
    has_key = metadata.HasField("partition_key")
    if key is not None and (not has_key or metadata.partition_key != key):
        return False
    if name is None:
        return True
    return any(
        one.key == name and (value is None or one.value == value) for one in metadata.properties
    )
