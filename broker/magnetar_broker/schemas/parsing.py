"""Parses schemas: their identity, and whether one can read data of another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from magnetar_broker.schemas import avro, key_value, protobuf_native
from magnetar_broker.schemas.avro import AvroType
from magnetar_broker.schemas.avro_identity import identity
from magnetar_broker.schemas.avro_reading import find_incompatibility
from magnetar_broker.schemas.compatibility import ParsedSchema
from magnetar_broker.schemas.key_value import KeyValueSchema
from magnetar_broker.schemas.protobuf_native import NativeSchema
from magnetar_broker.schemas.types import CLIENT_SIDE, InvalidSchema, Schema, SchemaType


@dataclass(frozen=True)
class Plain:
    """A schema of a type whose readers need nothing but the type."""

    identity: bytes

    def incompatibility(self, writer: ParsedSchema) -> str | None:
        return None


class ParsedAvro:
    """A parsed schema of AVRO, JSON, or PROTOBUF, which Avro's text describes."""

    def __init__(self, parsed: AvroType) -> None:
        self.parsed = parsed
        self.identity = identity(parsed)

    def incompatibility(self, writer: ParsedSchema) -> str | None:
        assert isinstance(writer, ParsedAvro)
        found = find_incompatibility(self.parsed, writer.parsed)
        return None if found is None else str(found)


class ParsedNative:
    """A parsed schema of PROTOBUF_NATIVE: fields have numbers, so only names are compared."""

    def __init__(self, parsed: NativeSchema) -> None:
        self.parsed = parsed
        names = f"{parsed.message}\0{parsed.file}\0"
        self.identity = names.encode() + parsed.descriptors

    def incompatibility(self, writer: ParsedSchema) -> str | None:
        assert isinstance(writer, ParsedNative)
        ours, theirs = self.parsed.message, writer.parsed.message
        return None if ours == theirs else f"the root message is {ours}, not {theirs}"


class ParsedKeyValue:
    """A parsed schema of KEY_VALUE: key and value are compared one by one."""

    def __init__(self, parsed: KeyValueSchema) -> None:
        self._types = parsed.key.type, parsed.value.type
        self._key, self._value = parsed_schema(parsed.key), parsed_schema(parsed.value)
        types = f"{self._types[0].name} {self._types[1].name} {parsed.encoding} "
        parts = key_value.join(self._key.identity, self._value.identity)
        self.identity = types.encode() + parts

    def incompatibility(self, writer: ParsedSchema) -> str | None:
        assert isinstance(writer, ParsedKeyValue)
        for part, ours, theirs in (
            ("key", self._types[0], writer._types[0]),
            ("value", self._types[1], writer._types[1]),
        ):
            if ours != theirs:
                return f"the {part} is {ours.name}, not {theirs.name}"
        found = self._key.incompatibility(writer._key)
        if found is not None:
            return f"in the key, {found}"
        found = self._value.incompatibility(writer._value)
        return None if found is None else f"in the value, {found}"


def parsed_schema(schema: Schema) -> ParsedSchema:
    """Parse a schema; `InvalidSchema` if it is not valid for its type."""
    kind = schema.type
    if kind in CLIENT_SIDE:
        raise InvalidSchema(
            "schemas of this type are used by clients only: a topic cannot have one"
        )
    return _PARSERS.get(kind, _primitive)(schema)


def digest_of(schema: Schema, parsed: ParsedSchema) -> str:
    """Return a digest that is equal for equal schemas."""
    content = f"{schema.type.name}\0".encode() + parsed.identity
    return blake2b(content, digest_size=16).hexdigest()


def for_reading(schema: Schema) -> Schema:
    """Return a consumer's schema without the data that its type ignores."""
    plain = schema.type not in _PARSERS and schema.type not in CLIENT_SIDE
    return schema._replace(data=b"") if plain else schema


def _primitive(schema: Schema) -> ParsedSchema:
    # The Python client sends "null" as the definition of its string schema.
    no_text = (b"", b"null") if schema.type is SchemaType.STRING else (b"",)
    if schema.data not in no_text:
        raise InvalidSchema(
            f"expected no data for a schema of this type, got {len(schema.data)} bytes"
        )
    return Plain(b"")


def _avro(schema: Schema) -> ParsedSchema:
    parsed = avro.parse(schema.data)
    if schema.type is SchemaType.AVRO and parsed.kind == "union":
        raise InvalidSchema("a union must be inside a record")
    return ParsedAvro(parsed)


_PARSERS: Final[Mapping[SchemaType, Callable[[Schema], ParsedSchema]]] = {
    SchemaType.NONE: lambda schema: Plain(b""),
    SchemaType.EXTERNAL: lambda schema: Plain(schema.data),
    SchemaType.AVRO: _avro,
    SchemaType.JSON: _avro,
    SchemaType.PROTOBUF: _avro,
    SchemaType.PROTOBUF_NATIVE: lambda schema: ParsedNative(protobuf_native.parse(schema.data)),
    SchemaType.KEY_VALUE: lambda schema: ParsedKeyValue(key_value.parse(schema)),
}
"""The parsers of the types whose definition needs parsing."""
