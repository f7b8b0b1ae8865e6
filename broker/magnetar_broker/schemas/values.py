"""Schemas as plain values, which can be sent to another process."""

from typing import Any

from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.types import Schema, SchemaType


def schema_values(schema: Schema) -> tuple[Any, ...]:
    """Return a schema as a plain value."""
    return int(schema.type), schema.data, schema.properties


def schema_of_values(values: tuple[Any, ...]) -> Schema:
    """Return the schema of a plain value."""
    number, data, properties = values
    return Schema(SchemaType(number), data, properties)


def registered_values(found: Registered | None) -> tuple[Any, ...] | None:
    """Return a version, or None for none, as a plain value."""
    if found is None:
        return None
    return found.number, schema_values(found.schema), found.timestamp_ms


def registered_of(values: tuple[Any, ...] | None) -> Registered | None:
    """Return the version of a plain value."""
    if values is None:
        return None
    number, schema, timestamp_ms = values
    return Registered(number, schema_of_values(schema), timestamp_ms)
