"""Topics that take no message any more; what they have is delivered as ever."""

from collections.abc import Mapping
from typing import Protocol

from magnetar_broker.errors import NotReady, TopicTerminated
from magnetar_broker.publishing.appender import Appender
from magnetar_broker.publishing.producers import Producers
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.log import Log
from magnetar_storage.positions import NOWHERE


class Home(Protocol):
    """A topic, as its end sees it."""

    name: TopicName
    log: Log
    producers: Producers
    appender: Appender

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All that it has."""


async def terminate(topic: Home) -> MessageId:
    """Let nothing be published any more, ever; the id of what was last then.  Durable on return.

    What was appended before is answered.  What comes meanwhile is not: its producers are sent
    away, and learn the reason when they come back.  If it cannot be recorded the topic is dropped.
    """
    if not topic.log.terminated:
        topic.appender.end()
        await topic.log.terminate()
        topic.producers.disconnect()
        for subscription in list(topic.subscriptions.values()):
            subscription.tell_end()
    return MessageId(*(topic.log.record.terminated_at or NOWHERE))


def check_not_terminated(topic: Home) -> None:
    """`TopicTerminated` if nothing may be published, `NotReady` while that is being recorded."""
    if topic.log.terminated:
        raise TopicTerminated(
            f"{topic.name} is terminated: it takes no more messages; what it has can be read"
        )
    if topic.appender.ended:
        raise NotReady(f"{topic.name} is being terminated; try again")
