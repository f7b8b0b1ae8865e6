"""Backlogs and subscriptions of a whole namespace, or of one of its bundles."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    Handler,
    Site,
    namespace_of,
    no_namespace,
    parts_of,
    serving,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.http.table import Route
from magnetar_broker.subscribing.skipping import skip_all
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic.topic import Topic


async def clear(site: Site, request: Request) -> Response:
    """Skip every message, for all subscriptions or those of one name."""
    found = await _subscriptions(site, request)
    if not found and "subscription" in request.parameters:
        (name,) = parts_of(request, "subscription")
        namespace = namespace_of(request)
        raise Refused(404, f"no topic of {namespace} has a subscription {name}: check the name")
    for subscription in found:
        await skip_all(subscription)
    return Response(status=204)


async def unsubscribe(site: Site, request: Request) -> Response:
    """Delete the subscriptions of one name; none of them if any has a consumer."""
    found = await _subscriptions(site, request)
    for subscription in found:
        if subscription.consumers:
            raise Refused(
                412,
                f"subscription {subscription.name} of {subscription.topic.name} has "
                f"{len(subscription.consumers)} connected consumers: close them, then retry",
            )
    for subscription in found:
        await subscription.delete()
    return Response(status=204)


async def _subscriptions(site: Site, request: Request) -> list[Subscription]:
    """The durable subscriptions that the path names; their topics are loaded."""
    broker = serving(site)
    wanted = parts_of(request, "subscription") if "subscription" in request.parameters else None
    return [
        subscription
        for topic in await _topics(broker, request)
        for subscription in topic.subscriptions.values()
        if subscription.durable and (wanted is None or subscription.name in wanted)
    ]


async def _topics(broker: Broker, request: Request) -> list[Topic]:
    namespace = namespace_of(request)
    if not await broker.namespaces.has(namespace):
        raise no_namespace(namespace)
    names = [name for name in await broker.catalogue.topics(namespace) if not name.is_system]
    if "bundle" in request.parameters:
        (bundle,) = parts_of(request, "bundle")
        bundles = (await broker.namespaces.get(namespace)).bundles
        if bundles is None or bundle not in bundles:
            raise Refused(412, f"{namespace} has no bundle {bundle}: GET .../bundles lists them")
        names = [name for name in names if bundles.of(name) == bundle]
    topics = [await broker.topic(name, create=False) for name in names]
    return [topic for topic in topics if isinstance(topic, Topic)]


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    for path in (
        f"/admin/v2/namespaces/{NAMESPACE}",
        f"/admin/v2/namespaces/{NAMESPACE}/{{bundle}}",
    ):
        yield Route("POST", f"{path}/clearBacklog", clear)
        yield Route("POST", f"{path}/clearBacklog/{{subscription}}", clear)
        yield Route("POST", f"{path}/unsubscribe/{{subscription}}", unsubscribe)
