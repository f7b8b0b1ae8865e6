"""What schemas mean: the same one in other words is equal, and one may read what another wrote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from magnetar_broker.schemas import avro, key_value, protobuf_native
from magnetar_broker.schemas.avro import AvroType
from magnetar_broker.schemas.avro_identity import identity
from magnetar_broker.schemas.avro_reading import find_misfit
from magnetar_broker.schemas.compatibility import Form
from magnetar_broker.schemas.key_value import KeyValueSchema
from magnetar_broker.schemas.protobuf_native import NativeSchema
from magnetar_broker.schemas.types import CLIENT_SIDE, InvalidSchema, Schema, SchemaType


@dataclass(frozen=True)
class Plain:
    """Nothing but its type matters to readers."""

    identity: bytes

    def misfit(self, writer: Form) -> str | None:
        return None


class AvroForm:
    """AVRO, JSON, and PROTOBUF: all three are described by Avro's text."""

    def __init__(self, parsed: AvroType) -> None:
        self.parsed = parsed
        self.identity = identity(parsed)

    def misfit(self, writer: Form) -> str | None:
        assert isinstance(writer, AvroForm)
        found = find_misfit(self.parsed, writer.parsed)
        return None if found is None else str(found)


class NativeForm:
    """PROTOBUF_NATIVE: fields have numbers, so only the message's name is compared."""

    def __init__(self, parsed: NativeSchema) -> None:
        self.parsed = parsed
        names = f"{parsed.message}\0{parsed.file}\0"
        self.identity = names.encode() + parsed.descriptors

    def misfit(self, writer: Form) -> str | None:
        assert isinstance(writer, NativeForm)
        ours, theirs = self.parsed.message, writer.parsed.message
        return None if ours == theirs else f"the root message is {ours}, not {theirs}"


class KeyValueForm:
    """KEY_VALUE: key and value are compared one by one."""

    def __init__(self, parsed: KeyValueSchema) -> None:
        self._types = parsed.key.type, parsed.value.type
        self._key, self._value = form_of(parsed.key), form_of(parsed.value)
        types = f"{self._types[0].name} {self._types[1].name} {parsed.encoding} "
        parts = key_value.join(self._key.identity, self._value.identity)
        self.identity = types.encode() + parts

    def misfit(self, writer: Form) -> str | None:
        assert isinstance(writer, KeyValueForm)
        for part, ours, theirs in (
            ("key", self._types[0], writer._types[0]),
            ("value", self._types[1], writer._types[1]),
        ):
            if ours != theirs:
                return f"the {part} is {ours.name}, not {theirs.name}"
        found = self._key.misfit(writer._key)
        if found is not None:
            return f"in the key, {found}"
        found = self._value.misfit(writer._value)
        return None if found is None else f"in the value, {found}"


def form_of(schema: Schema) -> Form:
    """What a schema means; InvalidSchema if it means nothing."""
    kind = schema.type
    if kind in CLIENT_SIDE:
        raise InvalidSchema("it is for clients only: no topic can have it")
    return _FORMS.get(kind, _primitive)(schema)


def digest_of(schema: Schema, form: Form) -> str:
    """A short name that equal schemas share, and no others."""
    said = f"{schema.type.name}\0".encode() + form.identity
    return blake2b(said, digest_size=16).hexdigest()


def for_reading(schema: Schema) -> Schema:
    """What counts of a consumer's schema: of one that is told by its type alone, no text."""
    plain = schema.type not in _FORMS and schema.type not in CLIENT_SIDE
    return schema._replace(data=b"") if plain else schema


def _primitive(schema: Schema) -> Form:
    no_text = (b"", b"null") if schema.type is SchemaType.STRING else (b"",)  # Python says "null"
    if schema.data not in no_text:
        raise InvalidSchema(f"a schema of this type has no text; {len(schema.data)} bytes came")
    return Plain(b"")


def _avro(schema: Schema) -> Form:
    parsed = avro.parse(schema.data)
    if schema.type is SchemaType.AVRO and parsed.kind == "union":
        raise InvalidSchema("a union must stand in a record")
    return AvroForm(parsed)


_FORMS: Final[Mapping[SchemaType, Callable[[Schema], Form]]] = {
    SchemaType.NONE: lambda schema: Plain(b""),
    SchemaType.EXTERNAL: lambda schema: Plain(schema.data),
    SchemaType.AVRO: _avro,
    SchemaType.JSON: _avro,
    SchemaType.PROTOBUF: _avro,
    SchemaType.PROTOBUF_NATIVE: lambda schema: NativeForm(protobuf_native.parse(schema.data)),
    SchemaType.KEY_VALUE: lambda schema: KeyValueForm(key_value.parse(schema)),
}
"""How those are understood that are not told by their type alone."""
