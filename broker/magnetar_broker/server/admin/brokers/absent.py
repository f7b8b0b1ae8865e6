"""Paths of features that this broker does not have, answered as if nobody used the feature.

Requests that only read are answered, so that tools that show everything work.  Requests that change
something are refused.
"""

from collections.abc import Iterator

from magnetar_broker.server.admin.context import (
    NAMESPACE,
    TOPIC,
    AdminContext,
    Handler,
    existing_namespace,
    existing_topic,
    json_of,
    serving,
    subscription_of,
)
from magnetar_broker.server.admin.messages.backlog_actions import topics_with_messages
from magnetar_broker.server.admin.operations.loading import require_subscription
from magnetar_broker.server.http.contract import CONSUME, CONTROLLER, OWNER, TENANT_ADMIN, Body
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route

# Offloading and shadow topics --------------------------------------------------------------


async def offload_status(context: AdminContext, request: Request) -> Response:
    """Answer that nothing was ever offloaded."""
    await existing_topic(serving(context), request)
    nowhere = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    return json_response({"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": nowhere})


async def offload(context: AdminContext, request: Request) -> Response:
    """Refuse to offload a topic."""
    await existing_topic(serving(context), request)
    raise Refused(501, "nothing is offloaded here: retention decides how long ledgers stay")


async def shadow_topics(context: AdminContext, request: Request) -> Response:
    """Answer that a topic has no shadow topics."""
    await existing_topic(serving(context), request)
    return text_response("")


async def set_shadow_topics(context: AdminContext, request: Request) -> Response:
    """Refuse to create shadow topics."""
    await existing_topic(serving(context), request)
    raise Refused(501, "there are no shadow topics here: consume and publish with a client")


async def delete_shadow_topics(context: AdminContext, request: Request) -> Response:
    """Accept the deletion of shadow topics, of which there are none."""
    await existing_topic(serving(context), request)
    return Response(status=204)


# Entry filters -----------------------------------------------------------------------------


async def filters(context: AdminContext, request: Request) -> Response:
    """Answer that a topic or a namespace has no entry filters."""
    await _subject(context, request)
    return text_response("")


async def set_filters(context: AdminContext, request: Request) -> Response:
    """Refuse every entry filter; an empty body, or null, is accepted."""
    await _subject(context, request)
    if request.body.strip() and json_of(request) is not None:
        raise Refused(400, "this broker has no entry filters: filter in consumers")
    return Response(status=204)


async def delete_filters(context: AdminContext, request: Request) -> Response:
    """Accept the deletion of entry filters, of which there are none."""
    await _subject(context, request)
    return Response(status=204)


async def _subject(context: AdminContext, request: Request) -> None:
    if "topic" in request.parameters:
        await existing_topic(serving(context), request)
    else:
        await existing_namespace(serving(context), request)


# Replicated subscriptions ------------------------------------------------------------------


async def replicated(context: AdminContext, request: Request) -> Response:
    """Answer for each partition that a subscription is not replicated."""
    topics = await topics_with_messages(context, request)
    for topic in topics:
        await context.owners.ask(require_subscription, topic, subscription_of(request))
    return json_response(dict.fromkeys(map(str, topics), False))


async def set_replicated(context: AdminContext, request: Request) -> Response:
    """Accept that a subscription is not replicated, and refuse that it is."""
    wanted = json_of(request)
    for topic in await topics_with_messages(context, request):
        await context.owners.ask(require_subscription, topic, subscription_of(request))
    if wanted is not False:
        raise Refused(412, "subscriptions are not replicated here: there are no other clusters")
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """Yield the routes that this module answers."""
    who, where, topic = TENANT_ADMIN, CONTROLLER, f"/admin/v2/{TOPIC}"
    yield Route("GET", f"{topic}/offload", who, where, offload_status, refused=401)
    yield Route("PUT", f"{topic}/offload", who, where, offload, refused=401)
    yield Route("GET", f"{topic}/shadowTopics", who, where, shadow_topics)
    yield Route("PUT", f"{topic}/shadowTopics", who, where, set_shadow_topics)
    yield Route("DELETE", f"{topic}/shadowTopics", who, where, delete_shadow_topics)
    for subject in (topic, f"/admin/v2/namespaces/{NAMESPACE}"):
        path, body = f"{subject}/entryFilters", Body({"type": "null"}, "nothing", False)
        yield Route("GET", path, who, where, filters)
        yield Route("POST", path, who, where, set_filters, body=body)
        yield Route("DELETE", path, who, where, delete_filters)
    path = f"{topic}/subscription/{{subscription}}/replicatedSubscriptionStatus"
    yield Route("GET", path, CONSUME, OWNER, replicated)
    yield Route("POST", path, CONSUME, OWNER, set_replicated, body=Body({"type": "boolean"}))
