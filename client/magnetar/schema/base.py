"""The base class of schemas, and those of bytes."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from magnetar.messages import Outgoing
from magnetar.schema.info import SchemaInfo
from magnetar_proto import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from magnetar.messages import Message

T = TypeVar("T")


class Schema(ABC, Generic[T]):
    """Makes bytes of values and values of bytes; `info` is what the broker is told of it."""

    info: SchemaInfo
    needs_writer = False
    """Whether decoding needs the schema that the message was written with."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """As it is sent; ValueError if the value does not fit the schema."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """The value; any exception if the bytes are none of this schema."""

    def reading(self, writer: SchemaInfo) -> "Schema[T]":
        """A schema that decodes what was written with another one of the topic."""
        return self

    def encode_message(self, message: Outgoing[T]) -> Outgoing:
        """The message with its value in bytes; a value of None is no value at all."""
        if message.value is None or message.is_null:
            return with_value(message, None)
        return with_value(message, self.encode(message.value))

    def decode_message(self, message: "Message[Any]") -> T:
        """The value of a message; None if it has none."""
        return cast(T, None) if message.is_null else self.decode(message.data)


def with_value(message: Outgoing[Any], value: bytes | None) -> Outgoing:
    """The message with its value in bytes, or with none."""
    outgoing: Outgoing = replace(message, value=value or b"", is_null=value is None, schema=None)
    return outgoing


class Bytes(Schema[bytes]):
    """Any bytes, as without a schema: the broker is told of none."""

    info = SchemaInfo(pb.Schema.NoSchema)

    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, bytes):
            raise ValueError(f"{value!r} is no bytes: encode it, or give the producer a schema")
        return value

    def decode(self, data: bytes) -> bytes:
        return data


class Encoded(Bytes):
    """Bytes that the application encodes and decodes by a schema that is registered as it is."""

    def __init__(self, info: SchemaInfo) -> None:
        self.info = info
