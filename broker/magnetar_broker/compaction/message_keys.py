"""Reads the keys of an entry's messages, and removes messages that are compacted away."""

from hashlib import blake2b

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch, encode_batch
from magnetar_proto.compression import compress, decompress
from magnetar_proto.entries import encode_entry, message_start, parse_metadata, text_bytes
from magnetar_proto.errors import BadMetadata, RemoteError
from magnetar_storage.compacted.latest_keys import HASH_BYTES, Bits, Last, last

MAX_BATCH_BYTES = 128 << 20
"""The most bytes of an uncompressed batch that is compacted; a larger one is kept as it is."""

MAX_MESSAGES = 1 << 20
"""The most messages of an entry that is compacted; one that claims more is kept as it is."""

Batch = list[tuple[pb.SingleMessageMetadata, bytes]]


def slots_of(count: int) -> int:
    """Return how many numbers are assigned to an entry that claims to have `count` messages."""
    return count if 0 < count <= MAX_MESSAGES else 1


class Reader:
    """Reads entries in order, each with the number of its first message.

    Messages that certainly survive are added to `survivors` at once: those without a key, if they
    are retained, and entries that cannot be read, which stay as they are.
    """

    def __init__(self, survivors: Bits, retain_keyless: bool) -> None:
        self._survivors = survivors
        self._retain_keyless = retain_keyless
        self._chunks: dict[tuple[bytes, str], list[int]] = {}  # the chunks of incomplete messages
        self.chunked: dict[int, list[int]] = {}
        """The earlier chunks of each chunked message, by the number of its last chunk."""

    def look(self, entry: bytes, number: int, count: int) -> list[Last]:
        """Return the messages of an entry that have a key; `count` numbers are assigned to it."""
        try:
            metadata, at = parse_metadata(entry)
        except BadMetadata:
            self._keep(number, count)
            return []
        if metadata.HasField("marker_type"):
            return []
        if metadata.num_chunks_from_msg > 1:
            return self._look_at_chunk(metadata, number)
        if metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys:
            return self._look_into(metadata, entry[at:], number, count)
        empty = metadata.null_value or _size(metadata, len(entry) - at) == 0
        return self._found(metadata, number, empty)

    def _look_into(
        self, metadata: pb.MessageMetadata, payload: bytes, number: int, count: int
    ) -> list[Last]:
        try:
            batch = _batch_of(metadata, payload)
        except RemoteError:
            batch = []
        if len(batch) != count:  # a producer may claim a wrong number
            self._keep(number, count)
            return []
        found: list[Last] = []
        for index, (single, body) in enumerate(batch):
            if not single.compacted_out:
                found += self._found(single, number + index, single.null_value or not body)
        return found

    def _look_at_chunk(self, metadata: pb.MessageMetadata, number: int) -> list[Last]:
        """Handle a chunk: a chunked message is placed at its last chunk; the others follow it."""
        uuid = text_bytes(metadata, "producer_name"), metadata.uuid
        if metadata.chunk_id == 0:
            self._chunks[uuid] = []
        before = self._chunks.get(uuid)
        if before is None:
            return []  # the beginning is missing
        if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            before.append(number)
            return []
        del self._chunks[uuid]
        self.chunked[number] = before
        return self._found(metadata, number, False)

    def _found(
        self, metadata: pb.MessageMetadata | pb.SingleMessageMetadata, number: int, deletes: bool
    ) -> list[Last]:
        if not metadata.HasField("partition_key"):
            if self._retain_keyless:
                self._survivors.add(number)
            return []
        key = metadata.partition_key
        text = key if isinstance(key, bytes) else key.encode()  # a key need not be valid UTF-8
        return [last(blake2b(text, digest_size=HASH_BYTES).digest(), number, deletes)]

    def _keep(self, number: int, count: int) -> None:
        for each in range(number, number + count):
            self._survivors.add(each)

    def keep_chunks(self) -> None:
        """Keep the chunks of surviving messages; to be called when all survivors are known.

        Chunks of messages whose last chunk is not here yet are kept for the next compaction.
        """
        for begun in self._chunks.values():
            for number in begun:
                self._survivors.add(number)
        for number, others in self.chunked.items():
            if self._survivors.get(number, 1):
                for other in others:
                    self._survivors.add(other)


def survivor(entry: bytes, bits: int, count: int) -> bytes:
    """Return an entry with only the messages whose bit is set, of `count`; at least one is."""
    # promise: compacted entries keep what the broker has added
    added = entry[: message_start(entry)]
    try:
        metadata, at = parse_metadata(entry)
        if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
            return entry
        if metadata.num_messages_in_batch != count:
            return entry
        metadata.compacted_batch_indexes[:] = [i for i in range(count) if bits >> i & 1]
        if len(metadata.compacted_batch_indexes) == count:
            return added + encode_entry(metadata, entry[at:])
        batch = _batch_of(metadata, entry[at:])
    except RemoteError:
        return entry
    out = pb.SingleMessageMetadata(compacted_out=True)
    payload = encode_batch(
        [one if bits >> index & 1 else (out, b"") for index, one in enumerate(batch)]
    )
    if metadata.compression != pb.NONE:
        metadata.uncompressed_size = len(payload)
        payload = compress(metadata.compression, payload)
    return added + encode_entry(metadata, payload)


def _size(metadata: pb.MessageMetadata, stored: int) -> int:
    return metadata.uncompressed_size if metadata.HasField("uncompressed_size") else stored


def _batch_of(metadata: pb.MessageMetadata, payload: bytes) -> Batch:
    body = decompress(metadata.compression, payload, metadata.uncompressed_size, MAX_BATCH_BYTES)
    return decode_batch(body, metadata.num_messages_in_batch)
