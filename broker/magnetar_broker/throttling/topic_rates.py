"""The rate limits of one topic: publishing, delivering and subscribing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from magnetar_broker.base.connection import Connection, host_of
from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.base.meter import Meter
from magnetar_broker.policies.effective import EffectivePolicies
from magnetar_broker.policies.table import (
    DISPATCH_RATE,
    PUBLISH_RATE,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATES,
)
from magnetar_broker.policies.values import DispatchRate, SubscribeRate
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.throttling.bucket import Bucket
from magnetar_broker.throttling.rate_limit import BrokerRates, Rate, RateLimit
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock

RATES = "rates"
"""The key of a plan among the values derived from policies."""
MAX_SUBSCRIBERS = 1000
"""Consumers whose subscribing is counted; beyond it those that subscribed last are kept."""


@dataclass(frozen=True)
class RatePlan:
    """The effective rates; topics with the same policies share one plan."""

    publish: Rate
    dispatch: Rate
    each: Rate
    """The rate of delivery of each subscription that is not in `named`."""
    named: Mapping[str, Rate]
    subscribe: SubscribeRate

    @cached_property
    def is_limit(self) -> bool:
        """Whether anything is limited."""
        rates = (self.publish, self.dispatch, self.each, *self.named.values())
        return self.subscribe.per_consumer > 0 or any(rate.is_limit for rate in rates)


def plan_of(effective: EffectivePolicies) -> RatePlan:
    """Return the plan of effective policies; the same object until they change."""
    # Made once for all topics with these policies: there may be a hundred thousand.
    plan: RatePlan | None = effective.derived.get(RATES)
    if plan is None:
        publish = effective.value(PUBLISH_RATE)
        named = effective.value(SUBSCRIPTION_DISPATCH_RATES)
        plan = effective.derived[RATES] = RatePlan(
            Rate(publish.messages, publish.bytes),
            _rate(effective.value(DISPATCH_RATE)),
            _rate(effective.value(SUBSCRIPTION_DISPATCH_RATE)),
            {name: _rate(rate) for name, rate in named.items()},
            effective.value(SUBSCRIBE_RATE),
        )
    return plan


def _rate(rate: DispatchRate) -> Rate:
    period_seconds = max(rate.period_seconds, 1)
    return Rate(rate.messages, rate.bytes, period_seconds, rate.relative_to_publish)


class TopicRates:
    """The limits of a plan, and those that the topic shares with all others."""

    def __init__(
        self,
        topic: TopicName,
        plan: RatePlan,
        shared: BrokerRates,
        meter: Meter,
        clock: Clock,
        before: "TopicRates | None",
    ) -> None:
        """Keep the unchanged limits of `before`, which was in effect so far."""
        self.plan = plan
        self._topic = topic
        self._meter = meter
        self._clock = clock
        self.shared = shared_publish, shared_dispatch = shared.limits(clock)
        limit = self._limit("topic", plan.publish, before.publish if before else ())
        self.publish: tuple[RateLimit, ...] = _all_of(limit, shared_publish)
        """The limits of publishing."""
        limit = self._limit("topic", plan.dispatch, before.dispatch if before else ())
        self.dispatch: tuple[RateLimit, ...] = _all_of(limit, shared_dispatch)
        """The limits of delivering that all subscriptions share."""
        # A change of another rate must not give everybody new tokens.
        self._subscribers: dict[tuple[str, str, int], Bucket] = {}
        if before is not None and before.plan.subscribe == plan.subscribe:
            self._subscribers = before._subscribers

    @property
    def publish_waits(self) -> int:
        """The number of times that connections waited for the topic's own rate."""
        return sum(limit.waits for limit in self.publish if limit.scope == "topic")

    def release_publishers(self, still: "TopicRates | None" = None) -> None:
        """Release publishers that wait for the topic's own rate, unless `still` has it too."""
        for limit in self.publish:
            # Those of the broker are released by `BrokerRates`, when no topic has them any more.
            if limit.scope == "topic" and (still is None or limit not in still.publish):
                limit.release_all()

    def of_subscription(self, name: str, before: Sequence[RateLimit]) -> tuple[RateLimit, ...]:
        """Return the limits of delivering of one subscription; unchanged ones of `before` stay."""
        rate = self.plan.named.get(name, self.plan.each)
        own = self._limit("subscription", rate, before)
        return _all_of(own, *self.dispatch)

    def check_subscribe(self, connection: Connection, consumer_name: str, consumer_id: int) -> None:
        """Raise `NotAllowed` for a consumer that exceeds the rate of subscribing."""
        rate, now_ms = self.plan.subscribe, self._clock.now_ms()
        if rate.per_consumer <= 0:
            return
        subscriber = (host_of(connection.address), consumer_name, consumer_id)
        # Taken out and put in again, which moves it to the end of the order.
        bucket = self._subscribers.pop(subscriber, None)
        if bucket is None:
            self._drop_some(now_ms)
            bucket = Bucket(rate.per_consumer, max(rate.period_seconds, 1), now_ms)
        self._subscribers[subscriber] = bucket  # in the order of the last request
        if bucket.left(now_ms) <= 0:
            raise NotAllowed(
                f"{consumer_name or 'this consumer'} exceeds {rate.per_consumer} "
                f"subscribe requests in {rate.period_seconds} s to {self._topic}: wait, or raise "
                "subscribeThrottlingRatePerConsumer"
            )
        bucket.take(1, now_ms)

    def _drop_some(self, now_ms: int) -> None:
        most = self.plan.subscribe.per_consumer
        while len(self._subscribers) >= MAX_SUBSCRIBERS:
            # A full bucket is as good as a new one: nothing is forgotten with it.
            full = [
                subscriber
                for subscriber, one in self._subscribers.items()
                if one.left(now_ms) >= most
            ]
            for subscriber in full or [next(iter(self._subscribers))]:
                del self._subscribers[subscriber]

    def _limit(self, scope: str, rate: Rate, before: Sequence[RateLimit]) -> RateLimit | None:
        if not rate.is_limit:
            return None
        for limit in before:
            # The same limit goes on, with its debt and its waiters.
            if limit.scope == scope and limit.rate == rate:
                return limit
        return RateLimit(scope, rate, self._clock, self._published if rate.relative else None)

    def _published(self) -> tuple[float, float]:
        """Return messages and bytes published per second, as last measured."""
        messages, size, *_ = self._meter.rates
        return messages, size


def _all_of(*limits: RateLimit | None) -> tuple[RateLimit, ...]:
    return tuple(limit for limit in limits if limit is not None)


def topic_rates(
    topic: TopicName,
    policies: PolicyView,
    shared: BrokerRates,
    meter: Meter,
    clock: Clock,
    before: TopicRates | None = None,
) -> TopicRates | None:
    """Return the rates in effect for a topic whose policies are loaded; None if nothing is limited.

    `meter` has the topic's rate of publishing, for dispatch rates that are relative to it.
    """
    # The broker itself reads and writes these.
    if topic.is_system:
        return None
    plan = plan_of(policies.effective_policies(topic))
    if before is not None and before.plan == plan and before.shared == shared.limits(clock):
        return before
    rates = None
    if plan.is_limit or shared.are_any:
        rates = TopicRates(topic, plan, shared, meter, clock, before)
    if before is not None:
        before.release_publishers(rates)
    return rates
