"""Messages for the application, and entries as the broker stores them."""

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, cast

from crc32c import crc32c
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from magnetar.base.errors import DecryptionFailed, Undecodable, Unreadable
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.values import V
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.broker_metadata import broker_metadata_of
from magnetar_proto.compression import decompress
from magnetar_proto.entries import (
    CHECKED_FROM,
    CHECKED_HEAD,
    CHECKED_MAGIC,
    COPY_LIMIT,
    METADATA_AT,
    message_start,
    parse_metadata,
    verify_checksum,
)
from magnetar_proto.errors import BadBatch, BadCompression, BadMetadata
from magnetar_proto.ids import ChunkedMessageId, MessageId, ack_set_to_mask

MAX_INFLATED_BYTES = 128 * 1024 * 1024
"""The limit of the decompressed size of an entry, in bytes."""
MAX_BATCH_MESSAGES = MAX_INFLATED_BYTES // 4
"""The limit of the messages in a batch: each takes four bytes for the size of its metadata."""
MESSAGE_OVERHEAD = 64
"""The bytes counted per message besides its value, so that empty messages count, too."""
LAST_BATCH_INDEX = 2**31 - 1
"""The highest index of a message in a batch."""


class MessageSchema(Protocol[V]):
    """A schema as messages use it; implemented in `magnetar.schema`."""

    info: SchemaInfo

    def encode_message(self, message: "Outgoing[V]") -> "Outgoing":
        """Return the message with its value encoded; ValueError if it does not fit the schema."""

    def decode_message(self, message: "Message[Any]") -> V:
        """Return the value of a message; any exception if its bytes do not fit the schema."""


@dataclass(frozen=True, slots=True)
class Outgoing(Generic[V]):
    """A message to be sent that has more attributes than its value."""

    value: V
    """The value, of the schema's type, or bytes without schema; None with a schema: null."""
    key: str | bytes | None = None
    """The key; it determines the partition, and the consumer of a Key_Shared subscription."""
    ordering_key: bytes | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    """The time of the event, set by the application; 0 means not set."""
    deliver_at_ms: int = 0
    """The time (ms since 1970) before which shared subscriptions wait for it; 0: none."""
    sequence_id: int | None = None
    """The id for deduplication, higher than all earlier ones; None means the next one."""
    is_null: bool = False
    """Whether the value is null, rather than empty: compaction then deletes the key."""
    schema: MessageSchema[V] | None = None
    """The schema of this message, if it is not the producer's.  It is registered with the topic."""
    schema_version: bytes | None = None
    """The version of the schema of an encoded value; None: that of the producer's schema."""

    def describe(self, metadata: pb.SingleMessageMetadata | pb.MessageMetadata) -> None:
        """Write key, properties and event time into either kind of metadata."""
        if isinstance(self.key, bytes):
            metadata.partition_key = base64.b64encode(self.key).decode()
            metadata.partition_key_b64_encoded = True
        elif self.key is not None:
            metadata.partition_key = self.key
        if self.ordering_key:
            metadata.ordering_key = self.ordering_key
        for name, text in self.properties.items():
            metadata.properties.add(key=name, value=text)
        if self.event_time_ms:
            metadata.event_time = self.event_time_ms
        if self.is_null:
            metadata.null_value = True


