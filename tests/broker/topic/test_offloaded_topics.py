"""Topics whose closed ledgers are only objects: everything works, with few requests."""

from math import ceil, log2
from typing import ClassVar

import pytest

from fakes.keyed import single_entry
from fakes.logs import BY_THREE
from fakes.sessions import SessionWorld
from fakes.tiered_topics import TieredTopic, TieredWorld
from fakes.topics import SHARED, entry
from fakes.transactions import ABORT, COMMIT, Publishing, Reading
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.compaction.topic_compaction import CompactionStatus
from magnetar_broker.expiry.message_expiry import expire_messages
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.server.admin.operations.explaining import explained
from magnetar_proto.ids import MessageId
from magnetar_storage.log.roll_limits import RollLimits

LEDGERS = 40


def filled() -> TieredTopic:
    """Return a topic with the subscription "sub" of which `LEDGERS` ledgers are objects."""
    world = TieredTopic(roll=BY_THREE)
    world.subscribe().close()
    for number in range(3 * LEDGERS + 1):
        world.publish(entry(10 * number))
    assert world.offloaded() >= LEDGERS
    return world


def test_loading_a_topic_publishing_and_acknowledging_need_no_request() -> None:
    world = filled()
    assert world.requests == 0
    assert world.subscription().counter.entries() == 3 * LEDGERS + 1
    world.publish(entry(0))
    consumer = world.subscribe()
    assert world.ack(consumer, 1, 50) == [None]
    assert world.requests == 0


def test_a_seek_by_time_opens_few_ledgers() -> None:
    world = filled()
    most = ceil(log2(LEDGERS)) + 1
    for offset in (0, 17, 60, 3 * LEDGERS - 1):
        world.objects.log.clear()
        world.do(world.subscription().seek_to_time(10 * offset))
        assert world.subscription().cursor.mark_delete == offset - 1
        assert 0 < world.requests <= most


def test_the_expiry_of_messages_needs_no_request() -> None:
    world = TieredTopic(TopicLimits(message_ttl_seconds=60), roll=BY_THREE)
    world.subscribe().close()
    for _ in range(3 * LEDGERS + 1):
        world.publish(entry(world.clock.now_ms()))
        world.clock.advance(1)
    world.offloaded()
    world.do(expire_messages(world.topic))
    expired = world.subscription().cursor.mark_delete + 1
    assert world.requests == 0
    assert 3 * LEDGERS - 60 - 3 <= expired <= 3 * LEDGERS + 1 - 60
    assert expired % 3 == 0, "the messages of a ledger expire together"


def test_a_reader_of_everything_reads_each_object_once() -> None:
    world = filled()
    consumer = world.subscribe(permits=1000)
    assert world.offsets(consumer) == list(range(3 * LEDGERS + 1))
    assert world.requests <= LEDGERS + 1


def test_compaction_reads_offloaded_ledgers() -> None:
    world = TieredTopic(roll=BY_THREE)
    for number in range(30):
        world.publish(single_entry(f"k{number % 4}", b"%d" % number))
    ledgers = world.offloaded()
    assert world.do(world.topic.compaction.start())
    world.clock.pump()
    world.clock.advance(3600)
    assert world.topic.compaction.status is CompactionStatus.SUCCESS
    # The log is read twice: for the last message of each key, and for these messages.
    assert world.requests <= 2 * ledgers
    world.objects.log.clear()
    reader = world.subscribe(
        sub="reader", permits=100, read_compacted=True, durable=False,
        start=MessageId(-1, -1), earliest=True,
    )  # fmt: skip
    assert world.offsets(reader) == [26, 27, 28, 29]
    assert world.requests == 0, "compacted data is in the data directory"


def test_delayed_messages_in_offloaded_ledgers_come_when_they_are_due() -> None:
    world = TieredTopic(TopicLimits(strict_delays=True), roll=BY_THREE)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    began = world.clock.now_ms()
    for number in range(12):
        due = None if number % 2 else began + 60_000 + number
        world.publish(entry(began, payload=b"x", deliver_at_ms=due))
    ledgers = world.offloaded()
    assert world.requests == 0
    consumer = world.subscribe(permits=100, sub_type=SHARED)
    world.clock.pump()
    assert world.offsets(consumer) == list(range(1, 12, 2))
    world.clock.advance(61)
    assert sorted(world.offsets(consumer)) == list(range(0, 12, 2))
    assert world.requests <= 2 * ledgers


class TieredSessions(TieredWorld, SessionWorld):
    """A broker whose ledgers have three entries."""

    ROLL: ClassVar[RollLimits] = BY_THREE


def test_transactions_in_offloaded_ledgers_are_recovered() -> None:
    world = TieredSessions(transaction_coordinator_enabled=True)
    committed, aborted = TxnId(0, 1), TxnId(0, 2)
    publishing = Publishing(world)
    for number in range(6):
        publishing.send(b"c%d" % number, committed)
        publishing.send(b"a%d" % number, aborted)
    publishing.end(committed, COMMIT)
    publishing.end(aborted, ABORT)
    publishing.send(b"last")
    topic = world.topic()
    ledgers = world.move(topic.log)
    assert ledgers >= 4
    world.do(topic.close())
    world.broker.topics.drop(topic)
    world.topic()
    assert world.requests == 0, "loading the topic reads no ledger"
    reading = Reading(world, initialPosition=1)
    assert reading.payloads() == [*(b"c%d" % number for number in range(6)), b"last"]
    assert world.requests <= 2 * ledgers


def test_what_is_kept_is_explained_with_its_object() -> None:
    world = filled()
    *closed, is_open = explained(world.topic)["segments"]
    assert "object" not in is_open
    for shown, segment in zip(closed, world.topic.log.segments, strict=False):
        assert segment.copy is not None
        assert shown["object"] == {
            "place": segment.copy.place,
            "name": segment.copy.name,
            "isOnlyCopy": True,
        }


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_deleted_topic_leaves_no_object(is_shared: bool) -> None:
    world = filled()
    if is_shared:
        world.objects.put("data/about/shared", b"")
    before = world.objects.names()
    world.do(world.topic.log.delete())
    assert world.objects.names() == (before if is_shared else [])
