"""How fast a topic may be published to, delivered from, and subscribed to."""

from collections.abc import Sequence
from typing import Protocol

from magnetar_broker.connection import Connection
from magnetar_broker.consumer import SubscribeRequest
from magnetar_broker.errors import NotAllowed
from magnetar_broker.limits import TopicLimits
from magnetar_broker.meter import Meter
from magnetar_broker.policies import (
    DISPATCH_RATE,
    PUBLISH_RATE,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATES,
    DispatchRate,
    Policies,
)
from magnetar_broker.producer import Sends
from magnetar_broker.rate_limit import Rate, RateLimit
from magnetar_broker.rates import Bucket
from magnetar_proto.names import TopicName
from magnetar_storage.world import Clock

NO_RATES = "no rates"
"""What it is called, where it is derived from policies, that nothing is limited."""
MAX_SUBSCRIBERS = 1000
"""So many consumers are remembered; beyond it those that have not subscribed lately are not."""


class Home(Protocol):
    """A topic, as its rates see it."""

    name: TopicName
    limits: TopicLimits
    policies: Policies
    meter: Meter


class TopicRates:
    """What the topic's policies say, and the rates that it shares with other topics."""

    def __init__(self, topic: Home, clock: Clock, before: "TopicRates | None") -> None:
        """`before` is what held so far: what stays the same goes on where it is."""
        name, policies = topic.name, topic.policies
        self._topic = topic
        self._clock = clock
        shared_publish, shared_dispatch = topic.limits.broker_rates.limits(clock)
        publish = policies.value(PUBLISH_RATE, name)
        limit = self._limit(
            "topic", Rate(publish.messages, publish.bytes), before.publish if before else ()
        )
        self.publish: tuple[RateLimit, ...] = _all_of(limit, shared_publish)
        """The limits of publishing."""
        limit = self._dispatch_limit(
            "topic", policies.value(DISPATCH_RATE, name), before.dispatch if before else ()
        )
        self.dispatch: tuple[RateLimit, ...] = _all_of(limit, shared_dispatch)
        """The limits of delivering that all subscriptions share."""
        self._each = policies.value(SUBSCRIPTION_DISPATCH_RATE, name)
        self._named = policies.value(SUBSCRIPTION_DISPATCH_RATES, name)
        self._subscribe = policies.value(SUBSCRIBE_RATE, name)
        self._subscribers: dict[tuple[str, str, int], Bucket] = {}
        if before is not None and before._subscribe == self._subscribe:
            self._subscribers = before._subscribers

    @property
    def are_any(self) -> bool:
        """Whether anything is limited."""
        each = (self._each, *self._named.values())
        return bool(
            self.publish
            or self.dispatch
            or self._subscribe.per_consumer > 0
            or any(one.messages > 0 or one.bytes > 0 for one in each)
        )

    @property
    def publish_waits(self) -> int:
        """How often a connection had to wait for the topic's own rate since that was set."""
        return sum(limit.waits for limit in self.publish if limit.scope == "topic")

    def published(self, sends: Sends) -> None:
        """A run came: while there is a debt, nothing more is read from who sent it."""
        messages, connection = sum(sends.counts), sends.producer.connection
        for limit in self.publish:
            limit.take(messages, sends.size)
            if limit.wait_ms > 0 and not limit.is_awaited_by(connection):
                limit.wait(connection, connection.hold_reading())

    def of_subscription(self, name: str, before: Sequence[RateLimit]) -> tuple[RateLimit, ...]:
        """The limits of delivering for one subscription, which had those of `before`."""
        rate = self._named.get(name, self._each)
        own = self._dispatch_limit("subscription", rate, before)
        return _all_of(own, *self.dispatch)

    def check_subscribe(self, connection: Connection, request: SubscribeRequest) -> None:
        """`NotAllowed` for a consumer that subscribes too often."""
        rate, now_ms = self._subscribe, self._clock.now_ms()
        if rate.per_consumer <= 0:
            return
        host = connection.address.rpartition(":")[0]
        who = (host, request.consumer_name, request.consumer_id)
        bucket = self._subscribers.pop(who, None)
        if bucket is None:
            self._forget_some(now_ms)
            bucket = Bucket(rate.per_consumer, max(rate.period_seconds, 1), now_ms)
        self._subscribers[who] = bucket  # the one that was longest silent comes first
        if bucket.left(now_ms) <= 0:
            raise NotAllowed(
                f"{request.consumer_name or 'this consumer'} may subscribe to {self._topic.name} "
                f"{rate.per_consumer} times in {rate.period_seconds} s: wait, or raise "
                "subscribeThrottlingRatePerConsumer"
            )
        bucket.take(1, now_ms)

    def _forget_some(self, now_ms: int) -> None:
        most = self._subscribe.per_consumer
        while len(self._subscribers) >= MAX_SUBSCRIBERS:
            full = [who for who, one in self._subscribers.items() if one.left(now_ms) >= most]
            for who in full or [next(iter(self._subscribers))]:
                del self._subscribers[who]

    def _dispatch_limit(
        self, scope: str, rate: DispatchRate, before: Sequence[RateLimit]
    ) -> RateLimit | None:
        period, relative = max(rate.period_seconds, 1), rate.relative_to_publish
        return self._limit(scope, Rate(rate.messages, rate.bytes, period, relative), before)

    def _limit(self, scope: str, rate: Rate, before: Sequence[RateLimit]) -> RateLimit | None:
        if not rate.is_limit:
            return None
        for limit in before:
            if limit.scope == scope and limit.rate == rate:
                return limit
        return RateLimit(scope, rate, self._clock, self._published if rate.relative else None)

    def _published(self) -> tuple[float, float]:
        """Messages and bytes that were published in a second, of late."""
        messages, size, *_ = self._topic.meter.rates
        return messages, size


def _all_of(*limits: RateLimit | None) -> tuple[RateLimit, ...]:
    return tuple(limit for limit in limits if limit is not None)


def topic_rates(topic: Home, clock: Clock, before: TopicRates | None) -> TopicRates | None:
    """What holds for a topic whose policies are loaded; None if nothing is limited."""
    if topic.name.is_system:
        return None
    derived, shared = topic.policies.holding(topic.name).derived, topic.limits.broker_rates
    if before is None and derived.get(NO_RATES) is shared:
        return None  # another topic with the same policies has found out
    rates = TopicRates(topic, clock, before)
    if rates.are_any:
        return rates
    derived[NO_RATES] = shared
    return None
