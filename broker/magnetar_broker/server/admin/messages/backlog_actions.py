"""Requests that skip, expire, redeliver or delete messages.

A 204 means that the change is on disk and that connected consumers follow it.
"""

from magnetar_broker.server.admin.authorizing import authorize_subscriptions
from magnetar_broker.server.admin.context import AdminContext, serving, subscription_of, topic_of
from magnetar_broker.server.admin.messages.positions import message_position_of
from magnetar_broker.server.admin.operations import messages as operations
from magnetar_broker.server.admin.operations.loading import load, require_subscription
from magnetar_broker.server.admin.refusals import no_topic
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName

INT = 31
LONG = 63


# The objects of a request ------------------------------------------------------------


async def topics_with_messages(
    context: AdminContext, request: Request, refused: int = 405
) -> list[TopicName]:
    """Return the loaded topic of the path, or its partitions; refuse one that is not persistent."""
    directory, name = serving(context), topic_of(request)
    if not name.is_persistent:
        raise Refused(refused, f"{name} is not persistent: it stores no messages")
    parts = await directory.parts(name)
    if parts == [name] and name.partition < 0 and not await directory.exists(name):
        raise no_topic(name)
    for part in parts:
        await context.owners.ask(load, part)
    return parts


async def topic_with_messages(
    context: AdminContext, request: Request, what: str, refused: int = 405
) -> TopicName:
    """Return the topic of the path; status `refused` if it is partitioned.

    `what` tells the client what to do on each partition instead.
    """
    directory, name = serving(context), topic_of(request)
    if name.partition < 0 and await directory.catalogue.partitions(name):
        raise Refused(refused, f"{name} is partitioned: {what} on each partition")
    return (await topics_with_messages(context, request))[0]


async def _subscribed(context: AdminContext, request: Request) -> list[TopicName]:
    """Return the topic of the path, or its partitions; 404 unless each has the subscription."""
    topics = await topics_with_messages(context, request)
    for topic in topics:
        await context.owners.ask(require_subscription, topic, subscription_of(request))
    return topics


def number_of(request: Request, name: str, bits: int) -> int:
    """Return a number in the path; 404 if it is not one, as for any path without a route."""
    text = request.part(name)
    try:
        number = int(text)
    except ValueError as error:
        raise Refused(404, f"{name} is {text}: expected a whole number") from error
    if not -(1 << bits) <= number < 1 << bits:
        raise Refused(404, f"{name} is {number}: expected less than 2^{bits}")
    return number


def _count(request: Request, name: str) -> int:
    number = number_of(request, name, INT)
    if number < 0:
        raise Refused(412, f"{name} is {number}: expected 0 or more")
    return number


# Skipping and expiring ------------------------------------------------------------------


async def skip(context: AdminContext, request: Request) -> None:
    """Skip a number of messages of a subscription, the oldest first."""
    messages = _count(request, "messages")
    topic = await topic_with_messages(context, request, "skip messages")
    await context.owners.ask(operations.skip, topic, subscription_of(request), messages)


async def skip_everything(context: AdminContext, request: Request) -> None:
    """Skip all messages of a subscription."""
    for topic in await _subscribed(context, request):
        await context.owners.ask(operations.skip_everything, topic, subscription_of(request))


async def expire(context: AdminContext, request: Request) -> None:
    """Skip the messages of a subscription that are older than a number of seconds."""
    await _expire(context, request, subscription_of(request))


async def expire_for_all(context: AdminContext, request: Request) -> None:
    """Skip the messages of all subscriptions that are older than a number of seconds.

    No subscription is changed if one of them is for other roles only.
    """
    await _expire(context, request, None)


async def _expire(context: AdminContext, request: Request, subscription: str | None) -> None:
    seconds = _count(request, "seconds")
    topics, ask = await topics_with_messages(context, request), context.owners.ask
    found = [await ask(operations.expirable, topic, subscription) for topic in topics]
    names = [name for of_topic in found for name, _ in of_topic]
    await authorize_subscriptions(context, request, str(topic_of(request)), names, 401)
    behind = [is_behind for of_topic in found for _, is_behind in of_topic]
    if behind and not any(behind):
        raise Refused(409, "nothing to expire: every message is acknowledged")
    for topic in topics:
        await ask(operations.expire, topic, subscription, seconds)


async def expire_to_message(context: AdminContext, request: Request) -> None:
    """Skip the messages of a subscription up to one, including it unless it is `excluded`."""
    topic = await topic_with_messages(context, request, "expire messages by id")
    place, name = message_position_of(request), subscription_of(request)
    await context.owners.ask(operations.expire_to_message, topic, name, *place)


# Resetting, deleting -------------------------------------------------------------------


async def reset_to_time(context: AdminContext, request: Request) -> None:
    """Move a subscription to the first message published at or after a time."""
    timestamp_ms, name = number_of(request, "timestamp", LONG), subscription_of(request)
    for topic in await _subscribed(context, request):
        await context.owners.ask(operations.reset_to_time, topic, name, timestamp_ms)


async def reset_to_message(context: AdminContext, request: Request) -> None:
    """Move a subscription to a message, or to the next one if the message is `excluded`."""
    topic = await topic_with_messages(context, request, "reset the cursor to a message")
    place, name = message_position_of(request), subscription_of(request)
    await context.owners.ask(operations.reset_to_message, topic, name, *place)


async def truncate_topic(context: AdminContext, request: Request) -> None:
    """Skip every message for all subscriptions, and delete all closed segments."""
    for topic in await topics_with_messages(context, request, refused=412):
        await context.owners.ask(operations.truncate_topic, topic)


async def trim(context: AdminContext, request: Request) -> Response:
    """Delete consumed segments now that retention does not keep, instead of at the next check."""
    for topic in await topics_with_messages(context, request):
        await context.owners.ask(operations.trim, topic)
    return Response()


async def explain(context: AdminContext, request: Request) -> Response:
    """Return the time of deletion of messages, and the source of each policy that decides it."""
    topic = await topic_with_messages(context, request, "ask about retention")
    return json_response(await context.owners.ask(operations.explain, topic))


async def check_quotas(context: AdminContext, request: Request) -> None:
    """Check all backlog quotas now, instead of at the next check."""
    serving(context)
    await context.owners.ask_all(operations.check_quotas)
