"""What HTTP handlers work on, and what a path names."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from magnetar_broker.broker import Broker
from magnetar_broker.errors import InvalidName, NotReady
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response
from magnetar_proto.names import NamespaceName, TopicName

DOMAIN = "{domain:persistent|non-persistent}"
NAMESPACE = "{tenant}/{namespace}"
TOPIC = f"{DOMAIN}/{NAMESPACE}/{{topic}}"


@dataclass(frozen=True)
class Site:
    """What the handlers work on."""

    broker: Broker
    journal: JournalStats
    scraping: asyncio.Lock = field(default_factory=asyncio.Lock)


MAX_PROPERTIES = 64 * 1024
"""Characters of all that one thing may have."""
Handler = Callable[[Site, Request], Awaitable[Response]]


def serving(site: Site) -> Broker:
    """The broker, once it may be asked about names."""
    broker = site.broker
    if not broker.ready:
        raise NotReady("the broker is starting or stopping; try again")
    return broker


def topic_of(request: Request) -> TopicName:
    """The topic that the path names."""
    tenant, namespace, local = parts_of(request, "tenant", "namespace", "topic")
    domain = request.parameters["domain"]
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local}")


def parts_of(request: Request, *names: str) -> list[str]:
    """Parameters of the path, decoded; a `+` is a blank, as forms write it."""
    try:
        return [unquote_plus(request.parameters[name], errors="strict") for name in names]
    except UnicodeDecodeError as error:
        raise InvalidName("the path is not UTF-8 that was percent-encoded") from error


def http_url(request: Request, service_url: str) -> str:
    """The port that the request came to, on the host that clients are told of."""
    host = urlsplit(service_url).netloc.rpartition(":")[0]
    return f"http://{host}:{request.port}"


def namespace_of(request: Request) -> str:
    """The namespace that the path names."""
    return str(NamespaceName.parse("/".join(parts_of(request, "tenant", "namespace"))))


async def existing_namespace(broker: Broker, request: Request) -> str:
    """The namespace that the path names, if there is one."""
    namespace = namespace_of(request)
    if not await broker.namespaces.has(namespace) or broker.namespaces.is_closed(namespace):
        raise Refused(404, f"Namespace {namespace} does not exist")
    return namespace


async def existing_topic(broker: Broker, request: Request) -> TopicName:
    """The topic that the path names, partitioned or not, if there is one."""
    await existing_namespace(broker, request)
    topic = topic_of(request)
    await broker.deletion.settle(topic)
    if 0 <= topic.partition < await broker.catalogue.partitions(topic):
        return topic
    if topic.partition >= 0 and await broker.catalogue.partitions(topic):
        raise Refused(404, f"Topic {topic} not found: there are not so many partitions")
    if not await broker.exists(topic):
        raise Refused(404, f"Topic {topic} not found")
    return topic


def flag_of(request: Request, name: str) -> bool:
    """Whether the query says that something is true."""
    return request.query.get(name, "").lower() == "true"


def properties_of(request: Request) -> dict[str, str]:
    """The body, which must be a map of texts; an empty body, or null, is an empty map."""
    said = json_of(request) if request.body.strip() else None
    return checked_properties({} if said is None else said)


def checked_properties(said: Any) -> dict[str, str]:
    """The same out of JSON."""
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise Refused(400, "properties must be an object of texts")
    return said


def bounded(properties: dict[str, str]) -> dict[str, str]:
    """These properties, unless there are too many of them."""
    if sum(len(key) + len(value) for key, value in properties.items()) > MAX_PROPERTIES:
        raise Refused(412, f"properties may have {MAX_PROPERTIES} characters in all")
    return properties


def json_of(request: Request) -> Any:
    """The body, which must be JSON."""
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not readable JSON: {error}") from error
