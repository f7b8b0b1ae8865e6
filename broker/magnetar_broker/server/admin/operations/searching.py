"""Finding messages of one topic by key or property.

A search reads a bounded range and is continued from where it ended.  The messages of
a batch are found one by one; an encrypted batch, or a chunk of a message, only as a whole entry.
"""

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import loaded
from magnetar_broker.server.admin.operations.reading import MAX_ENTRY_BYTES
from magnetar_broker.server.admin.operations.shown_message import text_of
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import each_of_batch
from magnetar_proto.compression import decompress
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadBatch, BadCompression, RemoteError
from magnetar_proto.names import TopicName
from magnetar_proto.wire import encode_varint
from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.runtime.execution import Clock, yield_turn

READ_ENTRIES, READ_BYTES = 100, 1 << 20
"""The most entries, and bytes, of one read."""
TURN_MESSAGES, TURN_BYTES = 500, 1 << 20
"""The messages that are decoded, and the stored and inflated bytes, after which others run."""
MOST_MESSAGES, MOST_BYTES = 200_000, 256 << 20
"""The limits of one search, counted in the same way."""
FOUND_BYTES = 8 << 20
"""The most bytes of one answer; the first message found is always included."""
MAX_BATCH_BYTES = 16 << 20
MAX_BATCH_MESSAGES = 50_000
"""The most messages of a batch that is searched; larger batches count as unreadable."""
KEY_TAG = b"\x32"
"""The tag of field 6 of the metadata, partition_key."""

Place = tuple[int, int, int]
"""A ledger, an entry, and an index in the batch."""
Message = tuple[int, int, int, bytes, bytes, int, str | None]
"""Ledger, entry, index in the batch or -1, metadata as those of a single message, payload or its
beginning, size of the whole payload, and why it could not be inflated, if so."""
Filter = tuple[str | None, str | None, str | None]
"""A key, the name of a property and its value; None matches any."""
Found = tuple[int, int, list[Message], Place | None]
"""The number of entries searched; the number of those that cannot be searched; the messages; and
the place to continue from, None at the end of the topic."""


async def search(
    broker: Broker,
    name: TopicName,
    start: Place,
    wanted: Filter,
    most_scanned: int,
    most_found: int,
    preview: int | None,
) -> Found:
    """Return the messages from `start` on that the filter matches, at most `most_found`.

    Each payload is inflated, and cut after `preview` bytes; if `preview` is None, it is whole and
    as stored.
    """
    log = (await loaded(broker, name)).log
    offset, index = log.seek(*start[:2]), start[2]
    if log.offset_of(*start[:2]) != offset:
        index = 0
    looking = Looking(broker.engine.clock, wanted, most_found, preview)
    while not looking.ended and looking.scanned < most_scanned:
        # Entries can be deleted while others run.
        if offset < log.first_offset:
            offset, index = log.first_offset, 0
        if offset >= log.visible_end:
            break
        try:
            count = min(READ_ENTRIES, most_scanned - looking.scanned, log.visible_end - offset)
            run = await log.entries.read(offset, count, READ_BYTES)
        except (Corrupt, NoSegment) as error:
            offset, index = log.entries.behind_damage(offset, error), 0
            looking.unreadable += 1
            continue
        if not run.payloads:
            offset = log.visible_end
            break
        places = [log.position(run.first + number) for number in range(len(run.payloads))]
        if run.first != offset:
            index = 0
        for number, entry in enumerate(run.payloads):
            offset = run.first + number
            if offset not in log.hidden:
                following = await looking.at(places[number], bytes(entry), index)
                if following is not None:
                    return looking.answer((*places[number], following))
            offset, index = offset + 1, 0
            if looking.ended:
                break
    offset = max(offset, log.first_offset)
    return looking.answer(None if offset >= log.visible_end else (*log.position(offset), 0))


