"""The base class of schemas, and the schemas of bytes."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from magnetar.base.schema_info import SchemaInfo
from magnetar.messages import Message, Outgoing
from magnetar_proto import PulsarApi_pb2 as pb

T = TypeVar("T")


class Schema(ABC, Generic[T]):
    """Encodes and decodes values; `info` describes it to the broker."""

    info: SchemaInfo
    needs_writer = False
    """Whether decoding needs the schema of the message's writer."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the encoded value; ValueError if the value does not fit the schema."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Return the decoded value; any exception if the bytes do not fit the schema."""

    def reading(self, writer: SchemaInfo) -> "Schema[T]":
        """Return a schema that decodes messages of another schema of the topic."""
        return self

    def encode_message(self, message: Outgoing[T]) -> Outgoing:
        """Return the message with its value encoded; a value of None becomes null."""
        if message.value is None or message.is_null:
            return with_value(message, None)
        return with_value(message, self.encode(message.value))

    def decode_message(self, message: Message[Any]) -> T:
        """Return the value of a message; None if it is null."""
        return cast(T, None) if message.is_null else self.decode(message.data)


def with_value(message: Outgoing[Any], value: bytes | None) -> Outgoing:
    """Return the message with an encoded value, or null."""
    outgoing: Outgoing = replace(message, value=value or b"", is_null=value is None, schema=None)
    return outgoing


class Bytes(Schema[bytes]):
    """A schema of any bytes; the broker receives no schema."""

    info = SchemaInfo(pb.Schema.NoSchema)

    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, bytes):
            raise ValueError(
                f"expected bytes, got {value!r}: encode it, or give the producer a schema"
            )
        return value

    def decode(self, data: bytes) -> bytes:
        return data


class Encoded(Bytes):
    """Passes bytes that the application encodes itself, and registers a schema for them."""

    def __init__(self, info: SchemaInfo) -> None:
        self.info = info
