"""Messages and their ids, with the methods of the official client."""

from __future__ import annotations

import base64
from functools import total_ordering
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

import magnetar
from magnetar.compat.enums import CompressionType
from magnetar.compat.exceptions import translated, unsupported
from magnetar.compat.schema import BytesSchema, Schema
from magnetar_proto import PulsarApi_pb2 as pb


@total_ordering
class MessageId:
    """The position of a message; ids of one partition are ordered as its messages."""

    __slots__ = ("_id", "_topic")

    earliest: ClassVar[MessageId]
    """The position of the first message of a topic."""
    latest: ClassVar[MessageId]
    """The position after the last message of a topic."""

    def __init__(
        self, partition: int = -1, ledger_id: int = -1, entry_id: int = -1, batch_index: int = -1
    ) -> None:
        self._id = magnetar.MessageId(ledger_id, entry_id, batch_index, partition)
        self._topic: str | None = None

    @classmethod
    def wrap(cls, msg_id: magnetar.MessageId | MessageId) -> MessageId:
        """Return the id as an object of this class."""
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
        """Return the id as bytes, for `deserialize` of this or the official client."""
        return self._id.to_pb().SerializeToString()

    @staticmethod
    def deserialize(message_id_bytes: bytes, topic: str | None = None) -> MessageId:
        """Return the id in these bytes; consumers of several topics also need its topic."""
        try:
            found = pb.MessageIdData.FromString(message_id_bytes)
        except DecodeError:
            raise ValueError(
                f"expected a serialized message id, got {message_id_bytes!r}"
            ) from None
        return MessageId._of(magnetar.MessageId.from_pb(found), topic)

    def __str__(self) -> str:
        ledger, entry, batch_index, partition = self._id
        return f"({ledger},{entry},{partition},{batch_index})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if isinstance(other, MessageId) else NotImplemented

    def __lt__(self, other: MessageId) -> bool:
        return self._id < other._id


MessageId.earliest = MessageId.wrap(magnetar.EARLIEST)
MessageId.latest = MessageId.wrap(magnetar.LATEST)


def key_text(key: str | bytes | None) -> str:
    """Return a key as in the official client: bytes in base64, and "" for no key."""
    return base64.b64encode(key).decode() if isinstance(key, bytes) else key or ""


class Message:
    """A received message, or a message that a message router receives."""

    __slots__ = ("_message", "_schema")

    _message: Any
    _schema: Schema

    def data(self) -> bytes:
        """Return the payload."""
        message = self._message
        return message.data if isinstance(message, magnetar.Message) else bytes(message.value)

    @translated
    def value(self) -> Any:
        """Return the decoded payload; raise the error of the schema if it does not fit."""
        return self._schema.decode_message(self)

    def properties(self) -> dict[str, str]:
        return dict(self._message.properties)

    def partition_key(self) -> str:
        """Return the key, in base64 if it is bytes; "" if the message has no key."""
        return key_text(self._message.key)

    def ordering_key(self) -> str:
        """Return the ordering key; "" if the message has none."""
        return (self._message.ordering_key or b"").decode("utf-8", "surrogateescape")

    def publish_timestamp(self) -> int:
        """Return the time of publication, in milliseconds."""
        return self._received().publish_time_ms

    def event_timestamp(self) -> int:
        """Return the time that the sender has set, in milliseconds; 0 if it has not."""
        return int(self._message.event_time_ms)

    def message_id(self) -> MessageId:
        message = self._received()
        return MessageId._of(message.id, message.topic)

    def topic_name(self) -> str:
        """Return the topic, or the partition of a topic, that the message came from."""
        return self._received().topic

    def redelivery_count(self) -> int:
        """Return the number of former deliveries."""
        return self._received().redelivery_count

    def schema_version(self) -> str:
        """Return the version of the writer's schema, as the broker names it; "" if none."""
        return self._received().schema_version.decode("utf-8", "surrogateescape")

    def producer_name(self) -> str:
        return self._received().producer_name

    def has_null_value(self) -> bool:
        """Tell whether the value is null, rather than empty."""
        return bool(self._message.is_null)

    def encryption_context(self) -> EncryptionContext | None:
        """Return the encryption of the message; None if it is not encrypted."""
        message = self._received()
        return EncryptionContext(message) if message.encryption_keys else None

    def _received(self) -> magnetar.Message[Any]:
        if not isinstance(self._message, magnetar.Message):
            raise ValueError("a message has this only after it was received")
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
    """A public key with which the data key of a message is encrypted."""

    def __init__(self, key: pb.EncryptionKeys) -> None:
        self._key = key

    @property
    def key(self) -> str:
        """The name of the key."""
        return self._key.key

    @property
    def value(self) -> bytes:
        """The data key, encrypted with this key."""
        return self._key.value

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata stored with the encrypted key."""
        return {pair.key: pair.value for pair in self._key.metadata}


class EncryptionContext:
    """The encryption of a message."""

    def __init__(self, context: magnetar.Message[Any]) -> None:
        self._message = context
        self._metadata = context.entry.metadata

    def keys(self) -> list[EncryptionKey]:
        return [EncryptionKey(key) for key in self._metadata.encryption_keys]

    def param(self) -> bytes:
        """Return the initialization vector."""
        return self._metadata.encryption_param

    def algorithm(self) -> str:
        return self._metadata.encryption_algo

    def compression_type(self) -> CompressionType:
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        """Return the uncompressed size of the entry in bytes; 0 if it is not recorded."""
        return self._metadata.uncompressed_size

    def batch_size(self) -> int:
        """Return the number of messages in the batch; -1 if the entry is not a batch."""
        has_batch = self._metadata.HasField("num_messages_in_batch")
        return self._metadata.num_messages_in_batch if has_batch else -1

    def is_decryption_failed(self) -> bool:
        """Return whether no key decrypted the payload, which then is as stored."""
        return self._message.is_encrypted


class MessageBatch:
    """A batch that was not received through a consumer."""

    def __init__(self) -> None:
        raise unsupported("MessageBatch", "consumers and readers return the messages of batches")
