"""Statistics of subscriptions and topics that clients cannot easily bring about."""

from typing import Any

import pytest

from fakes.compacting import Compacting
from fakes.keyed import Message
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld, entry
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.table import DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATE
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.statistics.blockers import why_not_delivering
from magnetar_broker.statistics.internal import MAX_RANGES, internal_stats
from magnetar_broker.statistics.subscriptions import Wanted
from magnetar_broker.statistics.topics import topic_stats


def stats_of(world: TopicWorld, wanted: Wanted | None = None) -> dict[str, Any]:
    return world.do(topic_stats(world.topic, wanted or Wanted()))


def limited(world: TopicWorld, policy: Policy[Any], messages: int, size: int = -1) -> None:
    world.do(world.policies.set(world.name, {policy: DispatchRate(messages, size, 1, False)}))
    world.do(world.topic.policies_changed())
    world.clock.pump()


RATES = [
    (SUBSCRIPTION_DISPATCH_RATE, 2, -1, "dispatchThrottledMsgEventsBySubscriptionLimit"),
    (DISPATCH_RATE, -1, 10, "dispatchThrottledBytesEventsByTopicLimit"),
]


@pytest.mark.parametrize(("policy", "messages", "size", "field"), RATES)
def test_waits_for_a_dispatch_rate_are_counted_by_its_scope(
    policy: Policy[Any], messages: int, size: int, field: str
) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    limited(world, policy, messages, size)
    world.subscribe(sub_type=SHARED, permits=1000)
    world.publish(*(entry(0, payload=b"12345678") for _ in range(10)))
    found = world.do(why_not_delivering(world.topic, world.subscription(), None))
    assert found["blocker"] == "rate"
    (rate,) = found["dispatchRates"]
    assert (rate["dispatchThrottlingRateInMsg"], rate["dispatchThrottlingRateInByte"]) == (
        messages,
        size,
    )
    assert rate["waitMillis"] > 0
    sub = stats_of(world)["subscriptions"]["sub"]
    assert sub[field] == 1
    assert sum(value for name, value in sub.items() if name.startswith("dispatchThrottled")) == 1
    limited(world, policy, -1)
    assert stats_of(world)["subscriptions"]["sub"][field] >= 1, "the count outlives the rate"


def test_a_subscription_without_consumers_has_no_type() -> None:
    world = TopicWorld()
    world.do(world.topic.subscriptions.create("sub", 0, {"a": "b"}))
    sub = stats_of(world)["subscriptions"]["sub"]
    assert (sub["type"], sub["subscriptionProperties"]) == ("None", {"a": "b"})
    world.subscribe(sub_type=SHARED).close()
    assert stats_of(world)["subscriptions"]["sub"]["type"] == "Shared"


def test_the_active_consumer_is_named() -> None:
    world = TopicWorld()
    world.subscribe(sub_type=EXCLUSIVE, consumer_name="you")
    assert stats_of(world)["subscriptions"]["sub"]["activeConsumerName"] == "you"


def test_gaps_are_counted_and_their_list_is_bounded() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=SHARED, permits=1 << 20)
    entries = 2 * MAX_RANGES + 10
    for first in range(0, entries, 500):
        world.publish(*[entry(0)] * min(500, entries - first))
    world.ack(consumer, *range(1, entries, 2))
    sub = stats_of(world)["subscriptions"]["sub"]
    assert sub["nonContiguousDeletedMessagesRanges"] == entries // 2
    assert sub["msgBacklog"] == entries // 2
    cursor = internal_stats(world.topic, False)["cursors"]["sub"]
    ledger = world.topic.log.segments[0].id
    ranges = cursor["individuallyDeletedMessages"]
    assert ranges.startswith(f"[({ledger}:0..{ledger}:1],({ledger}:2..{ledger}:3]")
    assert ranges.count("..") == MAX_RANGES
    assert cursor["markDeletePosition"] == f"{ledger}:-1"
    assert cursor["totalNonContiguousDeletedMessagesRange"] == entries // 2


def test_the_last_compaction_is_shown() -> None:
    world = Compacting()
    world.send_all([([Message(f"k{n % 3}", b"%d" % n)], None) for n in range(9)])
    assert stats_of(world)["compaction"]["lastCompactionSucceedTimestamp"] == 0
    begun_ms = world.clock.now_ms()
    world.compact()
    found = stats_of(world)["compaction"]
    assert found["lastCompactionRemovedEventCount"] == 6
    assert begun_ms <= found["lastCompactionSucceedTimestamp"] <= world.clock.now_ms()
    assert found["lastCompactionFailedTimestamp"] == 0
