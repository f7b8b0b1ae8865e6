"""Requests that skip, expire, redeliver or delete messages.

A 204 means that the change is on disk and that connected consumers follow it.
"""

from collections.abc import Iterator

from magnetar_broker.base.errors import UnknownTrouble
from magnetar_broker.lifetime.expiry import expire_older, expiring_subscriptions
from magnetar_broker.lifetime.tidying import tidy, truncate
from magnetar_broker.maintenance import QUOTAS
from magnetar_broker.server.admin.explaining import explained
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.positions import place_of
from magnetar_broker.server.admin.site import (
    TOPIC,
    Handler,
    Site,
    no_subscription,
    no_topic,
    parts_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.subscribing.finding import first_since
from magnetar_broker.subscribing.skipping import expire_through, place_in, skip_all, skip_messages
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic.topic import Topic

SUBSCRIPTION = f"/admin/v2/{TOPIC}/subscription/{{subscription}}"
INT = 31
LONG = 63


# What a request names ----------------------------------------------------------------


async def _topics(site: Site, request: Request, refused: int = 405) -> list[Topic]:
    """The topic of the path, or its partitions; status `refused` if it is not persistent."""
    broker, name = serving(site), topic_of(request)
    if not name.is_persistent:
        raise Refused(refused, f"{name} is not persistent: it stores no messages")
    parts = await partitions_of(broker, name)
    if parts == [name] and name.partition < 0 and not await broker.exists(name):
        raise no_topic(name)
    return [await loaded(broker, part) for part in parts]


async def _topic(site: Site, request: Request, what: str) -> Topic:
    """The topic of the path, which must not be partitioned."""
    broker, name = serving(site), topic_of(request)
    if name.partition < 0 and await broker.catalogue.partitions(name):
        raise Refused(405, f"{name} is partitioned: {what} on each partition")
    return (await _topics(site, request))[0]


async def _subscriptions(site: Site, request: Request) -> list[Subscription]:
    """The subscription of the path, on the topic or on each of its partitions."""
    return [_subscription(topic, request) for topic in await _topics(site, request)]


def _subscription(topic: Topic, request: Request) -> Subscription:
    (name,) = parts_of(request, "subscription")
    if name not in topic.subscriptions:
        raise no_subscription(name, topic.name)
    return topic.subscriptions[name]


def _number(request: Request, name: str, bits: int) -> int:
    """A number in the path; 404 if it is none, as for any path without a route."""
    (text,) = parts_of(request, name)
    try:
        number = int(text)
    except ValueError as error:
        raise Refused(404, f"{name} is {text}: expected a whole number") from error
    if not -(1 << bits) <= number < 1 << bits:
        raise Refused(404, f"{name} is {number}: expected less than 2^{bits}")
    return number


def _count(request: Request, name: str) -> int:
    number = _number(request, name, INT)
    if number < 0:
        raise Refused(412, f"{name} is {number}: expected 0 or more")
    return number


# Skipping and expiring ------------------------------------------------------------------


async def skip(site: Site, request: Request) -> Response:
    """Skip a number of messages of a subscription, the oldest first."""
    messages = _count(request, "messages")
    topic = await _topic(site, request, "skip messages")
    await skip_messages(_subscription(topic, request), messages)
    return Response(status=204)


async def skip_everything(site: Site, request: Request) -> Response:
    """Skip all messages of a subscription."""
    for subscription in await _subscriptions(site, request):
        await skip_all(subscription)
    return Response(status=204)


async def expire(site: Site, request: Request) -> Response:
    """Skip the messages of a subscription that are older than a number of seconds."""
    seconds = _count(request, "seconds")
    topics = await _topics(site, request)
    await _expire(seconds, [(topic, [_subscription(topic, request)]) for topic in topics])
    return Response(status=204)


async def expire_for_all(site: Site, request: Request) -> Response:
    """Skip the messages of all subscriptions that are older than a number of seconds."""
    seconds = _count(request, "seconds")
    topics = await _topics(site, request)
    await _expire(seconds, [(topic, expiring_subscriptions(topic)) for topic in topics])
    return Response(status=204)


async def _expire(seconds: int, chosen: list[tuple[Topic, list[Subscription]]]) -> None:
    waiting = [one for topic, some in chosen for one in some if one.next_unacked() < topic.log.end]
    if not waiting and any(some for _, some in chosen):
        raise Refused(409, "nothing to expire: every message is acknowledged")
    for topic, subscriptions in chosen:
        await expire_older(topic, seconds, subscriptions)


async def expire_to_message(site: Site, request: Request) -> Response:
    """Skip the messages of a subscription up to one, that included unless it is `excluded`."""
    topic = await _topic(site, request, "expire messages by id")
    place, subscription = place_of(request), _subscription(topic, request)
    message = place.message
    if topic.log.seek(message.ledger, message.entry) >= topic.log.end:
        raise Refused(
            409,
            f"{topic.name} has no message {message.ledger}:{message.entry}: name an earlier one",
        )
    await expire_through(subscription, await place_in(topic.log, message, not place.excluded))
    return Response(status=204)


# Resetting, deleting -------------------------------------------------------------------


async def reset_to_time(site: Site, request: Request) -> Response:
    """Move a subscription to the first message published at or after a time."""
    timestamp_ms = _number(request, "timestamp", LONG)
    for subscription in await _subscriptions(site, request):
        await _moved(subscription, await first_since(subscription.topic.log, timestamp_ms))
    return Response(status=204)


async def reset_to_message(site: Site, request: Request) -> Response:
    """Move a subscription to a message, or behind it if it is `excluded`."""
    topic = await _topic(site, request, "reset the cursor to a message")
    place, subscription = place_of(request), _subscription(topic, request)
    await _moved(subscription, *await place_in(topic.log, place.message, place.excluded))
    return Response(status=204)


async def _moved(subscription: Subscription, offset: int, left: int | None = None) -> None:
    try:
        await subscription.seek(offset, left)
    except UnknownTrouble as error:
        raise Refused(412, f"{error}: retry when that has ended") from error


async def truncate_topic(site: Site, request: Request) -> Response:
    """Skip every message for all subscriptions, and delete all closed segments."""
    for topic in await _topics(site, request, refused=412):
        await truncate(topic)
    return Response(status=204)


async def trim(site: Site, request: Request) -> Response:
    """Delete consumed segments now that retention does not keep, instead of at the next check."""
    for topic in await _topics(site, request):
        await tidy(topic)
    return Response()


async def explain(site: Site, request: Request) -> Response:
    """When messages are deleted, and the source of each policy that decides it."""
    topic = await _topic(site, request, "ask about retention")
    return json_response(explained(topic))


async def check_quotas(site: Site, request: Request) -> Response:
    """Check all backlog quotas now, instead of at the next check."""
    await serving(site).jobs.run(QUOTAS)
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    topic = f"/admin/v2/{TOPIC}"
    yield Route("POST", f"{SUBSCRIPTION}/skip/{{messages}}", skip)
    yield Route("POST", f"{SUBSCRIPTION}/skip_all", skip_everything)
    yield Route("POST", f"{SUBSCRIPTION}/expireMessages/{{seconds}}", expire)
    yield Route("POST", f"{SUBSCRIPTION}/expireMessages", expire_to_message)
    yield Route("POST", f"{topic}/all_subscription/expireMessages/{{seconds}}", expire_for_all)
    yield Route("POST", f"{SUBSCRIPTION}/resetcursor/{{timestamp}}", reset_to_time)
    yield Route("POST", f"{SUBSCRIPTION}/resetcursor", reset_to_message)
    yield Route("DELETE", f"{topic}/truncate", truncate_topic)
    yield Route("POST", f"{topic}/trim", trim)
    yield Route("GET", f"{topic}/explainRetention", explain)
    yield Route("GET", "/admin/v2/brokers/backlog-quota-check", check_quotas)
