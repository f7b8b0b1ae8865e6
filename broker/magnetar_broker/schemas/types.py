"""The parts of a schema: its type, its text, and its properties."""

from enum import IntEnum
from typing import Any, Final, NamedTuple


class InvalidSchema(Exception):
    """A definition is not a valid schema of its type; the text gives place and reason."""


class SchemaType(IntEnum):
    """The types of schemas with their numbers in the protocol; negative ones are never sent."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22
    BYTES = -1
    AUTO = -2
    AUTO_PUBLISH = -4


CLIENT_SIDE: Final = frozenset((SchemaType.AUTO, SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH))
"""Types that ask a client to choose a schema; a topic cannot have one of them."""


class Schema(NamedTuple):
    """A schema as a client sent it, unchecked."""

    type: SchemaType
    data: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()
    """The properties in the order in which they were given."""


def schema_of(sent: Any) -> Schema:
    """Convert a schema from the protocol's `Schema`."""
    properties = tuple((pair.key, pair.value) for pair in sent.properties)
    return Schema(SchemaType(sent.type), sent.schema_data, properties)


def type_named(name: str) -> SchemaType:
    """Return the type of the name that the admin API and key-value schemas use for it.

    ValueError if no type has that name.  BYTES is NONE: a message without a schema.
    """
    kind = SchemaType.__members__.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is not a schema type: expected one of {', '.join(NAMES)}")
    return SchemaType.NONE if kind is SchemaType.BYTES else kind


NAMES: Final = tuple(kind.name for kind in SchemaType if kind not in CLIENT_SIDE)
