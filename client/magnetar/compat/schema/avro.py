"""Records, or dicts with a definition, in Avro encoding.  Needs `magnetar[avro]`."""

import json
from typing import Any

import magnetar
from magnetar.base.schema_info import SchemaInfo
from magnetar.compat.enums import SchemaType
from magnetar.compat.schema.base import Schema
from magnetar.compat.schema.definition import Record, avro_value
from magnetar.compat.schema.json_schema import check_record
from magnetar.schema.avro import Avro
from magnetar_proto import PulsarApi_pb2 as pb


class _OfWriter(Avro[Any]):
    """Decodes by the writer's schema alone; the record then omits fields, and fills in others."""

    def reading(self, writer: SchemaInfo) -> Avro[Any]:
        if writer.type != pb.Schema.Avro:
            raise ValueError(f"its type is {writer.type_name}, not AVRO")
        # promise[Avro(definition=json.loads(writer.definition)) -> self]: messages are decoded by
        #   the schema of their writer
        return Avro(definition=json.loads(writer.definition))


class AvroSchema(Schema):
    """A schema of records; without `record_cls` values are dicts, by `schema_definition`.

    Messages are decoded with the schema of their writer.
    """

    def __init__(
        self, record_cls: type[Record] | None, schema_definition: dict[str, Any] | None = None
    ) -> None:
        if record_cls is None and schema_definition is None:
            raise ValueError("AvroSchema needs a record class or a schema definition")
        if record_cls is not None:
            check_record(record_cls, "AvroSchema")
            schema_definition = schema_definition or record_cls.schema()
        super().__init__(record_cls or dict, SchemaType.AVRO, schema_definition, "AVRO")
        kind = Avro if record_cls is None else _OfWriter
        self._avro: Avro[Any] = kind(definition=schema_definition or {})

    def encode(self, obj: Any) -> bytes:
        self._validate_object_type(obj)
        return self._avro.encode(avro_value(obj))

    def encode_dict(self, d: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the dict with records as dicts and enum members as names."""
        return {key: avro_value(value) for key, value in d.items()}

    def decode(self, data: bytes) -> Any:
        return self._value(self._avro.decode(data))

    def decode_message(self, msg: Any) -> Any:
        received = msg._message
        if not isinstance(received, magnetar.Message) or received.is_null:
            return self.decode(msg.data())
        return self._value(received.value)

    def _receiving(self) -> Avro[Any]:
        return self._avro

    def _decode_received(self, value: Any) -> Any:
        return self._value(value)

    def _value(self, plain: Any) -> Any:
        return plain if self._record_cls is dict else self._record_cls(**plain)
