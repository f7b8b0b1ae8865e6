"""Encoding of messages into the SEND frame of an entry. Pure: `now_ms` is the time."""

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

from magnetar.base.errors import MessageTooLarge
from magnetar.encryption.sending import Encrypting
from magnetar.messages import MESSAGE_OVERHEAD, Outgoing
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.compression import compress
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import encode_frame
from magnetar_proto.sends import encode_send

MAX_CHUNKS = 1 << 16

COMPRESSIONS: dict[str, int] = {
    "none": pb.NONE,
    "lz4": pb.LZ4,
    "zlib": pb.ZLIB,
    "zstd": pb.ZSTD,
    "snappy": pb.SNAPPY,
}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The size limits of a batch, and the time that it waits for more messages."""

    max_messages: int = 1000
    max_bytes: int = 128 * 1024
    max_delay_ms: float = 1.0

    def __post_init__(self) -> None:
        if self.max_messages < 1 or self.max_bytes < 1 or self.max_delay_ms < 0:
            raise ValueError(
                f"{self}: max_messages and max_bytes must be at least 1, max_delay_ms at least 0"
            )


BATCHED = BatchLimits()

UNBATCHED = BatchLimits(max_messages=1, max_delay_ms=0)
"""Limits that make every message an entry by itself."""


class SameMessages(Sequence[bytes]):
    """Many copies of one message, encoded once: for tools that measure brokers."""

    def __init__(self, value: bytes, count: int) -> None:
        self.value = value
        self._count = count
        self._body = b""
        self._compressed: tuple[int, bytes] = (pb.NONE, b"")

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return ([self.value] * self._count)[index]

    def body(self) -> bytes:
        """Return the body of the batch."""
        if not self._body:
            self._body = (_plain_head(len(self.value)) + self.value) * self._count
        return self._body

    def compressed(self, compression: int, body: bytes) -> bytes:
        """Return the body, compressed."""
        if self._compressed[0] != compression:
            self._compressed = compression, compress(compression, body)
        return self._compressed[1]


@dataclass(frozen=True, slots=True)
class Packed:
    """Two or more messages that the application has encoded as the body of a batch."""

    count: int
    encoded: bytes
    key: str | bytes | None = None
    """The key of the first message; the broker takes key and ordering key for the whole entry."""
    ordering_key: bytes | None = None
    ids: tuple[int, int] | tuple[()] = ()
    """The sequence ids of the first and the last message; empty: assign the next ones."""

    def __len__(self) -> int:
        return self.count

    def body(self) -> bytes:
        """Return the body of the batch."""
        return self.encoded

    def compressed(self, compression: int, body: bytes) -> bytes:
        """Return the body, compressed."""
        return compress(compression, body)


class Batch:
    """Messages that are stored in one entry, and share its outcome."""

    __slots__ = (
        "done", "first_chunk", "has_ids", "is_noticed", "messages", "schema_version", "size", "txn"
    )  # fmt: skip

    def __init__(self, done: Future[tuple[int, int]], txn: Transaction | None = None) -> None:
        self.done = done
        """The outcome: ledger and entry once the broker has stored the batch, or the error."""
        self.is_noticed = False
        """Whether the application knows the outcome; `flush` raises errors it does not know of."""
        self.messages: list[bytes | Outgoing] | SameMessages | Packed = []
        self.size = 0
        self.has_ids = False
        """Whether the application has chosen the sequence ids."""
        self.schema_version: bytes | None = None
        """The schema version of all messages; None means that of the producer's schema."""
        self.txn = txn
        """The transaction of all messages of the batch."""
        self.first_chunk: tuple[int, int] | None = None
        """The ledger and entry of the first chunk, if a message is stored in several entries."""

    def chunk_stored(self, ledger: int, entry: int) -> None:
        """Record that an entry was stored which is not the last of its message."""
        if self.first_chunk is None:
            self.first_chunk = ledger, entry

    def stored(self, ledger: int, entry: int) -> None:
        """Set the outcome, unless the future was cancelled."""
        if not self.done.cancelled():
            self.done.set_result((ledger, entry))

    def failed(self, error: BaseException) -> None:
        """Set the error as outcome, unless the future was cancelled."""
        if not self.done.cancelled():
            self.done.set_exception(error)
            self.done.exception()  # marks it as retrieved: `flush` reports it, not asyncio

    def ids(self, next_id: int) -> list[int]:
        """Return the sequence ids of the messages: chosen ids, and their successors."""
        if isinstance(self.messages, Packed):
            return list(self.messages.ids)
        ids = []
        for message in self.messages:
            chosen = None if isinstance(message, bytes) else message.sequence_id
            ids.append(next_id if chosen is None else chosen)
            next_id = ids[-1] + 1
        return ids

    def add(self, message: bytes | Outgoing) -> int:
        """Append a message, and return its index."""
        assert isinstance(self.messages, list)
        if not self.messages:
            self.schema_version = version_of(message)
        self.size += size_of(message)
        self.messages.append(message)
        return len(self.messages) - 1

    def has_room(self, message: bytes | Outgoing, limits: BatchLimits) -> bool:
        """Tell whether the message fits; the first one always does."""
        if not self.messages:
            return True
        # promise[without schema_version == version_of(message) and self.]: a batch has one schema
        #   version
        return (
            len(self.messages) < limits.max_messages
            and self.schema_version == version_of(message)
            and self.size + size_of(message) <= limits.max_bytes
        )

    def is_full(self, limits: BatchLimits) -> bool:
        """Tell whether the batch must be sent now."""
        return len(self.messages) >= limits.max_messages or self.size >= limits.max_bytes


