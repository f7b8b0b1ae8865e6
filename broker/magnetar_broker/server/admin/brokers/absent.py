"""Paths of features that this broker does not have, answered as if nobody used the feature.

Requests that only read are answered, so that tools that show everything work.  Requests that change
something are refused.
"""

from typing import Any

from magnetar_broker.server.admin.context import (
    AdminContext,
    Handler,
    existing_namespace,
    existing_topic,
    serving,
    subscription_of,
)
from magnetar_broker.server.admin.messages.backlog_actions import topics_with_messages
from magnetar_broker.server.admin.operations.loading import require_subscription
from magnetar_broker.server.http.messages import (
    Refused,
    Request,
    Response,
    json_response,
    text_response,
)


def _always(status: int, outcome: Any = "") -> Handler:
    """Return a handler that gives this answer for every topic or namespace that exists.

    The outcome is the body, or the reason of a refusal.
    """

    async def handler(context: AdminContext, request: Request) -> Response:
        await _subject(context, request)
        if status >= 400:
            raise Refused(status, outcome)
        if status == 204:
            return Response(status=204)
        return json_response(outcome) if outcome else text_response("")

    return handler


async def _subject(context: AdminContext, request: Request) -> None:
    if "topic" in request.parameters:
        await existing_topic(serving(context), request)
    else:
        await existing_namespace(serving(context), request)


shadow_topics = _always(200)
set_shadow_topics = _always(
    501, "there are no shadow topics here: consume and publish with a client"
)
delete_shadow_topics = _always(204)
filters = _always(200)
delete_filters = _always(204)


async def set_filters(context: AdminContext, request: Request) -> None:
    """Refuse every entry filter; an empty body, or null, is accepted."""
    await _subject(context, request)
    if request.body.strip() and request.json() is not None:
        raise Refused(400, "this broker has no entry filters: filter in consumers")


# Replicated subscriptions ------------------------------------------------------------------


async def replicated(context: AdminContext, request: Request) -> Response:
    """Answer for each partition that a subscription is not replicated."""
    topics = await topics_with_messages(context, request)
    for topic in topics:
        await context.owners.ask(require_subscription, topic, subscription_of(request))
    return json_response(dict.fromkeys(map(str, topics), False))


async def set_replicated(context: AdminContext, request: Request) -> None:
    """Accept that a subscription is not replicated, and refuse that it is."""
    wanted = request.json()
    for topic in await topics_with_messages(context, request):
        await context.owners.ask(require_subscription, topic, subscription_of(request))
    if wanted is not False:
        raise Refused(412, "subscriptions are not replicated here: there are no other clusters")
