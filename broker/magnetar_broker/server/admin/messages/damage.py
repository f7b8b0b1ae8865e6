"""Requests about entries that cannot be read: listing them, and setting them aside."""

from magnetar_broker.damage.looking import Place
from magnetar_broker.server.admin.authorizing import authorize_subscriptions
from magnetar_broker.server.admin.context import AdminContext, topic_of
from magnetar_broker.server.admin.messages.backlog_actions import topics_with_messages
from magnetar_broker.server.admin.operations import damage as operations
from magnetar_broker.server.http.messages import Request, Response, json_response


async def damaged(context: AdminContext, request: Request) -> Response:
    """Return the entries of a topic that cannot be read, and those that were set aside."""
    ask, scan = context.owners.ask, request.flag("scan")
    topics, known = await topics_with_messages(context, request), await _known(context)
    found = [
        one
        for topic in topics
        for one in await ask(operations.damaged, topic, scan, known.get(str(topic), []))
    ]
    aside = [one for topic in topics for one in await ask(operations.set_aside, topic)]
    return json_response({"damaged": found, "setAside": aside})


async def skip(context: AdminContext, request: Request) -> Response:
    """Set aside the entries of a topic that cannot be read, for all subscriptions and readers.

    Their bytes are kept in quarantine.  Nothing is set aside if one subscription is for other roles
    only.
    """
    ask, scan = context.owners.ask, request.flag("scan")
    topics, known = await topics_with_messages(context, request), await _known(context)
    names = [name for topic in topics for name in await ask(operations.subscriptions, topic)]
    # promise: damaged entries are set aside only by who may use every subscription
    await authorize_subscriptions(context, request, str(topic_of(request)), names, 401)
    found = [
        one
        for topic in topics
        for one in await ask(operations.skip, topic, scan, known.get(str(topic), []))
    ]
    return json_response({"setAside": found})


async def _known(context: AdminContext) -> dict[str, list[Place]]:
    """Return the damage that all processes know, by topic.

    A process may know of damage in segments of a topic that another process serves.
    """
    found: dict[str, list[Place]] = {}
    for each in await context.owners.ask_all(operations.known):
        for one in each:
            place = one["ledgerId"], one["firstEntryId"], one["lastEntryId"]
            found.setdefault(one["topic"], []).append(place)
    return found
