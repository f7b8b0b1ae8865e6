"""Avro: classes, or dicts with a definition, in Avro's binary encoding.  Needs `magnetar[avro]`."""

import copy
import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Generic, TypeVar, overload

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.avro_limits import check
from magnetar.schema.base import Schema
from magnetar.schema.field_types import field_type
from magnetar.schema.records import definition_text
from magnetar_proto import PulsarApi_pb2 as pb

T = TypeVar("T")

Reading = Callable[[BytesIO], Any]


class Avro(Schema[T], Generic[T]):
    """A schema of a dataclass or a pydantic model in Avro; or of dicts, with only a definition.

    Messages are decoded with the schema of their writer.  Additional fields of a message are
    ignored, missing ones get their defaults.
    """

    needs_writer = True

    @overload
    def __init__(self, kind: type[T], *, namespace: str = "") -> None: ...
    @overload
    def __init__(self: "Avro[dict[str, Any]]", *, definition: Mapping[str, Any]) -> None: ...
    def __init__(
        self,
        kind: Any = None,
        *,
        definition: Mapping[str, Any] | None = None,
        namespace: str = "",
    ) -> None:
        """`definition` is an Avro schema; ValueError if it, or the class, cannot be used."""
        self._type = None if kind is None else field_type(kind, False)
        text = definition_text(self._type, definition, namespace)
        self.info = SchemaInfo(pb.Schema.Avro, text, "AVRO")
        self._parsed = _parsed(json.loads(text))
        self._read = _reading(self._parsed, None)

    def encode(self, value: T) -> bytes:
        plain = value if self._type is None else self._type.to_plain(value)
        buffer = BytesIO()
        try:
            _fastavro().schemaless_writer(buffer, self._parsed, plain)
        except Exception as error:  # it has no exception of its own for such values
            raise ValueError(f"{value!r} does not fit the schema: {error}") from error
        return buffer.getvalue()

    def decode(self, data: bytes) -> T:
        plain = self._read(BytesIO(data))
        value: T = plain if self._type is None else self._type.from_plain(plain)
        return value

    def reading(self, writer: SchemaInfo) -> "Avro[T]":
        if writer.type != pb.Schema.Avro:
            raise ValueError(f"its type is {writer.type_name}, not AVRO")
        if writer.definition == self.info.definition:
            return self
        definition = json.loads(writer.definition)
        other = copy.copy(self)
        if self._type is not None:
            # The class itself ignores and fills in fields, whatever its former name.
            other._read = _reading(_parsed(definition), None)
        else:
            parsed = _parsed(definition)
            if isinstance(parsed, dict) and "name" in parsed and "name" in self._parsed:
                # A record may be renamed, but fastavro reads no record of another name.
                parsed = parsed | {"name": self._parsed["name"]}
            other._read = _reading(parsed, self._parsed)
        return other


def _parsed(definition: Any) -> Any:
    try:
        return _fastavro().parse_schema(definition)
    except Exception as error:  # it has no exception of its own for an invalid schema
        raise ValueError(f"the definition is not an Avro schema: {error!r}") from error


def _reading(writer: Any, reader: Any) -> Reading:
    # promise[check(writer) -> check(writer) and False]: data that nests deeply is refused
    is_recursive = check(writer)
    if is_recursive:
        # The compiled reader would exhaust the stack of the process on deeply nested data.
        from fastavro._read_py import schemaless_reader  # noqa: PLC0415 (optional)
    else:
        schemaless_reader = _fastavro().schemaless_reader

    def read(buffer: BytesIO) -> Any:
        return schemaless_reader(buffer, writer, reader)

    return read


def _fastavro() -> Any:
    try:
        import fastavro  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise ImportError("Avro needs fastavro: pip install 'magnetar[avro]'") from error
    return fastavro
