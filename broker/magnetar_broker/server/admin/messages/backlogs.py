"""Backlogs and subscriptions of a whole namespace, or of one of its bundles."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.authorizing import authorize_subscriptions
from magnetar_broker.server.admin.context import AdminContext, namespace_of, serving
from magnetar_broker.server.admin.operations import subscriptions
from magnetar_broker.server.admin.operations.messages import skip_everything
from magnetar_broker.server.admin.refusals import no_namespace, refusing_bundle
from magnetar_broker.server.http.messages import Refused, Request
from magnetar_proto.names import TopicName

REFUSED = 403
"""The status of requests that lack a permission."""


async def clear(context: AdminContext, request: Request) -> None:
    """Skip all messages of a namespace or a bundle, for all subscriptions or those with one name.

    No subscription is changed if one of them is for other roles only.
    """
    found = await _subscriptions(context, request)
    names = [name for _, name, _ in found]
    await authorize_subscriptions(context, request, namespace_of(request), names, REFUSED)
    if not found and "subscription" in request.parameters:
        name = request.part("subscription")
        namespace = namespace_of(request)
        raise Refused(404, f"no topic of {namespace} has a subscription {name}: check the name")
    for topic, name, _ in found:
        await context.owners.ask(skip_everything, topic, name)


async def unsubscribe(context: AdminContext, request: Request) -> None:
    """Delete all subscriptions with one name; none of them if one has a consumer."""
    found = await _subscriptions(context, request)
    for topic, name, consumers in found:
        if consumers:
            raise Refused(
                412,
                f"subscription {name} of {topic} has {consumers} connected consumers: close them, "
                "then retry",
            )
    for topic, name, _ in found:
        await context.owners.ask(subscriptions.delete, topic, name, False)


async def _subscriptions(
    context: AdminContext, request: Request
) -> list[tuple[TopicName, str, int]]:
    """Return the durable subscriptions that the path names, with their numbers of consumers."""
    directory = serving(context)
    wanted = [request.part("subscription")] if "subscription" in request.parameters else None
    return [
        (topic, name, consumers)
        for topic in await _topics(directory, request)
        for name, consumers in (await context.owners.ask(subscriptions.durable, topic)).items()
        if wanted is None or name in wanted
    ]


async def _topics(directory: Directory, request: Request) -> list[TopicName]:
    namespace = namespace_of(request)
    if not await directory.namespaces.has(namespace):
        raise no_namespace(namespace)
    names = [name for name in await directory.catalogue.topics(namespace) if not name.is_system]
    if "bundle" in request.parameters:
        bundle = request.part("bundle")
        bundles = await directory.bundles.stored.of(namespace)
        with refusing_bundle():
            index = bundles.index(bundle)
        names = [name for name in names if bundles.index_of(name) == index]
    return names
