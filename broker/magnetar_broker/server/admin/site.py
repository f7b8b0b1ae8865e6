"""What HTTP handlers work on, and what a path names."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

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


def namespace_of(request: Request) -> str:
    """The namespace that the path names."""
    return str(NamespaceName.parse("/".join(parts_of(request, "tenant", "namespace"))))


def json_of(request: Request) -> Any:
    """The body, which must be JSON."""
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not readable JSON: {error}") from error