class Message(Generic[V]):
    """A received message; its `id` can be used to acknowledge it.

    All attributes but `data` are read from the metadata, or decoded, on access.
    """

    __slots__ = ("_about", "_value", "batch_index", "data", "entry")

    permits = 1

    def __init__(
        self,
        data: bytes,
        about: pb.SingleMessageMetadata | pb.MessageMetadata,
        entry: "Entry",
        batch_index: int,
    ) -> None:
        self.data = data
        """The value as it was sent, encoded."""
        self.batch_index = batch_index
        """The index in the batch; -1 if the message is an entry by itself."""
        self.entry = entry
        """The stored entry of the message, which may hold other messages as well."""
        self._about = about

    @property
    def value(self) -> V:
        """The value, decoded by the schema of the consumer or reader; without schema the bytes.

        None if `is_null` and there is a schema.  Undecodable if the bytes do not fit the schema.
        """
        reader = self.entry.reader
        if reader is None or self.entry.is_taken_encrypted:
            return cast(V, self.data)
        try:
            return self._value
        except AttributeError:
            self._value: V = self._decode(reader)
            return self._value

    def _decode(self, reader: MessageSchema[Any] | Exception) -> V:
        try:
            if isinstance(reader, Exception):
                raise reader
            return cast(V, reader.decode_message(self))
        except Exception as error:  # a decoder may raise anything on foreign bytes
            version = self.schema_version
            raise Undecodable(
                f"message {self.id} of {self.topic}, schema version "
                f"{int.from_bytes(version, 'big') if version else 'none'}, cannot be decoded: "
                f"{error or type(error).__name__}",
                self.id,
                version,
            ) from error

    @property
    def size(self) -> int:
        """The size that counts towards the memory limit, in bytes."""
        return MESSAGE_OVERHEAD + len(self.data)

    @property
    def id(self) -> MessageId:
        entry = self.entry
        if entry.chunks:
            first = entry.chunks[0]
            return ChunkedMessageId(entry.ledger, entry.entry, entry.partition, first)
        return MessageId(entry.ledger, entry.entry, self.batch_index, entry.partition)

    @property
    def source(self) -> Any:
        """The partition's consumer that received the message."""
        return self.entry.source

    @property
    def topic(self) -> str:
        return self.entry.topic

    @property
    def key(self) -> str | bytes | None:
        """The key, a str or bytes, as it was sent."""
        return decoded_key(self._about)

    @property
    def ordering_key(self) -> bytes:
        return self._about.ordering_key

    @property
    def properties(self) -> dict[str, str]:
        return {pair.key: pair.value for pair in self._about.properties}

    @property
    def event_time_ms(self) -> int:
        """The time of the event, set by the sender; 0 if it is not set."""
        return self._about.event_time

    @property
    def publish_time_ms(self) -> int:
        return self.entry.metadata.publish_time

    @property
    def broker_publish_time_ms(self) -> int | None:
        """The time (ms since 1970) at which the broker stored the message; None if not known."""
        added = self.entry.broker_metadata
        if added is None or not added.HasField("broker_timestamp"):
            return None
        return added.broker_timestamp

    @property
    def index(self) -> int | None:
        """The number of messages stored in the topic before it; None if the broker does not tell.

        Markers that end transactions are counted, too.
        """
        added = self.entry.broker_metadata
        if added is None or not added.HasField("index"):
            return None
        if self.batch_index < 0:
            return added.index
        # The index of an entry is that of its last message.
        return added.index - self.entry.metadata.num_messages_in_batch + self.batch_index + 1

    @property
    def producer_name(self) -> str:
        return self.entry.metadata.producer_name

    @property
    def sequence_id(self) -> int:
        """The sequence id of the message; in a batch without ids, counted from the batch's."""
        if isinstance(self._about, pb.MessageMetadata):
            return self._about.sequence_id
        if self._about.HasField("sequence_id"):
            return self._about.sequence_id
        return self.entry.metadata.sequence_id + max(self.batch_index, 0)

    @property
    def schema_version(self) -> bytes:
        """The version of the schema that the value was written with; empty without schema."""
        return self.entry.metadata.schema_version

    @property
    def deliver_at_ms(self) -> int:
        """The time (ms since 1970) before which shared subscriptions wait for it; 0: none."""
        return self.entry.metadata.deliver_at_time

    @property
    def is_null(self) -> bool:
        """Whether the value is null, rather than empty."""
        return self._about.null_value

    @property
    def redelivery_count(self) -> int:
        return self.entry.redelivery_count

    @property
    def is_encrypted(self) -> bool:
        """Whether the value is the entire stored entry, because no key decrypts it."""
        return self.entry.is_taken_encrypted

    @property
    def encryption_keys(self) -> dict[str, dict[str, str]]:
        """The metadata of the keys that protect the message, by key name."""
        return {
            one.key: {pair.key: pair.value for pair in one.metadata}
            for one in self.entry.metadata.encryption_keys
        }

    def __repr__(self) -> str:
        return f"Message({self.id}, {self.data[:40]!r})"


