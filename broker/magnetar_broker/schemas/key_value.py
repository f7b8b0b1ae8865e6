"""KEY_VALUE: two schemas in one, each after its length; their types are properties."""

import json
import struct
from typing import Any, Final, NamedTuple

from magnetar_broker.schemas.types import InvalidSchema, Schema, SchemaType, type_named

KEY_TYPE, VALUE_TYPE = "key.schema.type", "value.schema.type"
ENCODING: Final = "kv.encoding.type"
ENCODINGS: Final = ("INLINE", "SEPARATED")
"""The places of the key: in the payload with the value, or as the message's key."""

_LENGTH: Final = struct.Struct(">i")


class KeyValueSchema(NamedTuple):
    """The schemas of key and value, and the encoding of the key in messages."""

    key: Schema
    value: Schema
    encoding: str


def parse(schema: Schema) -> KeyValueSchema:
    """Return the schemas of key and value; InvalidSchema if the data has none.

    An unset type means bytes.
    """
    properties = dict(schema.properties)
    key, rest = _part(schema.data)
    value, rest = _part(rest)
    if rest:
        raise InvalidSchema(f"{len(rest)} bytes follow the schemas of key and value")
    encoding = properties.get(ENCODING, "INLINE")
    if encoding not in ENCODINGS:
        raise InvalidSchema(f"{ENCODING} is {encoding!r}: expected one of {', '.join(ENCODINGS)}")
    return KeyValueSchema(
        Schema(_type(properties, KEY_TYPE), key),
        Schema(_type(properties, VALUE_TYPE), value),
        encoding,
    )


def join(key: bytes, value: bytes) -> bytes:
    """Return the data of a key-value schema."""
    return _LENGTH.pack(len(key)) + key + _LENGTH.pack(len(value)) + value


def _part(data: bytes) -> tuple[bytes, bytes]:
    """Return the bytes after a length, and the rest; a length of -1 is an empty part."""
    if len(data) < _LENGTH.size:
        raise InvalidSchema("its data must be the schemas of key and value, each after its length")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + max(length, 0)
    if length < -1 or end > len(data):
        raise InvalidSchema(f"expected a part of {length} bytes but got {len(data) - 4}")
    return data[_LENGTH.size : end], data[end:]


def _type(properties: dict[str, str], key: str) -> SchemaType:
    try:
        kind = type_named(properties.get(key) or SchemaType.NONE.name)
    except ValueError as error:
        raise InvalidSchema(f"{key}: {error}") from error
    if kind is SchemaType.KEY_VALUE:
        raise InvalidSchema(f"{key}: a key-value schema cannot contain another one")
    return kind


# As JSON, for the admin API -------------------------------------------------------------------


def to_json(data: bytes) -> str:
    """Return `{"key": ..., "value": ...}`, where a part is an object if it is JSON, else text."""
    key, rest = _part(data)
    value, _ = _part(rest)
    return json.dumps({"key": _json_part(key), "value": _json_part(value)}, separators=(",", ":"))


def _json_part(part: bytes) -> Any:
    text = part.decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_FORM = 'expected JSON like {"key": ..., "value": ...}'


def from_json(text: str) -> bytes:
    """Return the data that JSON like `to_json` describes; InvalidSchema if it describes none."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"{_FORM}: {error}") from error
    if not isinstance(parts, dict) or not {"key", "value"} <= parts.keys():
        raise InvalidSchema(_FORM)
    return join(_part_of_json(parts["key"]), _part_of_json(parts["value"]))


def _part_of_json(part: Any) -> bytes:
    """Return an object as JSON; a text that is JSON, or empty, is returned as it is."""
    if isinstance(part, str) and (not part or isinstance(_json_part(part.encode()), dict | list)):
        return part.encode()
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False).encode()
