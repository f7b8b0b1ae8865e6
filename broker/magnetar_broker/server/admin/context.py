"""The context of HTTP handlers, and the values that they read from a request."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from magnetar_broker.base.errors import NotReady
from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.owners import Owners
from magnetar_broker.server.admin.refusals import no_namespace, no_topic
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.http.messages import Refused, Request, Response, decoded_part
from magnetar_broker.server.pages.metrics_page import Page
from magnetar_proto.names import NamespaceName, TopicName

READS = 4
"""The number of messages that are read at a time to be shown."""


class Pages(Protocol):
    """Makes pages for Prometheus."""

    async def scrape(self, request: Request) -> Page | None:
        """Return a page with figures gathered after the request came; None if its client left."""


class Health(Protocol):
    """Checks whether messages can be published and consumed."""

    async def check(self, process: str | None = None) -> None:
        """Check that all serving processes publish and consume; raise `Unhealthy` if not.

        Every process that serves topics is checked, or only the one that `process` names.
        """


@dataclass(frozen=True)
class AdminContext:
    """The context of all handlers."""

    directory: Directory
    owners: Owners
    page: Pages
    health: Health
    shutdown: Callable[[], None] = lambda: None
    """A function that begins the graceful stop of the broker, and returns."""
    snapshots: Snapshots | None = None
    """The snapshots of the broker's data; None if its storage cannot make any."""
    metadata_url: str = ""
    """The URL of the broker's metadata."""
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS))
    """Held while a message is read to be shown, because each can be large."""


Handler = Callable[[AdminContext, Request], Awaitable[Response | None]]
"""A function that answers a request; None is an answer without content, 204."""


def serving(context: AdminContext) -> Directory:
    """Return the directory of names; 503 while the broker starts or stops."""
    if not context.directory.ready:
        raise NotReady("the broker is starting or stopping: retry")
    return context.directory


def topic_of(request: Request) -> TopicName:
    """Return the topic that the path names; a persistent one if it names no domain."""
    tenant, namespace, local = map(request.part, ("tenant", "namespace", "topic"))
    domain = request.parameters.get("domain", "persistent")
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local}")


def subscription_of(request: Request) -> str:
    """Return the name of the subscription that the path names.

    Pulsar's own admin client encodes the name twice in paths of topics, and Pulsar decodes it twice
    there; a name that cannot be decoded a second time was encoded once.
    """
    name = request.part("subscription")
    if "domain" not in request.parameters:
        return name
    try:
        return decoded_part(name)
    except ValueError:
        return name


def http_url(request: Request, service_url: str) -> str:
    """Return the URL of the port that received the request, on the host of a service URL."""
    host = urlsplit(service_url).netloc.rpartition(":")[0]
    return f"{'https' if request.is_tls else 'http'}://{host}:{request.port}"


def namespace_of(request: Request) -> str:
    """Return the namespace that the path names."""
    return str(NamespaceName.parse("/".join(map(request.part, ("tenant", "namespace")))))


async def existing_namespace(directory: Directory, request: Request) -> str:
    """Return the namespace that the path names; 404 if it does not exist."""
    namespace = namespace_of(request)
    if not await directory.namespaces.has(namespace) or directory.namespaces.is_closed(namespace):
        raise no_namespace(namespace)
    return namespace


async def existing_topic(directory: Directory, request: Request) -> TopicName:
    """Return the topic that the path names, partitioned or not; 404 if it does not exist."""
    await existing_namespace(directory, request)
    topic = topic_of(request)
    await directory.deletion.topics.settle(topic)
    if 0 <= topic.partition < await directory.catalogue.partitions(topic):
        return topic
    if topic.partition >= 0 and await directory.catalogue.partitions(topic):
        raise no_topic(topic)
    if not await directory.exists(topic):
        raise no_topic(topic)
    return topic


async def namespace_in(context: AdminContext, request: Request) -> tuple[Directory, str]:
    """Return the directory of names, and `existing_namespace`."""
    directory = serving(context)
    return directory, await existing_namespace(directory, request)


async def topic_in(context: AdminContext, request: Request) -> tuple[Directory, TopicName]:
    """Return the directory of names, and `existing_topic`."""
    directory = serving(context)
    return directory, await existing_topic(directory, request)


def properties_of(request: Request) -> dict[str, str]:
    """Return the body, an object of strings; empty for an empty body or null."""
    body = request.json_or_none()
    return checked_properties({} if body is None else body)


def checked_properties(value: Any) -> dict[str, str]:
    """Return the value, which must be an object of strings; 400 otherwise."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Refused(400, "properties: expected an object of strings")
    return value
