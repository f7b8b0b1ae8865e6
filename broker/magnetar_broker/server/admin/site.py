"""The context of HTTP handlers, and what they read from a request."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from magnetar_broker.base.errors import InvalidName, NotReady
from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.metrics_page import MetricsPage
from magnetar_broker.server.health import HealthCheck
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response
from magnetar_proto.names import NamespaceName, TopicName

DOMAIN = "{domain:persistent|non-persistent}"
NAMESPACE = "{tenant}/{namespace}"
TOPIC = f"{DOMAIN}/{NAMESPACE}/{{topic}}"


@dataclass(frozen=True)
class Site:
    """The context of all handlers."""

    broker: Broker
    page: MetricsPage
    health: HealthCheck


MAX_PROPERTIES = 64 * 1024
"""Limit of the characters in all names and values together."""
Handler = Callable[[Site, Request], Awaitable[Response]]


def serving(site: Site) -> Broker:
    """The broker; 503 while it starts or stops."""
    broker = site.broker
    if not broker.ready:
        raise NotReady("the broker is starting or stopping: retry")
    return broker


def topic_of(request: Request) -> TopicName:
    """The topic that the path names."""
    tenant, namespace, local = parts_of(request, "tenant", "namespace", "topic")
    domain = request.parameters["domain"]
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local}")


def parts_of(request: Request, *names: str) -> list[str]:
    """Parameters of the path, decoded; a `+` is a blank, as in form encoding."""
    try:
        return [unquote_plus(request.parameters[name], errors="strict") for name in names]
    except UnicodeDecodeError as error:
        raise InvalidName("the path is not valid percent-encoded UTF-8") from error


def http_url(request: Request, service_url: str) -> str:
    """The port that received the request, on the host of a service URL."""
    host = urlsplit(service_url).netloc.rpartition(":")[0]
    return f"http://{host}:{request.port}"


def namespace_of(request: Request) -> str:
    """The namespace that the path names."""
    return str(NamespaceName.parse("/".join(parts_of(request, "tenant", "namespace"))))


async def existing_namespace(broker: Broker, request: Request) -> str:
    """The namespace that the path names; 404 if it does not exist."""
    namespace = namespace_of(request)
    if not await broker.namespaces.has(namespace) or broker.namespaces.is_closed(namespace):
        raise no_namespace(namespace)
    return namespace


async def existing_topic(broker: Broker, request: Request) -> TopicName:
    """The topic that the path names, partitioned or not; 404 if it does not exist."""
    await existing_namespace(broker, request)
    topic = topic_of(request)
    await broker.deletion.topics.settle(topic)
    if 0 <= topic.partition < await broker.catalogue.partitions(topic):
        return topic
    if topic.partition >= 0 and await broker.catalogue.partitions(topic):
        raise no_topic(topic)
    if not await broker.exists(topic):
        raise no_topic(topic)
    return topic


def flag_of(request: Request, name: str) -> bool:
    """Whether a parameter of the query is `true`."""
    return request.query.get(name, "").lower() == "true"


def properties_of(request: Request) -> dict[str, str]:
    """The body, an object of strings; empty for an empty body or null."""
    body = json_of(request) if request.body.strip() else None
    return checked_properties({} if body is None else body)


def checked_properties(value: Any) -> dict[str, str]:
    """The value, which must be an object of strings; 400 otherwise."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Refused(400, "properties: expected an object of strings")
    return value


def bounded(properties: dict[str, str]) -> dict[str, str]:
    """The properties; 412 if they exceed `MAX_PROPERTIES`."""
    size = sum(len(key) + len(value) for key, value in properties.items())
    if size > MAX_PROPERTIES:
        raise Refused(412, f"properties have {size} characters: the limit is {MAX_PROPERTIES}")
    return properties


def json_of(request: Request) -> Any:
    """The body as JSON; 400 if it is not."""
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not valid JSON: {error}") from error


def no_namespace(namespace: str) -> Refused:
    """The refusal for a namespace that does not exist."""
    create = f"create it with PUT /admin/v2/namespaces/{namespace}"
    return Refused(404, f"namespace {namespace} does not exist: {create}")


def no_topic(topic: TopicName) -> Refused:
    """The refusal for a topic, or a partition, that does not exist."""
    if topic.partition >= 0:
        return Refused(404, f"{topic} does not exist: {topic.base} has no such partition")
    return Refused(404, f"topic {topic} does not exist: check the name, or create it")


def no_subscription(name: str, topic: TopicName) -> Refused:
    """The refusal for a subscription that does not exist."""
    return Refused(404, f"{topic} has no subscription {name}: check the name, or create it")
