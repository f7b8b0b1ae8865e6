"""The topics that a request names: loaded, and partition by partition."""

from magnetar_broker.broker import Broker
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName


async def loaded(broker: Broker, name: TopicName, create: bool = False) -> Topic:
    """A persistent topic that is not partitioned; raises the refusal if it cannot be opened."""
    topic = await broker.topic(name, create)
    assert isinstance(topic, Topic)
    return topic


async def partitions_of(broker: Broker, topic: TopicName) -> list[TopicName]:
    """The partitions of a partitioned topic; any other topic alone."""
    count = 0 if topic.partition >= 0 else await broker.catalogue.partitions(topic)
    return [topic.with_partition(index) for index in range(count)] or [topic]