class Entry:
    """The unit that the broker stores and delivers: a message, or a batch of messages."""

    __slots__ = (
        "_body_start", "_data", "ack_set", "entry", "is_chunk", "is_encrypted",
        "is_taken_encrypted", "ledger", "metadata", "partition", "reader", "redelivery_count",
        "source", "topic",
    )  # fmt: skip

    batch_index = LAST_BATCH_INDEX
    chunks: Sequence[tuple[int, int]] = ()
    """The positions of the joined chunks; empty for an entry that was not chunked."""

    def __init__(
        self,
        topic: str,
        position: tuple[int, int, int],
        data: bytes,
        *,
        redelivery_count: int = 0,
        ack_set: Sequence[int] = (),
        source: Any = None,
    ) -> None:
        """`position` is ledger, entry, partition; Unreadable if checksum or metadata is wrong."""
        self.topic = topic
        self.ledger, self.entry, self.partition = position
        self.redelivery_count = redelivery_count
        self.ack_set = ack_set
        self.source = source
        self.reader: MessageSchema[Any] | Exception | None = None
        """Decodes the values, or is the reason why not; None leaves them as they are."""
        self._data = data
        if not verify_checksum(data, 0, len(data)):
            raise self.unreadable("is damaged: its checksum does not match")
        try:
            self.metadata, self._body_start = parse_metadata(data)
        except BadMetadata as error:
            raise self.unreadable(f"has no readable metadata: {error}") from error
        count = self.metadata.num_messages_in_batch
        if not 0 < count <= MAX_BATCH_MESSAGES:  # it would become a number of permits
            raise self.unreadable(f"has invalid metadata: a batch of {count} messages")
        self.is_chunk = self.metadata.num_chunks_from_msg > 1
        """Whether the entry is a chunk of a larger message."""
        self.is_encrypted = bool(self.metadata.encryption_keys)
        self.is_taken_encrypted = False
        """Whether the application receives the entry, still encrypted, as one message."""

    @property
    def position(self) -> tuple[int, int]:
        """The ledger id and the entry id."""
        return self.ledger, self.entry

    @property
    def size(self) -> int:
        """The size of the stored payload, in bytes."""
        return len(self._data) - self._body_start

    @property
    def broker_metadata(self) -> pb.BrokerEntryMetadata | None:
        """The metadata that the broker added to the stored entry; None if it has sent none."""
        return broker_metadata_of(self._data)

    @property
    def stored_time_ms(self) -> int:
        """The time (ms) at which the broker stored the entry, else its publish time."""
        added = self.broker_metadata
        if added is None or not added.HasField("broker_timestamp"):
            return self.metadata.publish_time
        return added.broker_timestamp

    @property
    def is_batch(self) -> bool:
        return self.metadata.HasField("num_messages_in_batch") and not self.is_taken_encrypted

    @property
    def unacked(self) -> int:
        """A bit mask of the messages of the batch that are delivered: others were acknowledged."""
        everything = (1 << self.metadata.num_messages_in_batch) - 1
        return everything & ack_set_to_mask(self.ack_set) if self.ack_set else everything

    @property
    def permits(self) -> int:
        """The number of messages that the broker counts for the entry."""
        return self.unacked.bit_count() if self.ack_set else self.metadata.num_messages_in_batch

    def payload(self) -> bytes:
        """Return the stored bytes after the metadata."""
        return self._data[self._body_start :]

    def decrypted(self, payload: bytes) -> None:
        """Replace the payload by the decrypted one."""
        self._body_start = message_start(self._data)
        self._data, self.is_encrypted = self._data[: self._body_start] + payload, False

    def take_encrypted(self) -> None:
        """Become one message whose value is the encrypted payload."""
        self.is_taken_encrypted, self.is_chunk = True, False

    def body(self) -> bytes:
        """Return the decompressed payload, a value or a batch body; Unreadable if it is damaged."""
        metadata = self.metadata
        if self.is_encrypted:
            raise self.undecryptable("this client has no keys")
        if self.is_chunk:
            raise self.unreadable("is part of a chunked message, which is not joined here")
        payload = self.payload()
        if metadata.compression == pb.NONE:
            # An unknown compression type reads as none: proto2 sets the value of the field aside.
            has_size = metadata.HasField("uncompressed_size")
            is_other = has_size and metadata.uncompressed_size != len(payload)
            if is_other and _has_unknown_compression(metadata):
                raise self.unreadable("is compressed in a way that this client does not know")
            return payload
        try:
            return decompress(
                metadata.compression, payload, metadata.uncompressed_size, MAX_INFLATED_BYTES
            )
        except BadCompression as error:
            raise self.unreadable(f"cannot be decompressed: {error}") from error

    def messages(self) -> list[Message[Any]]:
        """Return the messages that are not acknowledged yet; raises Unreadable."""
        if self.is_taken_encrypted:
            return [Message(self.payload(), self.metadata, self, -1)]
        body = self.body()
        if not self.is_batch:
            return [Message(body, self.metadata, self, -1)]
        try:
            batch = decode_batch(body, self.metadata.num_messages_in_batch)
        except BadBatch as error:
            raise self.unreadable(f"is not a batch: {error}") from error
        messages = [
            Message(value, about, self, index)
            for index, (about, value) in enumerate(batch)
            if not about.compacted_out
        ]
        if self.ack_set:
            unacked = self.unacked
            return [message for message in messages if unacked >> message.batch_index & 1]
        return messages

    def unreadable(self, why: str) -> Unreadable:
        """Return the error of an entry that cannot be decoded; `why` continues its name."""
        return Unreadable(f"{self} {why}", MessageId(self.ledger, self.entry, -1, self.partition))

    def undecryptable(self, why: str) -> DecryptionFailed:
        """Return the error of an entry that cannot be decrypted."""
        where = MessageId(self.ledger, self.entry, -1, self.partition)
        return DecryptionFailed(f"{self} is encrypted, and cannot be decrypted: {why}", where)

    def __repr__(self) -> str:
        return f"entry {self.ledger}:{self.entry} of {self.topic}"


