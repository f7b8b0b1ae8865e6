"""Computes the rates of a topic, its producers, subscriptions and consumers.

Code that counts something only adds to a counter.  A rate is the growth of a counter in the last
window of `statsUpdateFrequencyInSecs`; a topic without traffic costs one test per window.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from magnetar_broker.base.meter import Meter
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscription
from magnetar_broker.topic.topic import Topic

AnySubscription = Subscription | NonPersistentSubscription


class HasMeter(Protocol):
    """An object with counters and a meter that computes their rates."""

    meter: Meter

    def totals(self) -> tuple[float, ...]:
        """Return the counters since the object was created."""


def close_window(topic: AnyTopic, seconds: float) -> None:
    """Set all rates of a topic at the end of a window of `seconds`."""
    if not topic.traffic.fresh:  # promise: only topics with traffic are measured
        return
    topic.traffic.changed = True  # promise: the page has the rates of the last window
    is_moving = False
    for one in (topic, *_parts(topic)):
        one.meter.close_window(one.totals(), seconds)
        is_moving = is_moving or any(one.meter.rates)
    if isinstance(topic, Topic) and topic.appender.writes is not None:
        topic.appender.writes.close_window()
    # Rates that are not 0 now must become 0 at the end of the next window.
    topic.traffic.fresh = is_moving  # promise[never]: a topic without traffic has rates of 0


def _parts(topic: AnyTopic) -> Iterator[HasMeter]:
    if isinstance(topic, Topic):
        yield topic.reads
    yield from topic.producers
    for subscription in topic.subscriptions.values():
        yield subscription
        yield from subscription.consumers


class Publishing(NamedTuple):
    """The rates per second of a producer."""

    messages: float = 0.0
    bytes: float = 0.0
    chunks: float = 0.0


class Consuming(NamedTuple):
    """The rates per second of a consumer or a subscription."""

    messages: float = 0.0
    bytes: float = 0.0
    redelivered: float = 0.0
    acked: float = 0.0
    """The rate of messages acknowledged by consumers; on Exclusive and Failover estimated by the
    number of entries and the mean number of messages in one."""
    chunks: float = 0.0
    expired: float = 0.0
    """The rate of messages that expired on a subscription of a persistent topic."""
    dropped: float = 0.0
    """The rate of messages that were dropped on a subscription of a non-persistent topic."""


def consuming(subscription: AnySubscription) -> Consuming:
    """Return the rates of a subscription, including those of consumers that have left."""
    messages, size, redelivered, acked, chunks, last = subscription.meter.rates
    if isinstance(subscription, Subscription):
        return Consuming(messages, size, redelivered, acked, chunks, last)
    return Consuming(messages, size, redelivered, acked, chunks, 0.0, last)
