"""JSON and Avro, with classes or with a definition in Avro's JSON."""

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, overload

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Schema
from magnetar.schema.field_types import FieldType, Record, field_type
from magnetar_proto import PulsarApi_pb2 as pb

T = TypeVar("T")


class Json(Schema[T], Generic[T]):
    """A dataclass or a pydantic model as JSON; or with only a definition, any JSON value.

    Additional fields of a message are ignored, missing ones get their defaults.
    """

    @overload
    def __init__(self, kind: type[T], *, namespace: str = "") -> None: ...
    @overload
    def __init__(self: "Json[Any]", *, definition: Mapping[str, Any]) -> None: ...
    def __init__(
        self,
        kind: Any = None,
        *,
        definition: Mapping[str, Any] | None = None,
        namespace: str = "",
    ) -> None:
        """`definition` is an Avro schema, which is registered but not used to check values."""
        self._type = None if kind is None else field_type(kind, True)
        text = definition_text(self._type, definition, namespace)
        self.info = SchemaInfo(pb.Schema.Json, text, "JSON")

    def encode(self, value: T) -> bytes:
        plain = value if self._type is None else self._type.to_plain(value)
        try:
            return json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"{value!r} cannot be written as JSON: {error}") from error

    def decode(self, data: bytes) -> T:
        plain = json.loads(data)
        value: T = plain if self._type is None else self._type.from_plain(plain)
        return value


def definition_text(
    kind: FieldType | None, definition: Mapping[str, Any] | None, namespace: str
) -> bytes:
    """Return the text of the definition, which is generated from the class if none is given."""
    if (kind is None) == (definition is None):
        raise ValueError("give either a class or a definition")
    if kind is None:
        return json.dumps(definition).encode()
    if not isinstance(kind, Record):
        raise ValueError("the class must be a dataclass or a pydantic model")
    made: dict[str, Any] = kind.definition({})
    if namespace:
        made = {"type": "record", "name": made["name"], "namespace": namespace} | made
    return json.dumps(made).encode()
