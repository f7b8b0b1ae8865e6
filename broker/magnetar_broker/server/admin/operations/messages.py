"""Skipping, expiring, redelivering and deleting the messages of one topic.

Everything is durable on return, and connected consumers follow it.
"""

from collections.abc import Sequence
from typing import Any

from magnetar_broker.base.errors import UnknownError
from magnetar_broker.broker import Broker
from magnetar_broker.expiry.message_expiry import expire_older, expiring_subscriptions
from magnetar_broker.expiry.trimming import trim_topic, truncate
from magnetar_broker.maintenance import QUOTAS
from magnetar_broker.server.admin.operations.explaining import explained
from magnetar_broker.server.admin.operations.loading import Position, loaded, subscription_of
from magnetar_broker.server.admin.refusals import no_subscription
from magnetar_broker.server.http.messages import Refused
from magnetar_broker.subscriptions.finding import first_since
from magnetar_broker.subscriptions.skipping import expire_through, place_in, skip_all, skip_messages
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.topic import Topic
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName


async def skip(broker: Broker, name: TopicName, subscription: str, messages: int) -> None:
    """Skip a number of messages of a subscription, the oldest first."""
    await skip_messages(await subscription_of(broker, name, subscription), messages)


async def skip_everything(broker: Broker, name: TopicName, subscription: str) -> None:
    """Skip all messages of a subscription."""
    await skip_all(await subscription_of(broker, name, subscription))


async def expirable(
    broker: Broker, name: TopicName, subscription: str | None
) -> Sequence[tuple[str, bool]]:
    """Return the subscriptions whose messages expire, and whether each has unacknowledged ones."""
    topic = await loaded(broker, name)
    end = topic.log.end
    return [(one.name, one.next_unacked() < end) for one in _expiring(topic, subscription)]


async def expire(broker: Broker, name: TopicName, subscription: str | None, seconds: int) -> None:
    """Skip messages older than a number of seconds, for all subscriptions or one."""
    topic = await loaded(broker, name)
    await expire_older(topic, seconds, _expiring(topic, subscription))


def _expiring(topic: Topic, subscription: str | None) -> list[Subscription]:
    if subscription is None:
        return expiring_subscriptions(topic)
    if subscription not in topic.subscriptions:
        raise no_subscription(subscription, topic.name)
    return [topic.subscriptions[subscription]]


async def expire_to_message(
    broker: Broker, name: TopicName, subscription: str, message: Position, excluded: bool
) -> None:
    """Skip the messages of a subscription up to one, including it unless it is `excluded`."""
    chosen = await subscription_of(broker, name, subscription)
    log, last = chosen.topic.log, MessageId(*message)
    if log.seek(last.ledger, last.entry) >= log.end:
        raise Refused(409, f"{name} has no message {last.ledger}:{last.entry}: name an earlier one")
    await expire_through(chosen, await place_in(log, last, not excluded))


async def reset_to_time(
    broker: Broker, name: TopicName, subscription: str, timestamp_ms: int
) -> None:
    """Move a subscription to the first message published at or after a time."""
    chosen = await subscription_of(broker, name, subscription)
    await _moved(chosen, await first_since(chosen.topic.log, timestamp_ms))


async def reset_to_message(
    broker: Broker, name: TopicName, subscription: str, message: Position, excluded: bool
) -> None:
    """Move a subscription to a message, or to the next one if the message is `excluded`."""
    chosen = await subscription_of(broker, name, subscription)
    await _moved(chosen, *await place_in(chosen.topic.log, MessageId(*message), excluded))


async def _moved(subscription: Subscription, offset: int, left: int | None = None) -> None:
    try:
        await subscription.seek(offset, left)
    except UnknownError as error:
        raise Refused(412, f"{error}: retry when that has ended") from error


async def truncate_topic(broker: Broker, name: TopicName) -> None:
    """Skip every message for all subscriptions, and delete all closed segments."""
    await truncate(await loaded(broker, name))


async def trim(broker: Broker, name: TopicName) -> None:
    """Delete the consumed segments that retention does not keep."""
    await trim_topic(await loaded(broker, name))


async def explain(broker: Broker, name: TopicName) -> dict[str, Any]:
    """Return the time at which messages are deleted, and the deciding policies, as JSON."""
    return explained(await loaded(broker, name))


async def check_quotas(broker: Broker) -> None:
    """Check all backlog quotas of the process."""
    await broker.jobs.run(QUOTAS)
