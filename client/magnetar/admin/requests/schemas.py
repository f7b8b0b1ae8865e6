"""Requests about the schemas of topics; `magnetar.schema` makes and uses them."""

import json
from dataclasses import dataclass
from typing import Any

from magnetar.admin.requests.request import Figures, Request, ask, given, nothing
from magnetar.base.schema_info import TYPES, SchemaInfo
from magnetar.schema.key_value import join, split
from magnetar_proto import PulsarApi_pb2 as pb


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a topic's schema, as the broker has stored it."""

    number: int
    schema: SchemaInfo
    time_ms: int
    """The time, in ms since 1970, at which the version was registered."""


def get(topic: str, version: int | None = None) -> Request[SchemaVersion]:
    """Get the latest version of a topic's schema, or this one."""
    if version is None:
        return ask("schemas.latest", topic, result=_version)
    return ask("schemas.version", topic, version, result=_version)


def versions(topic: str) -> Request[list[SchemaVersion]]:
    """List all versions of a topic's schema, oldest first."""
    return ask("schemas.versions", topic, result=_versions)


def upload(topic: str, schema: SchemaInfo) -> Request[int]:
    """Add a version, and return its number, or the number of an identical version."""
    return ask("schemas.post", topic, body=_body(schema), result=_added)


def version_of(topic: str, schema: SchemaInfo) -> Request[int]:
    """Return the number of the identical version; -1 if there is no such version."""
    return ask("schemas.number", topic, body=_body(schema), result=_number)


def is_compatible(topic: str, schema: SchemaInfo) -> Request[bool]:
    """Tell whether the schema could be added; if not, Magnetar answers Refused, with the reason."""
    return ask("schemas.compatibility", topic, body=_body(schema), result=_is_compatible)


def metadata(topic: str) -> Request[Figures | None]:
    """Get where the versions of a topic's schema are stored; None if the topic has no schema."""
    return ask("schemas.metadata", topic)


def delete(topic: str, *, force: bool = False) -> Request[None]:
    """Delete all versions; with `force` their numbers are deleted, too."""
    return ask("schemas.delete", topic, query=given(force=force), result=nothing)


def _body(schema: SchemaInfo) -> Figures:
    return {
        "type": schema.type_name,
        "schema": _text(schema),
        "properties": dict(schema.properties),
    }


def _version(found: Any) -> SchemaVersion:
    kind, text = TYPES[found["type"]], found["data"]
    definition = _pair(text) if kind == pb.Schema.KeyValue else text.encode()
    info = SchemaInfo(kind, definition, found["type"], found.get("properties") or {})
    return SchemaVersion(int(found["version"]), info, int(found["timestamp"]))


def _text(schema: SchemaInfo) -> str:
    """Return the definition as text; for pairs, a JSON object with both definitions."""
    if schema.type != pb.Schema.KeyValue:
        return schema.definition.decode()
    key, value = split(schema.definition)
    return json.dumps({"key": _part(key), "value": _part(value)})


def _part(definition: bytes | None) -> Any:
    text = (definition or b"").decode()
    return json.loads(text) if text.startswith(("{", "[")) else text


def _pair(text: str) -> bytes:
    found = json.loads(text)
    parts = (found["key"], found["value"])
    key, value = (one if isinstance(one, str) else json.dumps(one) for one in parts)
    return join(key.encode(), value.encode())


def _versions(found: Any) -> list[SchemaVersion]:
    return [_version(one) for one in found["getSchemaResponses"]]


def _added(found: Any) -> int:
    return int(found["version"]["version"])


def _number(found: Any) -> int:
    return int(found["version"])


def _is_compatible(found: Any) -> bool:
    return bool(found["compatibility"])
