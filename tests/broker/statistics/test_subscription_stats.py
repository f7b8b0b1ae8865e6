"""Statistics of subscriptions and topics in states that clients cannot easily produce."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.compacting import Compacting
from fakes.keyed import Message
from fakes.topics import EXCLUSIVE, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.dispatch.entry_source import RETRY_SECONDS
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.table import DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATE
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.statistics.blockers import why_not_delivering
from magnetar_broker.statistics.internal import MAX_RANGES, internal_stats
from magnetar_broker.statistics.subscription_stats import WantedStatistics
from magnetar_broker.statistics.topic_stats import topic_stats
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.roll_limits import RollLimits


def stats_of(world: TopicWorld, wanted: WantedStatistics | None = None) -> dict[str, Any]:
    return world.do(topic_stats(world.topic, wanted or WantedStatistics()))


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


def rotten(consumers: bool) -> tuple[TopicWorld, int]:
    """Create four entries, unreadable from the second on; a consumer has received the first."""
    world = TopicWorld(roll=RollLimits(max_entries=1, min_age_ms=0), cache_bytes=0)
    for number in range(4):
        world.publish(b"%d" % number)
    segment = world.topic.log.segments[1].id
    world.store.rotten.add(segment)
    consumer = world.subscribe(permits=10, earliest=True)
    world.ack(consumer, 0)
    if not consumers:
        consumer.close()
        world.reload()
    return world, segment


@pytest.mark.parametrize("consumers", [True, False])
def test_damage_at_which_a_subscription_stops_is_explained(consumers: bool) -> None:
    world, segment = rotten(consumers)
    found = world.do(why_not_delivering(world.topic, world.subscription(), None))
    assert (found["blocker"], found["consumerCount"]) == ("damage", int(consumers))
    assert "skip-damaged" in found["whatToDo"]
    assert found["damaged"] == [
        {"ledgerId": segment, "firstEntryId": 0, "lastEntryId": 0, "file": "file", "why": "rot"}
    ]


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
def test_a_read_that_fails_and_is_repeated_is_explained(kind: int) -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(b"0")
    world.store.read_failure = Unavailable("the device does not answer")
    world.subscribe(permits=10, earliest=True, sub_type=kind)
    found = world.do(why_not_delivering(world.topic, world.subscription(), None))
    assert found["blocker"] == "read_error" and found["readError"] == "the device does not answer"
    assert "readsFrom" not in found, "it is in the store"
    world.store.read_failure = None
    world.clock.advance(RETRY_SECONDS)
    found = world.do(why_not_delivering(world.topic, world.subscription(), None))
    assert found["blocker"] == "caught_up" and "readError" not in found


def test_damage_further_on_is_listed_and_is_no_reason_yet() -> None:
    world, segment = rotten(consumers=True)
    behind = world.subscribe(sub="behind", earliest=True)
    behind.close()
    world.do(world.topic.subscriptions.create("ahead", 2, {}))
    found = world.do(why_not_delivering(world.topic, world.subscription("behind"), None))
    assert found["blocker"] == "no_consumer"
    assert [one["ledgerId"] for one in found["damaged"]] == [segment]
    found = world.do(why_not_delivering(world.topic, world.subscription("ahead"), None))
    assert (found["blocker"], found["damaged"]) == ("no_consumer", [])


def test_a_topic_of_an_earlier_release_is_as_old_as_its_first_segment() -> None:
    world = TopicWorld()
    world.clock.advance(5)
    world.publish(entry(1))
    first_ms = world.topic.log.segments[0].created_ms
    key = topic_key(world.name)
    stored = world.do(world.metadata.get(key))
    assert stored is not None
    record = replace(LogRecord.decode(key, stored.value), created_ms=0)
    world.do(world.topic.close())
    world.do(world.metadata.put(key, record.encode()))
    world.reload()
    assert stats_of(world)["topicCreationTimeStamp"] == first_ms > 0
