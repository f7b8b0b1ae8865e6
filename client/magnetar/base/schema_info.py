"""The description of a schema that a broker stores."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from magnetar_proto import PulsarApi_pb2 as pb

NAMES: dict[int, str] = {
    pb.Schema.NoSchema: "BYTES",
    pb.Schema.String: "STRING",
    pb.Schema.Json: "JSON",
    pb.Schema.Protobuf: "PROTOBUF",
    pb.Schema.Avro: "AVRO",
    pb.Schema.Bool: "BOOLEAN",
    pb.Schema.Int8: "INT8",
    pb.Schema.Int16: "INT16",
    pb.Schema.Int32: "INT32",
    pb.Schema.Int64: "INT64",
    pb.Schema.Float: "FLOAT",
    pb.Schema.Double: "DOUBLE",
    pb.Schema.Date: "DATE",
    pb.Schema.Time: "TIME",
    pb.Schema.Timestamp: "TIMESTAMP",
    pb.Schema.KeyValue: "KEY_VALUE",
    pb.Schema.Instant: "INSTANT",
    pb.Schema.LocalDate: "LOCAL_DATE",
    pb.Schema.LocalTime: "LOCAL_TIME",
    pb.Schema.LocalDateTime: "LOCAL_DATE_TIME",
    pb.Schema.ProtobufNative: "PROTOBUF_NATIVE",
    pb.Schema.AutoConsume: "AUTO_CONSUME",
    pb.Schema.External: "EXTERNAL",
}
"""The names of the types in the admin API and in the parts of key-value schemas."""
TYPES = {name: number for number, name in NAMES.items()} | {"NONE": pb.Schema.NoSchema}


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    """A schema as brokers store it: a type, and a definition in the language of that type."""

    type: int
    definition: bytes = b""
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def type_name(self) -> str:
        """The name of the type, such as AVRO."""
        return NAMES.get(self.type, str(self.type))

    @property
    def is_registered(self) -> bool:
        """Whether brokers are told of the schema: plain bytes have none."""
        return self.type != pb.Schema.NoSchema

    def to_pb(self) -> pb.Schema:
        """Return the schema in the form that is sent to the broker."""
        return pb.Schema(
            name=self.name or self.type_name,
            type=self.type,  # type: ignore[arg-type]
            schema_data=self.definition,
            properties=[{"key": key, "value": text} for key, text in self.properties.items()],
        )

    @classmethod
    def from_pb(cls, schema: pb.Schema) -> Self:
        """Create a schema from the form that the broker sends."""
        pairs: Iterable[Any] = schema.properties
        properties = {pair.key: pair.value for pair in pairs}
        return cls(schema.type, schema.schema_data, schema.name, properties)


def version_number(version: bytes) -> int | None:
    """Return the number in a message's schema version; None if it has no such number."""
    return int.from_bytes(version, "big") if len(version) == 8 else None
