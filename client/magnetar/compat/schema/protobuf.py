"""Messages of classes that protoc has generated."""

import json
from typing import Any

from google.protobuf.message import Message

from magnetar.compat.enums import SchemaType
from magnetar.compat.schema.base import Schema
from magnetar.schema.protobuf import native_definition


class ProtobufNativeSchema(Schema):
    """Values are messages of a generated class; the broker is told its descriptor."""

    def __init__(self, record_cls: type[Message]) -> None:
        if not (isinstance(record_cls, type) and issubclass(record_cls, Message)):
            raise TypeError(f"{record_cls!r} is no class that protoc has generated")
        definition = json.loads(native_definition(record_cls.DESCRIPTOR))
        super().__init__(record_cls, SchemaType.PROTOBUF_NATIVE, definition, "PROTOBUF_NATIVE")

    def encode(self, obj: Any) -> bytes:
        self._validate_object_type(obj)
        data: bytes = obj.SerializeToString()
        return data

    def decode(self, data: bytes) -> Any:
        return self._record_cls.FromString(data)

    def __str__(self) -> str:
        return f"ProtobufNativeSchema({self._record_cls.__name__})"
