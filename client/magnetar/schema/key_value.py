"""Pairs of a key and a value, each with a schema."""

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.schema_info import TYPES, SchemaInfo
from magnetar.messages import Message, Outgoing
from magnetar.schema.base import Schema, with_value
from magnetar_proto import PulsarApi_pb2 as pb

K = TypeVar("K")
W = TypeVar("W")

INLINE, SEPARATED = "inline", "separated"
ENCODINGS = (INLINE, SEPARATED)

_ENCODING = "kv.encoding.type"
_LENGTH = struct.Struct(">i")
_NONE = -1
"""The length that marks a part that is None."""


class KeyValue(Schema[tuple[K, W]], Generic[K, W]):
    """A schema of tuples of key and value.

    inline: both are in the payload.  separated: the key is the key of the message, and therefore
    determines the partition, and compaction keeps the last value of each key.
    """

    def __init__(self, key: Schema[K], value: Schema[W], encoding: str = INLINE) -> None:
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding {encoding!r} is unknown; known are {', '.join(ENCODINGS)}")
        self._key = key
        self._value = value
        self.is_separated = encoding == SEPARATED
        self.needs_writer = key.needs_writer or value.needs_writer
        properties = {_ENCODING: encoding.upper()}
        for part, schema in (("key", key), ("value", value)):
            properties[f"{part}.schema.name"] = schema.info.name
            properties[f"{part}.schema.type"] = schema.info.type_name
            properties[f"{part}.schema.properties"] = json.dumps(dict(schema.info.properties))
        text = join(key.info.definition, value.info.definition)
        self.info = SchemaInfo(pb.Schema.KeyValue, text, "KeyValue", properties)

    def encode(self, value: tuple[K, W]) -> bytes:
        key, what = _pair(value)
        return join(
            None if key is None else self._key.encode(key),
            None if what is None else self._value.encode(what),
        )

    def decode(self, data: bytes) -> tuple[K, W]:
        return self._decoded(*split(data))

    def encode_message(self, message: Outgoing[tuple[K, W]]) -> Outgoing:
        if message.value is None or message.is_null or not self.is_separated:
            return super().encode_message(message)
        if message.key is not None:
            raise ValueError(
                "with separated keys the value has the key of the message: leave out key"
            )
        key, what = _pair(message.value)
        keyed: Outgoing[Any] = message
        if key is not None:
            keyed = replace(message, key=self._key.encode(key))
        return with_value(keyed, None if what is None else self._value.encode(what))

    def decode_message(self, message: Message[Any]) -> tuple[K, W]:
        if not self.is_separated:
            return super().decode_message(message)
        key = message.key.encode() if isinstance(message.key, str) else message.key
        return self._decoded(key, None if message.is_null else message.data)

    def reading(self, writer: SchemaInfo) -> "KeyValue[K, W]":
        if writer.type != pb.Schema.KeyValue:
            raise ValueError(f"its type is {writer.type_name}, not KEY_VALUE")
        key, value, encoding = parts(writer)
        return KeyValue(self._key.reading(key), self._value.reading(value), encoding)

    def _decoded(self, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        return (
            None if key is None else self._key.decode(key),
            None if value is None else self._value.decode(value),
        )


def _pair(value: Any) -> Any:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"expected a tuple of key and value, got {value!r}")
    return value


def join(key: bytes | None, value: bytes | None) -> bytes:
    """Join two parts, each after its length."""
    return b"".join(
        _LENGTH.pack(_NONE) if part is None else _LENGTH.pack(len(part)) + part
        for part in (key, value)
    )


def split(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Split joined parts; ValueError if the data is malformed."""
    found = []
    at = 0
    for _ in range(2):
        if at + _LENGTH.size > len(data):
            raise ValueError("expected a key and a value, each after its length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length < _NONE or at + max(length, 0) > len(data):
            raise ValueError(f"expected a key or value of {length} bytes, got {len(data) - at}")
        found.append(None if length == _NONE else data[at : at + length])
        at += max(length, 0)
    return found[0], found[1]


def parts(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo, str]:
    """Return the schemas of key and value, and the encoding; ValueError for other schemas."""
    key, value = split(info.definition)
    encoding = info.properties.get(_ENCODING, INLINE).lower()
    return _part(info, "key", key), _part(info, "value", value), encoding


def _part(info: SchemaInfo, part: str, definition: bytes | None) -> SchemaInfo:
    named = info.properties
    kind = named.get(f"{part}.schema.type") or "BYTES"
    if kind not in TYPES:
        raise ValueError(f"{part}.schema.type {kind!r} is unknown")
    properties: Mapping[str, str] = json.loads(named.get(f"{part}.schema.properties") or "{}")
    return SchemaInfo(
        TYPES[kind], definition or b"", named.get(f"{part}.schema.name", ""), properties
    )