def plain_message(
    source: Any, topic: str, ledger: int, entry: int, partition: int, data: bytes
) -> Message[Any] | None:
    """Return the message of an entry that is one message, not compressed and not encrypted.

    None if the entry is of another kind, or cannot be read: then construct an `Entry`.
    """
    if not METADATA_AT < len(data) < COPY_LIMIT:
        return None
    start = 0
    magic, checksum, size = CHECKED_HEAD.unpack_from(data)
    if magic != CHECKED_MAGIC:
        start = message_start(data)
        if len(data) < start + METADATA_AT:
            return None
        magic, checksum, size = CHECKED_HEAD.unpack_from(data, start)
    checked = data[start + CHECKED_FROM :]
    body_start = start + METADATA_AT + size
    # promise[without crc32c(checked) != checksum or]: a damaged message is not received
    if magic != CHECKED_MAGIC or crc32c(checked) != checksum or body_start > len(data):
        return None
    try:
        metadata = pb.MessageMetadata.FromString(data[start + METADATA_AT : body_start])
    except DecodeError:
        return None
    if (
        not metadata.IsInitialized()
        or metadata.HasField("num_messages_in_batch")
        or metadata.HasField("num_chunks_from_msg")
        or metadata.compression != pb.NONE
        or metadata.encryption_keys
        or metadata.uncompressed_size not in (0, len(data) - body_start)
    ):
        return None
    stored = Entry.__new__(Entry)
    stored.topic, stored.source, stored.metadata = topic, source, metadata
    stored.ledger, stored.entry, stored.partition = ledger, entry, partition
    stored.redelivery_count, stored.ack_set, stored.reader = 0, (), None
    stored.is_chunk = stored.is_encrypted = stored.is_taken_encrypted = False
    stored._data, stored._body_start = data, body_start
    return Message(data[body_start:], metadata, stored, -1)


def _has_unknown_compression(metadata: pb.MessageMetadata) -> bool:
    unknown = UnknownFieldSet(metadata)
    numbers = (unknown[index].field_number for index in range(len(unknown)))
    return pb.MessageMetadata.COMPRESSION_FIELD_NUMBER in numbers


def decoded_key(about: pb.SingleMessageMetadata | pb.MessageMetadata) -> str | bytes | None:
    """Return the key in metadata of a message or an entry, as it was sent: a str or bytes.

    A key that is marked as base64 but cannot be decoded is returned as text, unchanged.
    """
    if not about.HasField("partition_key"):
        return None
    if about.partition_key_b64_encoded:
        with suppress(ValueError):
            return base64.b64decode(about.partition_key)
    return about.partition_key
