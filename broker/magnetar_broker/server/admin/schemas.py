"""Schemas over HTTP: read the versions of a topic's, add one, ask whether it may be added, delete.

The topic need not exist: its schema may be said before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.errors import SchemaRefused
from magnetar_broker.schemas import key_value
from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.service import SchemaInvalid
from magnetar_broker.schemas.types import InvalidSchema, Schema, SchemaType, type_named
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    Handler,
    Site,
    json_of,
    namespace_of,
    parts_of,
    serving,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

UNKNOWN_VERSION = -1
MAX_VERSION_DIGITS = 19


async def latest(site: Site, request: Request) -> Response:
    """The latest version."""
    return await _version(site, request, None)


async def version(site: Site, request: Request) -> Response:
    """The version that the path names."""
    (number,) = parts_of(request, "version")
    if not (number.isascii() and number.removeprefix("-").isdecimal()):
        raise Refused(400, f"{number!r} is no version: expected a number")
    return await _version(site, request, int(number[:MAX_VERSION_DIGITS]))


async def _version(site: Site, request: Request, number: int | None) -> Response:
    broker, topic = serving(site), _topic(request)
    found = await broker.schemas.get(topic, number)
    if found is None:
        raise Refused(404, "Schema not found")
    return json_response(_as_json(found))


async def versions(site: Site, request: Request) -> Response:
    """All versions, the oldest first."""
    found = await serving(site).schemas.versions(_topic(request))
    return json_response({"getSchemaResponses": [_as_json(one) for one in found]})


async def metadata(site: Site, request: Request) -> Response:
    """Which versions there are; they are in no ledger here.  Empty without a schema."""
    found = await serving(site).schemas.versions(_topic(request))
    entries = [{"ledgerId": -1, "entryId": -1, "version": one.number} for one in found]
    if not entries:
        return text_response("")
    return json_response({"info": entries[-1], "index": entries})


async def post(site: Site, request: Request) -> Response:
    """Add a version, if the strategy lets it; one that is there keeps its number."""
    broker, topic = serving(site), _topic(request)
    await _require_namespace(broker, request)
    await broker.policies.load(topic)
    with _refusals():
        number = await broker.schemas.register(topic, _sent(request))
    return json_response({"version": {"version": number}})


async def delete(site: Site, request: Request) -> Response:
    """Remove the schema; the next version's number goes on, but for `force=true`."""
    broker, topic = serving(site), _topic(request)
    await _require_namespace(broker, request)
    if request.query.get("force") == "true":
        await broker.schemas.delete(topic)
        return json_response({"version": UNKNOWN_VERSION})
    return json_response({"version": await broker.schemas.remove(topic)})


async def compatibility(site: Site, request: Request) -> Response:
    """Whether the strategy would let a schema be added; nothing is."""
    broker, topic = serving(site), _topic(request)
    await broker.policies.load(topic)
    with _refusals():
        await broker.schemas.check(topic, _sent(request))
    strategy = broker.schemas.strategy(topic)
    return json_response({"schemaCompatibilityStrategy": strategy, "compatibility": True}, 202)


async def number(site: Site, request: Request) -> Response:
    """The version that says the same as a schema, -1 for none."""
    broker, topic = serving(site), _topic(request)
    with _refusals():
        found = await broker.schemas.number_of(topic, _sent(request))
    return json_response({"version": UNKNOWN_VERSION if found is None else found})


def routes() -> Iterator[Route[Handler]]:
    """What is answered under a topic's schemas."""
    path = f"/admin/v2/schemas/{NAMESPACE}/{{topic}}"
    yield Route("GET", f"{path}/schema", latest)
    yield Route("POST", f"{path}/schema", post)
    yield Route("DELETE", f"{path}/schema", delete)
    yield Route("GET", f"{path}/schema/{{version}}", version)
    yield Route("GET", f"{path}/schemas", versions)
    yield Route("GET", f"{path}/metadata", metadata)
    yield Route("POST", f"{path}/compatibility", compatibility)
    yield Route("POST", f"{path}/version", number)


@contextmanager
def _refusals() -> Iterator[None]:
    """What is no schema is told from what is one that may not be."""
    try:
        yield
    except SchemaInvalid as error:
        raise Refused(422, str(error)) from error
    except SchemaRefused as error:
        raise Refused(409, str(error)) from error


def _topic(request: Request) -> TopicName:
    tenant, namespace, local = parts_of(request, "tenant", "namespace", "topic")
    return TopicName.parse(f"persistent://{tenant}/{namespace}/{local}")


async def _require_namespace(broker: Broker, request: Request) -> None:
    namespace = namespace_of(request)
    if not await broker.namespaces.has(namespace):
        raise Refused(404, f"Namespace {namespace} does not exist")


def _sent(request: Request) -> Schema:
    """The schema that the body describes."""
    said = json_of(request)
    if not isinstance(said, dict):
        raise Refused(400, 'the body must be like {"type": "AVRO", "schema": "...", ...}')
    kind, text, properties = said.get("type"), said.get("schema"), said.get("properties")
    if not isinstance(kind, str) or not isinstance(text or "", str):
        raise Refused(400, "`type` and `schema` must be texts")
    if not isinstance(properties or {}, dict):
        raise Refused(400, "`properties` must be an object of texts")
    try:
        wanted = type_named(kind)
        data = (text or "").encode()
        pairs = tuple((name, str(value)) for name, value in (properties or {}).items())
        for pair in pairs:
            "".join(pair).encode()  # they must fit into UTF-8, as the text does
        if wanted is SchemaType.KEY_VALUE:
            data = key_value.from_json(text or "")
    except (ValueError, RecursionError) as error:
        raise Refused(400, str(error)) from error
    except InvalidSchema as error:
        raise Refused(422, f"this is no {kind} schema: {error}") from error
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