def size_of(message: bytes | Outgoing) -> int:
    """Return the bytes of a message that count towards limits."""
    if isinstance(message, bytes):
        return MESSAGE_OVERHEAD + len(message)
    described = sum(len(name) + len(text) for name, text in message.properties.items())
    return MESSAGE_OVERHEAD + len(message.value) + described


def version_of(message: bytes | Outgoing) -> bytes | None:
    """Return the schema version of a message if it is not that of its producer."""
    return None if isinstance(message, bytes) else message.schema_version


def rides_alone(message: bytes | Outgoing) -> bool:
    """Tell whether the message must be an entry by itself: the broker delays whole entries."""
    return not isinstance(message, bytes) and message.deliver_at_ms > 0


@dataclass(frozen=True, slots=True)
class Sender:
    """The attributes shared by all entries of one producer."""

    producer_id: int
    producer_name: str
    compression: int = pb.NONE
    schema_version: bytes = b""
    """The version of the producer's registered schema; empty if it has no schema."""
    encrypting: Encrypting | None = None
    txn: tuple[int, int] | None = None
    """The id of the transaction that the entry belongs to."""

    def encode(
        self,
        messages: Sequence[bytes | Outgoing] | Packed,
        sequence_id: int,
        now_ms: int,
        max_message_size: int,
        ids: Sequence[int] = (),
    ) -> bytes:
        """Encode the SEND frame of an entry that starts at `sequence_id`.

        MessageTooLarge if it exceeds `max_message_size`.  `ids` are the sequence ids of all
        messages, if the application has chosen them.
        """
        count = len(messages)
        metadata = pb.MessageMetadata(
            producer_name=self.producer_name, sequence_id=sequence_id, publish_time=now_ms
        )
        if self.schema_version:
            metadata.schema_version = self.schema_version
        if self.txn is not None:
            metadata.txnid_most_bits, metadata.txnid_least_bits = self.txn
        highest = ids[-1] if ids else sequence_id + count - 1
        if isinstance(messages, Packed) or count > 1:
            body = _describe_batch(messages, metadata, ids)
            metadata.highest_sequence_id = highest
        else:
            body = _describe_single(messages[0], metadata)
        # An empty body is not compressed: the official C++ and Python clients lose the message if
        # zlib has compressed it to some bytes.
        # promise[without and body]: an empty message is not compressed
        if self.compression != pb.NONE and body:
            metadata.compression = self.compression  # type: ignore[assignment]
            metadata.uncompressed_size = len(body)
            body = (
                messages.compressed(self.compression, body)
                if isinstance(messages, SameMessages | Packed)
                else compress(self.compression, body)
            )
        if self.encrypting is not None:
            self.encrypting.describe(metadata)
            body = self.encrypting.encrypt(metadata, body)
        head = metadata.SerializeToString()
        if len(head) + len(body) > max_message_size:
            raise MessageTooLarge(
                f"{len(head) + len(body)} bytes with metadata, and the broker accepts "
                f"{max_message_size} (maxMessageSize)"
            )
        highest_id = highest if count > 1 else None
        return encode_send(self.producer_id, sequence_id, count, head, body, highest_id, self.txn)

    def encode_chunks(
        self, message: bytes | Outgoing, sequence_id: int, now_ms: int, limits: "ChunkLimits"
    ) -> list[bytes]:
        """Encode the SEND frames of a message that exceeds one entry; raises MessageTooLarge."""
        metadata = pb.MessageMetadata(
            producer_name=self.producer_name,
            sequence_id=sequence_id,
            publish_time=now_ms,
            uuid=f"{self.producer_name}-{sequence_id}",
            num_chunks_from_msg=1,
        )
        if self.schema_version:
            metadata.schema_version = self.schema_version
        if self.txn is not None:
            metadata.txnid_most_bits, metadata.txnid_least_bits = self.txn
        body = _describe_single(message, metadata)
        if self.compression != pb.NONE:
            metadata.compression = self.compression  # type: ignore[assignment]
            metadata.uncompressed_size = len(body)
            body = compress(self.compression, body)
        metadata.total_chunk_msg_size = len(body)
        metadata.chunk_id = metadata.num_chunks_from_msg = MAX_CHUNKS
        size = limits.max_message_size
        if self.encrypting is not None:
            self.encrypting.describe(metadata)
            size -= self.encrypting.overhead
        size -= metadata.ByteSize()
        if limits.max_chunk_bytes is not None:
            size = min(size, limits.max_chunk_bytes)
        count = -(-len(body) // size) if size > 0 else MAX_CHUNKS
        if count >= MAX_CHUNKS:
            raise MessageTooLarge(f"{len(body)} bytes do not fit in {MAX_CHUNKS} chunks")
        metadata.num_chunks_from_msg = count
        frames = []
        for index in range(count):
            metadata.chunk_id = index
            part = body[index * size : (index + 1) * size]
            frames.append(self._chunk(metadata, sequence_id, part))
        return frames

    def _chunk(self, metadata: pb.MessageMetadata, sequence_id: int, part: bytes) -> bytes:
        command = pb.BaseCommand(type=pb.BaseCommand.SEND)
        command.send.producer_id = self.producer_id
        command.send.sequence_id = sequence_id
        command.send.is_chunk = True
        if self.txn is not None:
            command.send.txnid_most_bits, command.send.txnid_least_bits = self.txn
        if self.encrypting is not None:
            self.encrypting.describe(metadata)
            part = self.encrypting.encrypt(metadata, part)
        return encode_frame(command.SerializeToString(), encode_entry(metadata, part))


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The size limits of a chunk."""

    max_message_size: int
    """The broker's limit of an entry including its metadata, in bytes."""
    max_chunk_bytes: int | None = None
    """The application's limit of the payload of a chunk, in bytes; None: no limit."""


def _describe_single(message: bytes | Outgoing, metadata: pb.MessageMetadata) -> bytes:
    if isinstance(message, bytes):
        return message
    message.describe(metadata)
    if message.deliver_at_ms:
        metadata.deliver_at_time = message.deliver_at_ms
    return message.value


def _describe_batch(
    messages: Sequence[bytes | Outgoing] | Packed, metadata: pb.MessageMetadata, ids: Sequence[int]
) -> bytes:
    metadata.num_messages_in_batch = len(messages)
    if isinstance(messages, SameMessages):
        return messages.body()
    first = messages if isinstance(messages, Packed) else messages[0]
    if not isinstance(first, bytes):
        # The broker takes the first message's key for the whole entry.
        keyed = Outgoing(b"", key=first.key, ordering_key=first.ordering_key)
        keyed.describe(metadata)
    if isinstance(messages, Packed):
        return messages.body()
    parts: list[bytes] = []
    for index, message in enumerate(messages):
        if isinstance(message, bytes):
            parts.append(_plain_head(len(message)))
            parts.append(message)
        else:
            about = pb.SingleMessageMetadata(payload_size=len(message.value))
            message.describe(about)
            if ids:
                about.sequence_id = ids[index]
            parts.append(encode_batch([(about, message.value)]))
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _plain_head(size: int) -> bytes:
    # The bytes before a value depend on its size alone if the message has no other attributes.
    value = bytes(size)
    return encode_batch([(pb.SingleMessageMetadata(payload_size=size), value)])[: -size or None]
