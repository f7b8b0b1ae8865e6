"""The conditions of a compaction, the retention of messages until then, and concurrent changes."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.compacting import Compacting, Sent
from fakes.keyed import Message, batch_entry, single_entry
from magnetar_broker.base.errors import NotReady
from magnetar_broker.compaction.topic_compaction import CompactionStatus
from magnetar_broker.dispatch.compacted import RETRY_SECONDS, START_PROPERTY, Start, replaced, shown
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.expiry.trimming import trim_topic, truncate
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR, CompactionRules
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from magnetar_storage.compacted import latest_keys
from magnetar_storage.errors import Unavailable
from magnetar_storage.log import rewriting
from magnetar_storage.log.log_record import LogRecord


def numbered(first: int, stop: int, keys: int = 5) -> list[Sent]:
    """Return single messages whose keys repeat in turn."""
    return [([Message(f"k{n % keys}", b"%d" % n)], None) for n in range(first, stop)]


@pytest.fixture
def world() -> Compacting:
    return Compacting()


@pytest.fixture
def slow() -> Compacting:
    """Return a world whose compaction takes some seconds."""
    return Compacting(TopicLimits(compaction=CompactionRules(bytes_per_second=100)))


def begun(world: Compacting) -> None:
    """Start a compaction, which then waits in the middle of the log."""
    assert world.do(world.topic.compaction.start())
    world.clock.pump()
    assert world.topic.compaction.is_running


def test_nothing_is_held_before_the_first_compaction(world: Compacting) -> None:
    world.send_all(numbered(0, 20))
    assert world.topic.compaction.status is CompactionStatus.NOT_RUN
    assert COMPACTION_CURSOR not in world.topic.cursors.cursors
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset > 0


def test_what_is_not_compacted_is_held(world: Compacting) -> None:
    world.do(world.topic.compaction.set_threshold(1000))
    world.send_all(numbered(0, 20))
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 0
    world.compact()
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 14, "but for what may still be appended to"


def test_a_threshold_begins_it(world: Compacting) -> None:
    world.do(world.topic.compaction.set_threshold(300))
    world.send_all(numbered(0, 3))
    world.do(world.topic.compact_if_due())
    assert world.topic.compaction.status is CompactionStatus.NOT_RUN
    world.send_all(numbered(3, 20))
    world.do(world.topic.compact_if_due())
    world.clock.pump()
    world.clock.advance(3600)
    assert world.topic.compaction.status is CompactionStatus.SUCCESS
    world.do(world.topic.compact_if_due())
    assert world.topic.compaction.figures.succeeded == 1, "nothing has come since"


def test_only_one_at_a_time(slow: Compacting) -> None:
    slow.send_all(numbered(0, 20))
    begun(slow)
    assert not slow.do(slow.topic.compaction.start())
    slow.clock.advance(3600)
    assert slow.topic.compaction.status is CompactionStatus.SUCCESS


def test_messages_that_come_meanwhile_stay_in_the_log(slow: Compacting) -> None:
    slow.send_all(numbered(0, 20))
    begun(slow)
    slow.horizon = 20
    slow.send_all(numbered(20, 30))
    slow.clock.advance(3600)
    assert slow.topic.log.record.compacted is not None
    assert slow.topic.log.record.compacted.horizon == 20
    assert slow.read() == slow.expected()


def test_a_topic_that_is_closed_meanwhile_is_compacted_another_time(slow: Compacting) -> None:
    slow.send_all(numbered(0, 20))
    begun(slow)
    slow.do(slow.topic.close())
    assert slow.topic.compaction.status is CompactionStatus.ERROR
    slow.reload()
    assert slow.topic.log.record.compacted is None
    assert slow.store.ids() == slow.topic.log.record.listed
    slow.compact()
    assert slow.read() == slow.expected()
    with pytest.raises(NotReady):
        slow.topic.disconnect()
        slow.do(slow.topic.compaction.start())


def test_closing_a_topic_waits_for_no_phase_of_its_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latest_keys, "KEYS_IN_MEMORY", 4)
    monkeypatch.setattr(latest_keys, "SLICE", 1)
    for milliseconds in range(0, 100, 5):
        world = Compacting()
        world.send_all(numbered(0, 20, keys=20))
        begun(world)
        for _ in range(milliseconds):
            world.clock.advance(0.001)
        closed = world.begin(world.topic.close())
        world.clock.pump()
        assert closed.done(), f"it is still being compacted after {milliseconds} ms"


def test_closing_a_topic_stops_a_compaction_whose_task_has_not_begun() -> None:
    world = Compacting()
    world.send_all(numbered(0, 20))
    asked = world.begin(world.topic.compaction.start())
    while not asked.done():
        world.clock.step()
    closed = world.begin(world.topic.close())
    world.clock.pump()
    assert closed.done()
    assert world.topic.compaction.status is CompactionStatus.ERROR


@pytest.mark.parametrize("seconds", [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 6.0])
def test_a_topic_that_is_truncated_meanwhile_keeps_what_is_left(
    slow: Compacting, seconds: float
) -> None:
    slow.send_all(numbered(0, 20))
    begun(slow)
    slow.clock.advance(seconds)
    truncated = slow.begin(truncate(slow.topic))
    slow.clock.pump()
    slow.clock.advance(3600)
    assert truncated.done()
    assert slow.topic.log.first_offset == 14
    assert {message.value for _, _, message in slow.read()} >= {b"%d" % n for n in range(15, 20)}


def test_damage_that_lasts_is_logged_once_until_it_changes(
    world: Compacting, caplog: pytest.LogCaptureFixture
) -> None:
    world.send_all(numbered(0, 20))
    world.compact()
    world.do(truncate(world.topic))
    asked: dict[str, Any] = {
        "durable": False, "start": MessageId(-1, -1), "read_compacted": True,
    }  # fmt: skip

    def errors() -> int:
        world.clock.advance(10 * RETRY_SECONDS)
        return sum(one.levelname == "ERROR" for one in caplog.records)

    world.store.read_failure = Unavailable("one trouble")
    consumer = world.subscribe(permits=100, **asked)
    assert (errors(), errors()) == (1, 1)
    world.store.read_failure = Unavailable("another one")
    assert (errors(), errors()) == (2, 2)
    world.store.read_failure = None
    world.clock.advance(RETRY_SECONDS)
    assert world.got(consumer)
    world.store.read_failure = Unavailable("another one")
    world.nack(consumer)
    assert (errors(), errors()) == (3, 3), "it was well meanwhile"


def test_the_last_message_of_an_empty_log_is_a_compacted_one(
    world: Compacting,
) -> None:
    world.send_all(numbered(0, 20))
    world.compact()
    world.send_all(numbered(20, 22))
    world.reload()
    world.do(truncate(world.topic))
    assert world.topic.log.first_offset == world.topic.log.end == 22
    assert world.last_id() == MessageId(*world.ids[19], -1, -1)
    assert [position for position, _, _ in world.read()] == world.ids[15:20]


@pytest.mark.parametrize("running", [False, True])
def test_a_deleted_log_leaves_nothing(slow: Compacting, running: bool) -> None:
    world = slow
    world.send_all(numbered(0, 20))
    world.compact()
    world.send_all(numbered(20, 40))
    if running:
        begun(world)
    world.topic.disconnect()
    deleted = world.begin(world.topic.log.delete())
    world.clock.advance(3600)
    assert deleted.done()
    assert not world.store.ids()


@pytest.mark.parametrize("lands", [False, True])
def test_when_the_write_of_the_record_is_uncertain_both_parts_stay(
    world: Compacting, lands: bool
) -> None:
    world.send_all(numbered(0, 20))
    world.compact()
    world.send_all(numbered(20, 40))
    commit = world.topic.log.stored_record.commit
    listing: list[Unavailable] = []

    async def failing(change: object) -> None:
        """Fail only for the change that lists the new data."""
        assert callable(change)
        if change(world.topic.log.record).compacted != world.topic.log.record.compacted:
            with world.failing_metadata(lands):
                try:
                    await commit(change)
                except Unavailable as error:
                    listing.append(error)
            raise listing.pop()
        await commit(change)

    world.topic.log.stored_record.commit = failing  # type: ignore[method-assign]
    world.do(world.topic.compaction.start())
    world.clock.pump()
    world.clock.advance(3600)
    assert world.topic.compaction.status is CompactionStatus.ERROR
    assert "cannot be written" in world.topic.compaction.last_error
    world.crash()
    world.horizon = 40 if lands else 20
    assert world.read() == world.expected()
    assert world.store.ids() == world.topic.log.record.listed


def test_a_read_continues_in_the_data_that_replaces_it(world: Compacting) -> None:
    world.send_all(numbered(0, 30, keys=30))
    world.compact()
    reader = world.subscribe(
        sub="r", durable=False, start=MessageId(-1, -1), read_compacted=True, permits=5
    )
    assert len(world.got(reader)) == 5
    world.send_all(numbered(30, 60, keys=30))
    world.compact()
    world.do(trim_topic(world.topic))
    world.flow(reader, 1000)
    assert (
        [(one.ledger, one.entry) for one in world.got(reader)]
        == [
            *world.ids[5:7],  # they had been read ahead
            *world.ids[30:],
        ]
    )


def test_a_durable_subscription_begins_at_the_earliest_after_a_restart_too(
    world: Compacting,
) -> None:
    world.send_all(numbered(0, 30))
    world.compact()
    world.do(trim_topic(world.topic))
    world.subscribe(read_compacted=True, earliest=True).close()
    world.do(world.topic.close())
    world.reload()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
    got = [(one.ledger, one.entry) for one in world.got(consumer)]
    assert got == world.ids[25:]
    world.ack(consumer, 29, cumulative=True)
    consumer.close()
    world.do(trim_topic(world.topic))
    world.crash()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
    assert world.got(consumer) == []


def test_a_seek_reaches_what_the_log_has_no_more(world: Compacting) -> None:
    world.send_all(numbered(0, 30, keys=10))
    world.compact()
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 28
    world.subscribe(read_compacted=True, earliest=True)
    for target in (24, 21):
        position = MessageId(*world.ids[target])
        world.do(world.subscription().seek_to_id(position, ()))
        if target == 21:
            world.crash()
        consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
        got = [(one.ledger, one.entry) for one in world.got(consumer)]
        assert got == world.ids[target:]
    world.do(world.subscription().seek_to_time(0))
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
    assert len(world.got(consumer)) == 10


def test_acknowledged_entries_do_not_come_again(world: Compacting) -> None:
    world.send_all(numbered(0, 10, keys=10))
    world.compact()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
    assert world.offsets(consumer) == list(range(10))
    world.ack(consumer, 3, 4, 7)
    world.nack(consumer)
    assert world.offsets(consumer) == [0, 1, 2, 5, 6, 8, 9]


def test_no_more_is_sent_than_there_are_permits_for(world: Compacting) -> None:
    world.send_all(numbered(0, 10, keys=10))
    world.compact()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=3)
    assert world.offsets(consumer) == [0, 1, 2]
    assert consumer.permits == 0
    world.flow(consumer, 4)
    assert world.offsets(consumer) == [3, 4, 5, 6]


def test_compaction_keeps_to_its_pace() -> None:
    rules = CompactionRules(bytes_per_second=100)
    world = Compacting(TopicLimits(compaction=rules))
    world.send_all(numbered(0, 20))
    world.do(world.topic.compaction.start())
    size = world.topic.log.size
    world.clock.pump()
    world.clock.advance(2 * size / 100 - 1)
    assert world.topic.compaction.is_running
    world.clock.advance(2)
    assert world.topic.compaction.status is CompactionStatus.SUCCESS


def test_messages_without_key_stay_where_that_is_wanted() -> None:
    world = Compacting(TopicLimits(compaction=CompactionRules(retain_keyless=True)))
    world.send_all([([Message(None, b"1")], None), *numbered(0, 2, keys=1)])
    world.compact()
    assert [message.value for *_, message in world.read()] == [b"1", b"1"]


def test_releases_that_do_not_know_compacted_data_refuse_its_record(world: Compacting) -> None:
    # Without the time of creation, as those releases wrote the record.
    assert b'"version": 1' in replace(world.topic.log.record, created_ms=0).encode()
    world.send_all(numbered(0, 3))
    world.compact()
    assert b'"version": 3' in replace(world.topic.log.record, created_ms=0).encode()
    stored = world.topic.log.record.encode()
    assert LogRecord.decode("key", stored) == world.topic.log.record


def test_what_was_given_back_in_the_middle_of_the_log_is_there_compacted(
    world: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
    world.send_all(numbered(0, 30, keys=30))
    world.hold_few(1)
    world.compact()
    world.do(trim_topic(world.topic))
    assert world.topic.log.holes.covered() > 10
    assert world.read() == world.expected()
    assert len(world.expected()) == 30
    world.send_all(numbered(30, 40, keys=35))
    world.compact()
    assert world.read() == world.expected()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=100)
    assert len(world.got(consumer)) == 35


def test_where_reading_compacted_begins_is_nothing_that_clients_see_or_change() -> None:
    start = Start(3, 7)
    stored = start.as_properties() | {"mine": "1"}
    assert shown(stored) == {"mine": "1"}
    assert replaced(stored, {"other": "2"}) == start.as_properties() | {"other": "2"}
    assert replaced({}, stored) == {"mine": "1"}
    assert Start.of(stored) == start
    for nonsense in ("", "1", "1,2,3", "a,b", "\u0661,\u0662"):
        assert Start.of({START_PROPERTY: nonsense}) is None


@pytest.mark.parametrize("lasting", [True, False])
def test_damage_holds_up_nothing(world: Compacting, lasting: bool) -> None:
    world.send_all(numbered(0, 30, keys=30))
    world.store.rotten.add(world.ids[9][0])
    world.do(world.topic.compaction.start())
    world.clock.pump()
    world.clock.advance(0.002)
    if not lasting:  # both phases see the same all the same
        world.store.rotten.clear()
    world.clock.advance(3600)
    assert world.topic.compaction.status is CompactionStatus.SUCCESS
    world.store.rotten.clear()
    world.horizon = 30
    for offset in range(7, 14):
        world.published[offset] = []
    assert world.read() == world.expected()


@pytest.mark.parametrize("count", [0, 7, (1 << 31) - 1])
def test_how_many_messages_a_client_claims_to_send_costs_nothing(
    world: Compacting, count: int
) -> None:
    whole = batch_entry([Message("a", b"1"), Message("b", b"2")], pb.NONE)
    world.publish(b"nonsense", whole, single_entry("a", b"3"), counts=[count, count, count])
    world.compact()
    consumer = world.subscribe(read_compacted=True, earliest=True, permits=1 << 40)
    assert [one.payload for one in world.got(consumer)] == [
        b"nonsense",
        whole,
        single_entry("a", b"3"),
    ]


def test_a_reader_of_some_slots_gets_only_keys_in_them(world: Compacting) -> None:
    world.send_all(numbered(0, 40, keys=20))
    world.compact()
    halves = []
    for number, slots in enumerate(((0, 32_767), (32_768, 65_535))):
        meta = KeySharedMeta(sticky=True, ranges=(slots,))
        reader = world.subscribe(
            sub=f"r{number}", durable=False, start=MessageId(-1, -1), read_compacted=True,
            permits=100, key_shared=meta,
        )  # fmt: skip
        halves.append(set(world.offsets(reader)))
    assert all(halves)
    assert halves[0] | halves[1] == set(range(20, 40))
    assert not halves[0] & halves[1]