class Looking:
    """One search: the messages found, and the work done."""

    def __init__(self, clock: Clock, wanted: Filter, most_found: int, preview: int | None) -> None:
        self.scanned = self.unreadable = 0
        self._clock, self._wanted = clock, wanted
        self._most_found, self._preview = most_found, preview
        self._found: list[Message] = []
        self._size = 0
        self._messages = self._bytes = 0
        self._turn_messages = self._turn_bytes = 0

    @property
    def ended(self) -> bool:
        """Whether enough messages were found, or enough work done."""
        return (
            len(self._found) >= self._most_found
            or self._messages >= MOST_MESSAGES
            or self._bytes >= MOST_BYTES
        )

    def answer(self, following: Place | None) -> Found:
        """Return the messages found, with the place to continue from."""
        return self.scanned, self.unreadable, self._found, following

    async def at(self, place: tuple[int, int], entry: bytes, first: int) -> int | None:
        """Search an entry from an index on; return the index to continue from, None at its end."""
        found, size = len(self._found), self._size
        if not first:
            self.scanned += 1
        try:
            following = await self._look(place, entry, first)
        except (RemoteError, ValueError):  # ValueError is raised for text that no field takes
            del self._found[found:]
            self._size = size
            self.unreadable += 1
            return None
        if following == 0:
            self.scanned -= 1
        return following

    async def _look(self, place: tuple[int, int], entry: bytes, first: int) -> int | None:
        metadata, at = parse_metadata(entry)
        await self._did(1, len(entry))
        if metadata.HasField("marker_type"):
            return None
        if metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys:
            return await self._look_in_batch(place, metadata, entry[at:], first)
        if first or not _matches(metadata, self._wanted):
            return None
        payload, why = entry[at:], None
        if self._preview is not None and not metadata.encryption_keys:
            kind, size = metadata.compression, metadata.uncompressed_size
            try:
                payload = decompress(kind, payload, size, MAX_ENTRY_BYTES)
            except BadCompression as error:
                why = str(error)
            await self._did(0, len(payload))
        return None if self._take(place, -1, metadata, payload, why) else 0

    async def _look_in_batch(
        self, place: tuple[int, int], metadata: pb.MessageMetadata, body: bytes, first: int
    ) -> int | None:
        count, size = metadata.num_messages_in_batch, metadata.uncompressed_size
        if count > MAX_BATCH_MESSAGES:
            raise BadBatch(f"{count} messages: batches of up to {MAX_BATCH_MESSAGES} are searched")
        body = decompress(metadata.compression, body, size, MAX_BATCH_BYTES)
        await self._did(0, len(body))
        for index, (single, payload) in enumerate(each_of_batch(body, count)):
            if index > first and self.ended:  # promise: a search stops at its limit within a batch
                return index
            await self._did(1, 0)
            if index < first or single.compacted_out or not _matches(single, self._wanted):
                continue
            if not self._take(place, index, _alone(metadata, single), payload, None):
                return index
        return None

    def _take(
        self,
        place: tuple[int, int],
        index: int,
        metadata: pb.MessageMetadata,
        payload: bytes,
        why: str | None,
    ) -> bool:
        """Add a message to the answer; return False if it has no room."""
        head, size = metadata.SerializeToString(), len(payload)
        if self._preview is not None:
            payload = payload[: self._preview]
        more = len(head) + len(payload)
        if self._found and self._size + more > FOUND_BYTES:
            return False
        self._found.append((*place, index, head, payload, size, why))
        self._size += more
        return True

    async def _did(self, messages: int, size: int) -> None:
        """Count work, and let other tasks run each time enough of it is done."""
        self._messages += messages
        self._bytes += size
        self._turn_messages += messages
        self._turn_bytes += size
        if self._turn_messages >= TURN_MESSAGES or self._turn_bytes >= TURN_BYTES:
            self._turn_messages = self._turn_bytes = 0
            await yield_turn(self._clock)  # promise: a search of large batches yields to others


def _alone(batch: pb.MessageMetadata, single: pb.SingleMessageMetadata) -> pb.MessageMetadata:
    """Return the metadata of a message of a batch as if it had been sent by itself."""
    metadata = pb.MessageMetadata(
        producer_name=text_of(batch.producer_name),
        sequence_id=single.sequence_id if single.HasField("sequence_id") else batch.sequence_id,
        publish_time=batch.publish_time,
        properties=single.properties,
    )
    if single.HasField("partition_key"):
        # As bytes, because no field can be set to text that is not UTF-8.
        key: object = single.partition_key
        # promise[without key if isinstance(key, bytes) else]: the key of a message may be bytes
        written = key if isinstance(key, bytes) else str(key).encode()
        metadata.MergeFromString(KEY_TAG + encode_varint(len(written)) + written)
    for field in ("event_time", "partition_key_b64_encoded", "ordering_key",
                  "null_value", "null_partition_key"):  # fmt: skip
        if single.HasField(field):
            setattr(metadata, field, getattr(single, field))
    if batch.HasField("schema_version"):
        metadata.schema_version = batch.schema_version
    return metadata


def _matches(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, wanted: Filter) -> bool:
    key, name, value = wanted
    has_key = metadata.HasField("partition_key")
    if key is not None and (not has_key or text_of(metadata.partition_key) != key):
        return False
    if name is None:
        return True
    # promise[without and (value is None or text_of(one.value) == value)]: a search compares the
    #   value of a property
    return any(
        text_of(one.key) == name and (value is None or text_of(one.value) == value)
        for one in metadata.properties
    )
