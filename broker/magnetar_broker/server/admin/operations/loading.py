"""Loads the topic that an operation names."""

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.refusals import no_subscription
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName

Position = tuple[int, int, int, int]
"""A `MessageId` as a plain value."""


async def loaded(broker: Broker, name: TopicName, create: bool = False) -> Topic:
    """Return a persistent topic without partitions, loaded; raise the refusal if it cannot be."""
    topic = await broker.topic(name, create)
    assert isinstance(topic, Topic)
    return topic


async def subscription_of(broker: Broker, name: TopicName, subscription: str) -> Subscription:
    """Return a subscription of a persistent topic; 404 if it does not exist."""
    topic = await loaded(broker, name)
    if subscription not in topic.subscriptions:
        raise no_subscription(subscription, name)
    return topic.subscriptions[subscription]


async def load(broker: Broker, name: TopicName) -> None:
    """Make sure that a persistent topic can be used."""
    await loaded(broker, name)


async def require_subscription(broker: Broker, name: TopicName, subscription: str) -> None:
    """Make sure that a persistent topic has a subscription; 404 if it has none."""
    await subscription_of(broker, name, subscription)
