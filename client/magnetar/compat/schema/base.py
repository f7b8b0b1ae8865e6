"""Schemas of bytes and text, and the base of all that applications derive."""

import json
from typing import Any

from magnetar.compat.enums import SchemaType
from magnetar.schema.base import Encoded
from magnetar.schema.base import Schema as Receiving
from magnetar.schema.info import SchemaInfo as OfTopic


class SchemaInfo:
    """What the broker is told of a schema."""

    def __init__(self, schema_type: SchemaType, name: str, schema: str) -> None:
        self._type, self._name, self._definition = schema_type, name, schema

    def schema_type(self) -> SchemaType:
        return self._type

    def name(self) -> str:
        return self._name

    def schema(self) -> str:
        """The definition."""
        return self._definition


class Schema:
    """Encodes and decodes values; applications may derive their own."""

    def __init__(
        self,
        record_cls: Any,
        schema_type: SchemaType,
        schema_definition: object,
        schema_name: str,
    ) -> None:
        self._record_cls = record_cls
        definition = json.dumps(schema_definition, indent=1)
        self._schema_info = SchemaInfo(schema_type, schema_name, definition)

    def encode(self, obj: Any) -> bytes:
        """The value as bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no encode")

    def decode(self, data: bytes) -> Any:
        """The value of bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no decode")

    def decode_message(self, msg: Any) -> Any:
        """The value of a message."""
        return self.decode(msg.data())

    def schema_info(self) -> SchemaInfo:
        return self._schema_info

    def attach_client(self, client: Any) -> None:
        """Called with the client whose consumers use it."""
        self._client = client

    def _receiving(self) -> Receiving[Any] | None:
        """With what the client receives: here it passes on bytes; None for those of no schema."""
        return sending(self)

    def _decode_received(self, value: Any) -> Any:
        """The value of what `_receiving` has made of a message."""
        return self.decode(value)

    def _validate_object_type(self, obj: Any) -> None:
        if not isinstance(obj, self._record_cls):
            raise TypeError(
                f"the value is of type {type(obj).__name__}, but must be of "
                f"{self._record_cls.__name__}"
            )

    def __str__(self) -> str:
        return type(self).__name__


class BytesSchema(Schema):
    """Values are bytes."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "BYTES")

    def encode(self, data: bytes) -> bytes:
        self._validate_object_type(data)
        return data

    def decode(self, data: bytes) -> bytes:
        return data


class StringSchema(Schema):
    """Values are text, sent as UTF-8."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.STRING, None, "STRING")

    def encode(self, obj: str) -> bytes:
        self._validate_object_type(obj)
        return obj.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


def sending(schema: Schema) -> Encoded | None:
    """What a producer tells the broker: values are encoded before; None for bytes."""
    info = schema.schema_info()
    if info.schema_type() in (SchemaType.BYTES, SchemaType.NONE):
        return None
    return Encoded(OfTopic(int(info.schema_type()), info.schema().encode(), info.name()))
