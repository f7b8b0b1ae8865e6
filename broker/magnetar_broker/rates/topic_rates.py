"""How fast a topic may be published to, delivered from, and subscribed to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from magnetar_broker.connection import Connection, host_of
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
    Holding,
    Policies,
    SubscribeRate,
)
from magnetar_broker.publishing.producer import Sends
from magnetar_broker.rates.bucket import Bucket
from magnetar_broker.rates.rate_limit import Rate, RateLimit
from magnetar_broker.subscribing.consumer import SubscribeRequest
from magnetar_proto.names import TopicName
from magnetar_storage.world import Clock

RATES = "rates"
"""What plans are called where they are derived from policies."""
MAX_SUBSCRIBERS = 1000
"""So many consumers are remembered; beyond it those that have not subscribed lately are not."""


class Home(Protocol):
    """A topic, as its rates see it."""

    name: TopicName
    limits: TopicLimits
    policies: Policies
    meter: Meter


@dataclass(frozen=True)
class RatePlan:
    """What policies say; topics of which they say the same share it."""

    publish: Rate
    dispatch: Rate
    each: Rate
    """Of each subscription, but for those with a rate of their own."""
    named: Mapping[str, Rate]
    subscribe: SubscribeRate

    @cached_property
    def is_limit(self) -> bool:
        """Whether anything is limited."""
        rates = (self.publish, self.dispatch, self.each, *self.named.values())
        return self.subscribe.per_consumer > 0 or any(rate.is_limit for rate in rates)


def plan_of(holding: Holding) -> RatePlan:
    """The same object until somebody says something else."""
    plan: RatePlan | None = holding.derived.get(RATES)
    if plan is None:
        publish = holding.value(PUBLISH_RATE)
        named = holding.value(SUBSCRIPTION_DISPATCH_RATES)
        plan = holding.derived[RATES] = RatePlan(
            Rate(publish.messages, publish.bytes),
            _rate(holding.value(DISPATCH_RATE)),
            _rate(holding.value(SUBSCRIPTION_DISPATCH_RATE)),
            {name: _rate(rate) for name, rate in named.items()},
            holding.value(SUBSCRIBE_RATE),
        )
    return plan


def _rate(rate: DispatchRate) -> Rate:
    period_seconds = max(rate.period_seconds, 1)
    return Rate(rate.messages, rate.bytes, period_seconds, rate.relative_to_publish)


class TopicRates:
    """The limits that a plan asks for, and those that the topic shares with others."""

    def __init__(
        self, topic: Home, plan: RatePlan, clock: Clock, before: "TopicRates | None"
    ) -> None:
        """`before` is what held so far: what stays the same goes on where it is."""
        self.plan = plan
        self._topic = topic
        self._clock = clock
        shared_publish, shared_dispatch = topic.limits.broker_rates.limits(clock)
        limit = self._limit("topic", plan.publish, before.publish if before else ())
        self.publish: tuple[RateLimit, ...] = _all_of(limit, shared_publish)
        """The limits of publishing."""
        limit = self._limit("topic", plan.dispatch, before.dispatch if before else ())
        self.dispatch: tuple[RateLimit, ...] = _all_of(limit, shared_dispatch)
        """The limits of delivering that all subscriptions share."""
        self._subscribers: dict[tuple[str, str, int], Bucket] = {}
        if before is not None and before.plan.subscribe == plan.subscribe:
            self._subscribers = before._subscribers

    @property
    def publish_waits(self) -> int:
        """How often a connection had to wait for the topic's own rate since that was set."""
        return sum(limit.waits for limit in self.publish if limit.scope == "topic")

    def let_go(self, still: "TopicRates | None" = None) -> None:
        """No publisher waits any more for the topic's own rate, unless that holds still."""
        for limit in self.publish:
            if limit.scope == "topic" and (still is None or limit not in still.publish):
                limit.let_go()

    def published(self, sends: Sends) -> None:
        """A run came: while there is a debt, nothing more is read from who sent it."""
        messages, connection = sum(sends.counts), sends.producer.connection
        for limit in self.publish:
            limit.take(messages, sends.size)
            if limit.wait_ms > 0 and not limit.is_awaited_by(connection):
                limit.wait(connection, connection.hold_reading())

    def of_subscription(self, name: str, before: Sequence[RateLimit]) -> tuple[RateLimit, ...]:
        """The limits of delivering for one subscription, which had those of `before`."""
        rate = self.plan.named.get(name, self.plan.each)
        own = self._limit("subscription", rate, before)
        return _all_of(own, *self.dispatch)

    def check_subscribe(self, connection: Connection, request: SubscribeRequest) -> None:
        """`NotAllowed` for a consumer that subscribes too often."""
        rate, now_ms = self.plan.subscribe, self._clock.now_ms()
        if rate.per_consumer <= 0:
            return
        who = (host_of(connection.address), request.consumer_name, request.consumer_id)
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
        most = self.plan.subscribe.per_consumer
        while len(self._subscribers) >= MAX_SUBSCRIBERS:
            full = [who for who, one in self._subscribers.items() if one.left(now_ms) >= most]
            for who in full or [next(iter(self._subscribers))]:
                del self._subscribers[who]

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
    plan = plan_of(topic.policies.holding(topic.name))
    if before is not None and before.plan == plan:
        return before
    rates = None
    if plan.is_limit or topic.limits.broker_rates.are_any:
        rates = TopicRates(topic, plan, clock, before)
    if before is not None:
        before.let_go(rates)
    return rates
