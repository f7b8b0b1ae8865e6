"""The subscriptions of one topic, persistent or not."""

from magnetar_broker.base.errors import InUse, NotAllowed
from magnetar_broker.broker import Broker
from magnetar_broker.dispatch.compacted import replaced, shown
from magnetar_broker.server.admin.operations.loading import Position, loaded
from magnetar_broker.server.http.messages import Refused
from magnetar_broker.subscriptions.skipping import place_in
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName

Properties = dict[str, str]


async def names_of(broker: Broker, name: TopicName) -> list[str]:
    """Return the names of all subscriptions."""
    topic = await _present(broker, name)
    return [] if topic is None else list(topic.subscriptions)


async def consumers_of(broker: Broker, name: TopicName, subscription: str) -> int | None:
    """Return the number of connected consumers; None if the subscription does not exist."""
    topic = await _present(broker, name)
    if topic is None or subscription not in topic.subscriptions:
        return None
    return len(topic.subscriptions[subscription].consumers)


async def durable(broker: Broker, name: TopicName) -> dict[str, int]:
    """Return the durable subscriptions, with the number of consumers that are connected to each."""
    topic = await loaded(broker, name)
    found = topic.subscriptions.values()
    return {one.name: len(one.consumers) for one in found if one.durable}


async def has(broker: Broker, name: TopicName, subscription: str) -> bool:
    """Return whether a subscription exists; create the topic where use creates topics."""
    return subscription in (await loaded(broker, name, create=True)).subscriptions


async def create(
    broker: Broker,
    name: TopicName,
    subscription: str,
    message: Position,
    excluded: bool,
    properties: Properties,
) -> None:
    """Create a subscription that begins at a message, or after it if it is `excluded`."""
    topic = await loaded(broker, name, create=True)
    offset, _ = await place_in(topic.log, MessageId(*message), excluded)
    try:
        await topic.subscriptions.create(subscription, offset, properties)
    except NotAllowed as error:
        raise Refused(409, str(error)) from error  # 409, not 405: as for the limit of topics


async def delete(broker: Broker, name: TopicName, subscription: str, force: bool) -> None:
    """Delete a subscription if it exists; `InUse` if it has consumers, unless `force`."""
    topic = await _present(broker, name)
    if topic is None or subscription not in topic.subscriptions:
        return
    consumers = topic.subscriptions[subscription].consumers
    if consumers and not force:
        raise in_use(subscription)
    consumers.disconnect()
    if isinstance(topic, Topic) and subscription in topic.subscriptions:
        await topic.subscriptions[subscription].delete()


def in_use(subscription: str) -> InUse:
    """Return the refusal to delete a subscription that has consumers."""
    return InUse(
        f"subscription {subscription} has connected consumers: close them, or use force=true"
    )


async def properties(broker: Broker, name: TopicName, subscription: str) -> Properties | None:
    """Return the properties of a durable subscription; None if it does not exist."""
    topic = await _present(broker, name)
    cursor = topic.cursors.cursors.get(subscription) if isinstance(topic, Topic) else None
    return None if cursor is None else shown(cursor.properties)


async def set_properties(
    broker: Broker, name: TopicName, subscription: str, new: Properties
) -> None:
    """Replace all properties of a durable subscription if it exists; durable on return."""
    topic = await _present(broker, name)
    if isinstance(topic, Topic) and subscription in topic.cursors.cursors:
        cursor = topic.cursors.cursors[subscription]
        await topic.cursors.set_properties(cursor, replaced(cursor.properties, new))


async def _present(broker: Broker, name: TopicName) -> AnyTopic | None:
    """Return the topic; None if it is not persistent and has ended with its last client."""
    if name.is_persistent:
        return await loaded(broker, name)
    return broker.topics.get(name)
