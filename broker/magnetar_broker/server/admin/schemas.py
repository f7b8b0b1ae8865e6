"""Schemas over HTTP: read a topic's versions, add one, check compatibility, delete.

The topic need not exist: its schema can be registered before it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from magnetar_broker.base.errors import SchemaInvalid, SchemaRefused
from magnetar_broker.names.directory import Directory
from magnetar_broker.schemas import key_value
from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.types import InvalidSchema, Schema, SchemaType, type_named
from magnetar_broker.server.admin.context import AdminContext, namespace_of, serving, topic_of
from magnetar_broker.server.admin.refusals import no_namespace
from magnetar_broker.server.http.messages import (
    Refused,
    Request,
    Response,
    json_response,
    text_response,
)

UNKNOWN_VERSION = -1
MAX_VERSION_DIGITS = 19


async def latest(context: AdminContext, request: Request) -> Response:
    """Return the latest version of a topic's schema."""
    return await _version(context, request, None)


async def version(context: AdminContext, request: Request) -> Response:
    """Return the version of a topic's schema that the path names."""
    number = request.part("version")
    if not (number.isascii() and number.removeprefix("-").isdecimal()):
        raise Refused(400, f"version is {number!r}: expected a whole number")
    return await _version(context, request, int(number[:MAX_VERSION_DIGITS]))


async def _version(context: AdminContext, request: Request, number: int | None) -> Response:
    directory, topic = serving(context), topic_of(request)
    found = await directory.schemas.get(topic, number)
    if found is None:
        which = "no schema" if number is None else f"no schema version {number}"
        raise Refused(404, f"{topic} has {which}: GET .../schemas lists its versions")
    return json_response(_as_json(found))


async def versions(context: AdminContext, request: Request) -> Response:
    """Return all versions of a topic's schema, the oldest first."""
    found = await serving(context).schemas.versions(topic_of(request))
    return json_response({"getSchemaResponses": [_as_json(one) for one in found]})


async def metadata(context: AdminContext, request: Request) -> Response:
    """Return the numbers of all versions, none without a schema; ledger and entry are always -1."""
    found = await serving(context).schemas.versions(topic_of(request))
    entries = [{"ledgerId": -1, "entryId": -1, "version": one.number} for one in found]
    if not entries:
        return text_response("")
    return json_response({"info": entries[-1], "index": entries})


async def post(context: AdminContext, request: Request) -> Response:
    """Add a version if it is compatible; a schema that is already registered keeps its number."""
    directory, topic = serving(context), topic_of(request)
    await _require_namespace(directory, request)
    await directory.policies.load(topic)
    with _refusals():
        number = await directory.schemas.register(topic, _sent(request))
    return json_response({"version": {"version": number}})


async def delete(context: AdminContext, request: Request) -> Response:
    """Delete the schema; the numbers of later versions continue, but restart after `force=true`."""
    directory, topic = serving(context), topic_of(request)
    await _require_namespace(directory, request)
    if request.query.get("force") == "true":
        await directory.schemas.delete(topic)
        return json_response({"version": UNKNOWN_VERSION})
    return json_response({"version": await directory.schemas.remove(topic)})


async def compatibility(context: AdminContext, request: Request) -> Response:
    """Check a schema against the strategy, without adding it."""
    directory, topic = serving(context), topic_of(request)
    await directory.policies.load(topic)
    with _refusals():
        await directory.schemas.check(topic, _sent(request))
    strategy = directory.schemas.strategy(topic)
    return json_response({"schemaCompatibilityStrategy": strategy, "compatibility": True}, 202)


async def number(context: AdminContext, request: Request) -> Response:
    """Return the number of the version with the same schema, -1 if there is none."""
    directory, topic = serving(context), topic_of(request)
    with _refusals():
        found = await directory.schemas.number_of(topic, _sent(request))
    return json_response({"version": UNKNOWN_VERSION if found is None else found})


@contextmanager
def _refusals() -> Iterator[None]:
    """Answer 422 to an invalid schema, and 409 to a schema that is refused."""
    try:
        yield
    except SchemaInvalid as error:
        raise Refused(422, str(error)) from error
    except SchemaRefused as error:
        raise Refused(409, str(error)) from error


async def _require_namespace(directory: Directory, request: Request) -> None:
    namespace = namespace_of(request)
    if not await directory.namespaces.has(namespace):
        raise no_namespace(namespace)


def _sent(request: Request) -> Schema:
    """Return the schema that the body describes."""
    body = request.json()
    if not isinstance(body, dict):
        raise Refused(400, 'the body: expected an object such as {"type": "AVRO", "schema": "..."}')
    kind, text, properties = body.get("type"), body.get("schema"), body.get("properties")
    if not isinstance(kind, str) or not isinstance(text or "", str):
        raise Refused(400, "type and schema: expected strings")
    if not isinstance(properties or {}, dict):
        raise Refused(400, "properties: expected an object of strings")
    try:
        wanted = type_named(kind)
        data = (text or "").encode()
        pairs = tuple((name, str(value)) for name, value in (properties or {}).items())
        for pair in pairs:
            "".join(pair).encode()  # lone surrogates cannot be stored as UTF-8
        if wanted is SchemaType.KEY_VALUE:
            data = key_value.from_json(text or "")
    except (ValueError, RecursionError) as error:
        raise Refused(400, str(error)) from error
    except InvalidSchema as error:
        raise Refused(422, f"not a valid {kind} schema: {error}") from error
    return Schema(wanted, data, pairs)


def _as_json(version: Registered) -> dict[str, Any]:
    schema = version.schema
    is_pair = schema.type is SchemaType.KEY_VALUE
    return {
        "version": version.number,
        "type": schema.type.name,
        "timestamp": version.timestamp_ms,
        "data": key_value.to_json(schema.data) if is_pair else schema.data.decode(errors="replace"),
        "properties": dict(schema.properties),
    }
