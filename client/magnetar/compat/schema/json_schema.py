"""Records encoded as JSON."""

import json
from typing import Any

from magnetar.compat.enums import SchemaType
from magnetar.compat.schema.base import Schema
from magnetar.compat.schema.definition import Record, json_value


class JsonSchema(Schema):
    """A schema of records as JSON; members of enums as their values, and bytes as text."""

    def __init__(self, record_cls: type[Record]) -> None:
        definition = check_record(record_cls, "JsonSchema").schema()
        super().__init__(record_cls, SchemaType.JSON, definition, "JSON")

    def encode(self, obj: Any) -> bytes:
        self._validate_object_type(obj)
        return json.dumps(obj, default=json_value, indent=1).encode()

    def decode(self, data: bytes) -> Any:
        return self._record_cls(**json.loads(data))


def check_record(record_cls: Any, schema: str) -> type[Record]:
    """Return the class; TypeError unless it is a subclass of Record."""
    if isinstance(record_cls, type) and issubclass(record_cls, Record):
        return record_cls
    raise TypeError(f"{schema} needs a subclass of Record, got {record_cls!r}")
