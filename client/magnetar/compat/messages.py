"""Messages and their ids, with the methods of the official client."""

from __future__ import annotations

import base64
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

import magnetar
from magnetar.compat.enums import CompressionType
from magnetar.compat.exceptions import translated, unsupported
from magnetar.compat.schema import BytesSchema, Schema
from magnetar_proto import PulsarApi_pb2 as pb


class MessageId:
    """Where a message is; ids of one partition are ordered as its messages."""

    __slots__ = ("_id", "_topic")

    earliest: ClassVar[MessageId]
    """The first message of a topic."""
    latest: ClassVar[MessageId]
    """The end of a topic."""

    def __init__(
        self, partition: int = -1, ledger_id: int = -1, entry_id: int = -1, batch_index: int = -1
    ) -> None:
        self._id = magnetar.MessageId(ledger_id, entry_id, batch_index, partition)
        self._topic: str | None = None

    @classmethod
    def wrap(cls, msg_id: magnetar.MessageId | MessageId) -> MessageId:
        """The id as an object of this class."""
        return msg_id if isinstance(msg_id, MessageId) else cls._of(msg_id)

    @classmethod
    def _of(cls, message_id: magnetar.MessageId, topic: str | None = None) -> MessageId:
        self = cls()
        self._id = message_id
        self._topic = topic
        return self

    def ledger_id(self) -> int:
        return self._id.ledger

    def entry_id(self) -> int:
        return self._id.entry

    def batch_index(self) -> int:
        return self._id.batch_index

    def partition(self) -> int:
        return self._id.partition

    def serialize(self) -> bytes:
        """The id as bytes, for `deserialize` of this or the official client."""
        return self._id.to_pb().SerializeToString()

    @staticmethod
    def deserialize(message_id_bytes: bytes, topic: str | None = None) -> MessageId:
        """The id that was serialized; consumers of several topics need the topic with it."""
        try:
            found = pb.MessageIdData.FromString(message_id_bytes)
        except DecodeError:
            raise ValueError(f"{message_id_bytes!r} is no serialized message id") from None
        return MessageId._of(magnetar.MessageId.from_pb(found), topic)

    def __str__(self) -> str:
        ledger, entry, batch_index, partition = self._id
        return f"({ledger},{entry},{partition},{batch_index})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if isinstance(other, MessageId) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self._id != other._id if isinstance(other, MessageId) else NotImplemented

    def __lt__(self, other: MessageId) -> bool:
        return self._id < other._id

    def __le__(self, other: MessageId) -> bool:
        return self._id <= other._id

    def __gt__(self, other: MessageId) -> bool:
        return self._id > other._id

    def __ge__(self, other: MessageId) -> bool:
        return self._id >= other._id


MessageId.earliest = MessageId.wrap(magnetar.EARLIEST)
MessageId.latest = MessageId.wrap(magnetar.LATEST)


def key_text(key: str | bytes | None) -> str:
    """A key as the official client has it: one of bytes in base64, and "" if there is none."""
    return base64.b64encode(key).decode() if isinstance(key, bytes) else key or ""


class Message:
    """A received message, or one that a message router is asked about."""

    __slots__ = ("_message", "_schema")

    _message: Any
    _schema: Schema

    def data(self) -> bytes:
        """The payload."""
        message = self._message
        return message.data if isinstance(message, magnetar.Message) else bytes(message.value)

    @translated
    def value(self) -> Any:
        """The payload as the schema decodes it; what this raises if the payload does not fit."""
        return self._schema.decode_message(self)

    def properties(self) -> dict[str, str]:
        return dict(self._message.properties)

    def partition_key(self) -> str:
        """The key, "" without one; a key of bytes in base64."""
        return key_text(self._message.key)

    def ordering_key(self) -> str:
        """The ordering key, "" without one."""
        return (self._message.ordering_key or b"").decode("utf-8", "surrogateescape")

    def publish_timestamp(self) -> int:
        """When it was published, in milliseconds."""
        return self._received().publish_time_ms

    def event_timestamp(self) -> int:
        """The sender's own time, in milliseconds; 0 without one."""
        return int(self._message.event_time_ms)

    def message_id(self) -> MessageId:
        message = self._received()
        return MessageId._of(message.id, message.topic)

    def topic_name(self) -> str:
        """The topic, or partition of a topic, that it came from."""
        return self._received().topic

    def redelivery_count(self) -> int:
        """How often it was delivered before."""
        return self._received().redelivery_count

    def schema_version(self) -> str:
        """The version of the schema it was written with, as the broker names it; "" without one."""
        return self._received().schema_version.decode("utf-8", "surrogateescape")

    def producer_name(self) -> str:
        return self._received().producer_name

    def has_null_value(self) -> bool:
        """Whether there is no value at all, rather than an empty one."""
        return bool(self._message.is_null)

    def encryption_context(self) -> EncryptionContext | None:
        """How the message is encrypted; None: it is not."""
        message = self._received()
        return EncryptionContext(message) if message.encryption_keys else None

    def _received(self) -> magnetar.Message[Any]:
        if not isinstance(self._message, magnetar.Message):
            raise ValueError("a message that is being sent has no such thing yet")
        return self._message

    @staticmethod
    def _wrap(
        _message: magnetar.Message | magnetar.Outgoing, schema: Schema | None = None
    ) -> Message:
        self = Message()
        self._message = _message
        self._schema = schema or BytesSchema()
        return self


class EncryptionKey:
    """A key that the data key of a message is encrypted with."""

    def __init__(self, key: pb.EncryptionKeys) -> None:
        self._key = key

    @property
    def key(self) -> str:
        """Its name."""
        return self._key.key

    @property
    def value(self) -> bytes:
        """The data key, encrypted with it."""
        return self._key.value

    @property
    def metadata(self) -> dict[str, str]:
        """What is stored with it."""
        return {pair.key: pair.value for pair in self._key.metadata}


class EncryptionContext:
    """How a message is encrypted."""

    def __init__(self, context: magnetar.Message[Any]) -> None:
        self._message = context
        self._metadata = context.entry.metadata

    def keys(self) -> list[EncryptionKey]:
        return [EncryptionKey(key) for key in self._metadata.encryption_keys]

    def param(self) -> bytes:
        """The initialization vector."""
        return self._metadata.encryption_param

    def algorithm(self) -> str:
        return self._metadata.encryption_algo

    def compression_type(self) -> CompressionType:
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        """Of the whole entry, in bytes; 0 where its producer did not compress and tells none."""
        return self._metadata.uncompressed_size

    def batch_size(self) -> int:
        """The number of messages of a batch; -1: it is none."""
        has_batch = self._metadata.HasField("num_messages_in_batch")
        return self._metadata.num_messages_in_batch if has_batch else -1

    def is_decryption_failed(self) -> bool:
        """Whether the payload is as it is stored: no key has decrypted it."""
        return self._message.is_encrypted


class MessageBatch:
    """A batch that was received by other ways than a consumer."""

    def __init__(self) -> None:
        raise unsupported("MessageBatch", "consumers and readers return the messages of batches")
