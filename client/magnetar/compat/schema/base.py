"""Schemas of bytes and text, and the base class of an application's schemas."""

import json
from typing import Any

from magnetar.base.schema_info import SchemaInfo as OfTopic
from magnetar.compat.enums import SchemaType
from magnetar.schema.base import Encoded
from magnetar.schema.base import Schema as Receiving


class SchemaInfo:
    """The description of a schema for the broker."""

    def __init__(self, schema_type: SchemaType, name: str, schema: str) -> None:
        self._type, self._name, self._definition = schema_type, name, schema

    def schema_type(self) -> SchemaType:
        return self._type

    def name(self) -> str:
        return self._name

    def schema(self) -> str:
        """Return the definition of the schema."""
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
        """Encode a value as bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no encode")

    def decode(self, data: bytes) -> Any:
        """Decode bytes to a value."""
        raise NotImplementedError(f"{type(self).__name__} has no decode")

    def decode_message(self, msg: Any) -> Any:
        """Decode the value of a message."""
        return self.decode(msg.data())

    def schema_info(self) -> SchemaInfo:
        return self._schema_info

    def attach_client(self, client: Any) -> None:
        """Attach the client whose consumers use the schema; the client calls this."""
        self._client = client

    def _receiving(self) -> Receiving[Any] | None:
        """Return the schema for receiving, here one that passes bytes on; None means none."""
        return sending(self)

    def _decode_received(self, value: Any) -> Any:
        """Decode the value that the schema of `_receiving` has returned."""
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
    """A schema whose values are bytes."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "BYTES")

    def encode(self, data: bytes) -> bytes:
        self._validate_object_type(data)
        return data

    def decode(self, data: bytes) -> bytes:
        return data


class StringSchema(Schema):
    """A schema whose values are text, sent as UTF-8."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.STRING, None, "STRING")

    def encode(self, obj: str) -> bytes:
        self._validate_object_type(obj)
        return obj.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


def sending(schema: Schema) -> Encoded | None:
    """Return the schema of a producer: values are encoded before; None for bytes."""
    info = schema.schema_info()
    if info.schema_type() in (SchemaType.BYTES, SchemaType.NONE):
        return None
    return Encoded(OfTopic(int(info.schema_type()), info.schema().encode(), info.name()))
