"""Messages that are passed over, expire, come again or are deleted, because somebody says so.

A 204 means that it is on disk, and that consumers see it.
"""

from collections.abc import Iterator

from magnetar_broker.chores import QUOTAS
from magnetar_broker.errors import UnknownTrouble
from magnetar_broker.lifetime.expiry import everybody, expire_older
from magnetar_broker.lifetime.tidying import truncate
from magnetar_broker.server.admin.explaining import explained
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.positions import place_of
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, parts_of, serving, topic_of
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.subscribing.skipping import expire_through, place_in, skip_all, skip_messages
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic import Topic

SUBSCRIPTION = f"/admin/v2/{TOPIC}/subscription/{{subscription}}"
INT = 31
LONG = 63


# What a request is about ----------------------------------------------------------------


async def _topics(site: Site, request: Request, refused: int = 405) -> list[Topic]:
    """The topic of the path, or the partitions that it has; `refused` if it keeps nothing."""
    broker, name = serving(site), topic_of(request)
    if not name.is_persistent:
        raise Refused(refused, f"{name} is not persistent: it keeps no messages")
    parts = await partitions_of(broker, name)
    if parts == [name] and name.partition < 0 and not await broker.exists(name):
        raise Refused(404, f"Topic {name} not found")
    return [await loaded(broker, part) for part in parts]


async def _topic(site: Site, request: Request, what: str) -> Topic:
    """The topic of the path, which must have no partitions."""
    broker, name = serving(site), topic_of(request)
    if name.partition < 0 and await broker.catalogue.partitions(name):
        raise Refused(405, f"{name} is partitioned: {what} partition by partition")
    return (await _topics(site, request))[0]


async def _subscriptions(site: Site, request: Request) -> list[Subscription]:
    """The subscription of the path, on the topic or on each of its partitions."""
    return [_subscription(topic, request) for topic in await _topics(site, request)]


def _subscription(topic: Topic, request: Request) -> Subscription:
    (name,) = parts_of(request, "subscription")
    if name not in topic.subscriptions:
        raise Refused(404, f"Subscription {name} not found for topic {topic.name}")
    return topic.subscriptions[name]


def _number(request: Request, name: str, bits: int) -> int:
    """A number in the path: without one there is nothing there."""
    (text,) = parts_of(request, name)
    try:
        number = int(text)
    except ValueError as error:
        raise Refused(404, f"{text} is no whole number: give {name} as one") from error
    if not -(1 << bits) <= number < 1 << bits:
        raise Refused(404, f"{number} is too large: {name} must be below 2^{bits}")
    return number


def _count(request: Request, name: str) -> int:
    number = _number(request, name, INT)
    if number < 0:
        raise Refused(412, f"{name} is {number}: it may not be negative")
    return number


# Skipping and expiring ------------------------------------------------------------------


async def skip(site: Site, request: Request) -> Response:
    """Skip the oldest so many messages of a subscription."""
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
    """Skip what of a subscription was published more than so many seconds ago."""
    seconds = _count(request, "seconds")
    topics = await _topics(site, request)
    await _expire(seconds, [(topic, [_subscription(topic, request)]) for topic in topics])
    return Response(status=204)


async def expire_for_all(site: Site, request: Request) -> Response:
    """The same for all subscriptions of a topic."""
    seconds = _count(request, "seconds")
    topics = await _topics(site, request)
    await _expire(seconds, [(topic, everybody(topic)) for topic in topics])
    return Response(status=204)


async def _expire(seconds: int, meant: list[tuple[Topic, list[Subscription]]]) -> None:
    waiting = [one for topic, some in meant for one in some if one.next_unacked() < topic.log.end]
    if not waiting and any(some for _, some in meant):
        raise Refused(409, "nothing can expire: everything was acknowledged")
    for topic, subscriptions in meant:
        await expire_older(topic, seconds, subscriptions)


async def expire_to_message(site: Site, request: Request) -> Response:
    """Skip all of a subscription up to a message, and it as well unless it is `excluded`."""
    topic = await _topic(site, request, "expire messages up to one")
    place, subscription = place_of(request), _subscription(topic, request)
    message = place.message
    if topic.log.seek(message.ledger, message.entry) >= topic.log.end:
        raise Refused(
            409, f"there is no message {message.ledger}:{message.entry} yet: name another"
        )
    await expire_through(subscription, await place_in(topic.log, message, not place.excluded))
    return Response(status=204)


# Going back, deleting -------------------------------------------------------------------


async def reset_to_time(site: Site, request: Request) -> Response:
    """Continue a subscription with what was published at or after a time."""
    timestamp_ms = _number(request, "timestamp", LONG)
    for subscription in await _subscriptions(site, request):
        await _moved(subscription, await subscription.topic.first_since(timestamp_ms))
    return Response(status=204)


async def reset_to_message(site: Site, request: Request) -> Response:
    """Continue a subscription with a message, or behind it if it is `excluded`."""
    topic = await _topic(site, request, "reset the cursor to a message")
    place, subscription = place_of(request), _subscription(topic, request)
    await _moved(subscription, *await place_in(topic.log, place.message, place.excluded))
    return Response(status=204)


async def _moved(subscription: Subscription, offset: int, left: int | None = None) -> None:
    try:
        await subscription.seek(offset, left)
    except UnknownTrouble as error:
        raise Refused(412, f"{error}: try again when that has ended") from error


async def truncate_topic(site: Site, request: Request) -> Response:
    """Skip everything for everybody, and delete all segments that are closed."""
    for topic in await _topics(site, request, refused=412):
        await truncate(topic)
    return Response(status=204)


async def trim(site: Site, request: Request) -> Response:
    """Delete now what may be deleted."""
    for topic in await _topics(site, request):
        await topic.tidy()
    return Response()


async def explain(site: Site, request: Request) -> Response:
    """What is deleted when, and who says so."""
    topic = await _topic(site, request, "ask")
    return json_response(explained(topic))


async def check_quotas(site: Site, request: Request) -> Response:
    """Look at all backlog quotas now."""
    await serving(site).upkeep.run(QUOTAS)
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
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
