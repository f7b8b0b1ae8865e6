"""What producers send again is answered, and stored once."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.connection import Receipt, RecordingConnection
from fakes.publish_runs import publish
from fakes.topics import TopicWorld, entry
from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.config import Settings
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import DEDUPLICATION, DEDUPLICATION_SNAPSHOT_INTERVAL
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.deduplication import DeduplicationRules
from magnetar_broker.producers.producer import Producer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry, parse_metadata
from magnetar_storage.errors import DiskFull, StorageError, Unavailable
from magnetar_storage.log.log_reader import LogReader
from magnetar_storage.log.roll_limits import RollLimits

RULES = DeduplicationRules(snapshot_entries=5, snapshot_seconds=60)
BY_FIVE = RollLimits(max_entries=5, min_age_ms=0)
TXN = TxnId(0, 1)
ON = Settings(broker_deduplication_enabled=True)


def deduplicating(rules: DeduplicationRules = RULES, **more: Any) -> TopicWorld:
    return TopicWorld(TopicLimits(deduplication=rules), settings=ON, **more)


def message(name: str, low: int, high: int | None = None, **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name=name, sequence_id=low, publish_time=1, **fields)
    if high is not None:
        metadata.highest_sequence_id = high
        metadata.num_messages_in_batch = high - low + 1
    return encode_entry(metadata, b"")


def chunk(name: str, sequence_id: int, number: int, of: int) -> bytes:
    return message(name, sequence_id, uuid="u", chunk_id=number, num_chunks_from_msg=of)


def send(
    producer: Producer,
    *ids: int | tuple[int, int],
    payloads: tuple[bytes, ...] = (),
    txn: TxnId | None = None,
) -> None:
    """One run of single messages and batches; pump to have it answered."""
    sends = PublishRun(producer)
    sends.txn = txn
    for one in ids:
        low, high = one if isinstance(one, tuple) else (one, None)
        sends.sequence_ids.append(low)
        sends.highest_ids.append(high or 0)
        sends.counts.append(1 if high is None else high - low + 1)
        sends.payloads.append(message(producer.name, low, high))
    sends.payloads = list(payloads) or sends.payloads
    sends.chunked = bool(payloads)
    sends.size = sum(map(len, sends.payloads))
    publish(sends)


def stored(world: TopicWorld) -> list[int]:
    """The lowest ids of all entries there are."""
    log = world.topic.log
    found: list[int] = []
    while log.first_offset + len(found) < log.end:
        run = world.do(log.entries.read(log.first_offset + len(found), 100, 1 << 20))
        found += [parse_metadata(payload)[0].sequence_id for payload in run.payloads]
    return found


def answers(connection: RecordingConnection) -> list[tuple[int, bool]]:
    """The ids that were answered, and whether as copies."""
    receipts, connection.receipts = connection.receipts, []
    return [(receipt.sequence_id, receipt.entry == -1) for receipt in receipts]


# One topic ------------------------------------------------------------------------------------


def test_a_copy_is_answered_as_one_and_not_stored() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 0, 1, 2)
    world.clock.pump()
    send(producer, 1, 2, 3)
    world.clock.pump()
    assert answers(client) == [(0, False), (1, False), (2, False), (1, True), (2, True), (3, False)]
    assert stored(world) == [0, 1, 2, 3]
    assert producer.pending == 0 and client.published_entries == 6


def test_the_answer_to_a_copy_has_neither_ledger_nor_entry() -> None:
    world, client = deduplicating(), RecordingConnection()
    send(world.producer(client), (0, 4), (3, 9))
    world.clock.pump()
    assert client.receipts[1] == Receipt(1, 3, 9, -1, -1)


def test_a_copy_waits_for_its_first_one() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 0)
    producer.close()
    opening = world.begin_producer(client)
    assert not opening.done() and stored(world) == []
    world.clock.pump()
    assert opening.result().last_sequence_id == 0
    send(opening.result(), 0, 1)
    world.clock.pump()
    assert answers(client) == [(0, True), (1, False)]
    assert stored(world) == [0, 1]


def test_a_copy_whose_first_one_fails_is_not_answered() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 0)
    send(producer, 0)
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    assert answers(client) == [] and client.closed_producers == [1]
    assert producer.pending == 0 and client.published_entries == 2
    world.reload()
    send(world.producer(client), 0)
    world.clock.pump()
    assert answers(client) == [(0, False)]


def test_the_last_id_is_sent_once_it_is_durable() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    assert producer.last_sequence_id == -1
    send(producer, 4)
    producer.close()
    assert world.producer(client).last_sequence_id == 4
    other = world.producer(name="q")
    assert other.last_sequence_id == -1


@pytest.mark.parametrize("outcome", Outcome)
def test_what_waits_for_a_marker_goes_on_without_another_message(outcome: Outcome) -> None:
    """The end of a transaction is the log's last entry: nothing is published behind it."""
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 0, txn=TXN)
    world.clock.pump()
    answers(client)
    world.begin(world.topic.transactions.end(TXN, outcome, -1))
    send(producer, 0)
    opening = world.begin_producer(client, "q")
    assert not opening.done() and answers(client) == []
    world.clock.pump()
    assert opening.result().last_sequence_id == -1
    assert answers(client) == [(0, True)]


def test_the_last_id_is_not_sent_if_it_is_lost() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 4)
    producer.close()
    opening = world.begin_producer(client)
    assert not opening.done()
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    with pytest.raises(NotReady):
        opening.result()
    world.reload()
    assert world.producer(client).last_sequence_id == -1


def test_of_chunks_the_last_one_counts() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    chunks = tuple(chunk("p", 7, number, 3) for number in range(3))
    for _ in range(2):
        send(producer, 7, 7, 7, payloads=chunks)
        world.clock.pump()
    send(producer, 8)
    world.clock.pump()
    copies = [is_copy for _, is_copy in answers(client)]
    assert copies == [False, False, False, False, False, True, False]
    world.crash()
    assert world.producer(client).last_sequence_id == 8


def test_a_message_of_which_chunks_are_missing_is_not_taken_for_stored() -> None:
    world, client = deduplicating(), RecordingConnection()
    send(world.producer(client), 0, 1, payloads=(message("p", 0), chunk("p", 1, 0, 2)))
    world.clock.pump()
    world.crash()
    producer = world.producer(client)
    assert producer.last_sequence_id == 0
    answers(client)
    send(producer, 1, 1, payloads=(chunk("p", 1, 0, 2), chunk("p", 1, 1, 2)))
    world.clock.pump()
    assert answers(client) == [(1, False), (1, False)]


# Restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [3, 5, 12])
def test_ids_survive_a_crash(entries: int) -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    for sequence_id in range(entries):
        send(producer, sequence_id)
        world.clock.pump()
    world.clock.advance(1)
    world.crash()
    assert world.producer(client).last_sequence_id == entries - 1


def test_what_was_stored_is_not_read_again() -> None:
    world = deduplicating()
    producer = world.producer()
    for sequence_id in range(12):
        send(producer, sequence_id)
        world.clock.pump()
    world.do(world.topic.close())
    world.store.reads = 0
    world.reload()
    assert world.producer().last_sequence_id == 11
    assert world.store.reads == 1, "the cursors"


def test_what_was_trimmed_was_counted_before() -> None:
    limits = TopicLimits(deduplication=replace(RULES, snapshot_entries=1000))
    world = TopicWorld(replace(limits, retention=Retention()), BY_FIVE, settings=ON)
    first, second = world.producer(name="first"), world.producer(name="second")
    for producer in (first, second):
        for sequence_id in range(8):
            send(producer, sequence_id)
            world.clock.pump()
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset > 8, "nothing of the first one is left"
    world.crash()
    assert world.producer(name="first").last_sequence_id == 7


def test_time_stores_what_few_entries_do_not() -> None:
    world = deduplicating()
    send(world.producer(), 0)
    world.clock.pump()
    assert world.topic.deduplication.unwritten == 1
    world.clock.advance(RULES.snapshot_seconds + 1)
    assert world.topic.deduplication.unwritten == 0


@pytest.mark.parametrize(("interval_seconds", "unwritten"), [(5, 0), (90, 1), (0, 1)])
def test_a_policy_sets_the_snapshot_interval(interval_seconds: int, unwritten: int) -> None:
    world = deduplicating()
    topic = world.topic
    world.do(world.policies.set(topic.name, {DEDUPLICATION_SNAPSHOT_INTERVAL: interval_seconds}))
    world.do(topic.policies_changed())
    send(world.producer(), 0)
    world.clock.pump()
    world.clock.advance(RULES.snapshot_seconds + 1)
    assert topic.deduplication.unwritten == unwritten


def test_time_stores_what_few_entries_do_not_time_and_again() -> None:
    """Also when there is nothing to be stored for once: something else wrote everything."""
    world = deduplicating()
    producer = world.producer()
    send(producer, 0)
    world.clock.pump()
    world.do(world.topic.deduplication.released_to(1))
    assert world.topic.deduplication.unwritten == 0
    world.clock.advance(RULES.snapshot_seconds + 1)
    send(producer, 1)
    world.clock.pump()
    assert world.topic.deduplication.unwritten == 1
    world.clock.advance(RULES.snapshot_seconds + 1)
    assert world.topic.deduplication.unwritten == 0


def test_damage_among_the_last_entries_does_not_keep_the_topic_from_loading() -> None:
    rules = replace(RULES, snapshot_entries=1000)  # so that nothing of it is stored
    world = deduplicating(rules, roll=BY_FIVE, cache_bytes=0)
    for name in ("lost", "kept"):
        producer = world.producer(name=name)
        for sequence_id in range(5):
            send(producer, sequence_id)
            world.clock.pump()
    damaged, *_ = (segment.id for segment in world.topic.log.segments)
    world.store.rotten.add(damaged)
    world.crash()
    assert world.producer(name="lost").last_sequence_id == -1, "what cannot be read is not known"
    assert world.producer(name="kept").last_sequence_id == 4


def test_a_topic_whose_last_ids_cannot_be_read_now_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = deduplicating()
    producer = world.producer()
    world.send(producer, entry(1, deliver_at_ms=world.clock.now_ms() + 50_000))
    world.clock.pump()
    world.clock.advance(1)
    send(producer, 1)
    world.clock.pump()

    async def fail(*asked: Any) -> Any:
        raise Unavailable("not now")

    with monkeypatch.context() as meanwhile, pytest.raises(Unavailable):
        meanwhile.setattr(LogReader, "read", fail)
        world.crash()
    assert not [timer for *_, timer in world.clock._timers if timer.call is not None]


def test_a_topic_that_fails_while_it_is_loaded_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be closed for ever: it fails only once."""
    rules = replace(RULES, snapshot_entries=1000)
    world = deduplicating(rules, cache_bytes=0)
    send(world.producer(), 0)
    world.clock.pump()
    read = LogReader.read

    async def read_and_fail(reader: LogReader, *asked: Any) -> Any:
        reader._state.fail(Unavailable("something else went wrong"))
        return await read(reader, *asked)

    with monkeypatch.context() as meanwhile, pytest.raises(NotReady):
        meanwhile.setattr(LogReader, "read", read_and_fail)
        world.crash()
    world.reload()
    assert world.producer().last_sequence_id == 0


# Switching ------------------------------------------------------------------------------------


def switch(world: TopicWorld, on: bool | None) -> None:
    """The topic's own policy, enforced."""
    topic = world.topic
    world.do(world.policies.set(topic.name, {DEDUPLICATION: on}))
    world.do(topic.policies_changed())


def test_it_is_switched_on_and_off_while_producers_publish() -> None:
    world, client = TopicWorld(), RecordingConnection()
    producer = world.producer(client)

    def twice(sequence_id: int) -> list[bool]:
        send(producer, sequence_id)
        send(producer, sequence_id)
        world.clock.pump()
        return [is_copy for _, is_copy in answers(client)]

    assert twice(0) == [False, False]
    switch(world, True)
    assert twice(0) == [False, True], "what came before it was on is not known"
    switch(world, False)
    assert twice(0) == [False, False]
    switch(world, True)
    assert twice(0) == [False, True], "off forgets"
    world.crash()
    producer = world.producer(client)
    assert twice(0) == [True, True]
    switch(world, None)
    assert twice(0) == [False, False]
    world.crash()
    assert world.producer(client).last_sequence_id == -1


def test_a_copy_that_waits_is_answered_though_it_is_off() -> None:
    world, client = deduplicating(), RecordingConnection()
    producer = world.producer(client)
    send(producer, 0)
    send(producer, 0)
    world.begin(world.topic.deduplication.set_enabled(False))
    assert not world.topic.deduplication.on
    world.clock.pump()
    assert answers(client) == [(0, False), (0, True)]
    assert producer.pending == 0 and not world.topic.deduplication.state.watching


# Whatever happens -----------------------------------------------------------------------------


class ResendingClient:
    """Publishes 0 to `count` - 1 in order; after every loss it sends all that has no receipt."""

    def __init__(self, world: TopicWorld, count: int, sizes: Iterator[int]) -> None:
        self.world = world
        self.batches: list[tuple[int, int]] = []
        at = 0
        while at < count:
            size = min(next(sizes), count - at)
            self.batches.append((at, at + size - 1))
            at += size
        self.connect()

    def connect(self) -> None:
        self.connection = RecordingConnection()
        self.producer: Producer | None = None
        self.answered = getattr(self, "answered", 0)
        self.sent = self.answered

    def read(self) -> None:
        for receipt in self.connection.receipts:
            low, _ = self.batches[self.answered]
            assert receipt.sequence_id == low, "receipts come in order"
            self.answered += 1
        self.connection.receipts.clear()

    def publish(self, batches: int) -> None:
        if self.producer is None:
            try:
                self.producer = self.world.producer(self.connection)
            except (NotReady, StorageError):
                assert self.world.dropped, "the topic failed, and will be loaded again"
                return
            self.sent = min(self.sent, self.answered)
        some = self.batches[self.sent : self.sent + batches]
        self.sent += len(some)
        if some:
            send(self.producer, *(low if low == high else (low, high) for low, high in some))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("step"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["leave", "crash", "stop", "fail", "pump", "tick"]), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(STEPS, st.lists(st.integers(1, 3), min_size=30, max_size=30))
def test_whatever_happens_every_message_is_stored_once_and_in_order(
    steps: list[tuple[str, int]], sizes: list[int]
) -> None:
    world = deduplicating(replace(RULES, snapshot_entries=3))
    client = ResendingClient(world, 30, iter(sizes))
    finally_all = [("leave", 0), ("publish", 30), ("pump", 0)]
    for what, amount in [*steps, *finally_all * 3]:
        act(world, client, what, amount)
        client.read()
        if world.dropped:
            world.crash()
            client.connect()
    assert client.answered == len(client.batches)
    assert stored(world) == [low for low, _ in client.batches]


def act(world: TopicWorld, client: ResendingClient, what: str, amount: int) -> None:
    if what == "publish":
        client.publish(amount)
    elif what == "step":
        for _ in range(amount):
            world.clock.step()
    elif what == "tick":
        world.clock.advance(1)
    elif what == "pump":
        world.clock.pump()
    elif what == "fail":
        world.store.break_writers(DiskFull("no room"))
        world.clock.pump()
    elif what == "leave":
        if client.producer is not None:
            client.producer.close()
        client.connect()
    else:
        if what == "stop":
            with suppress(StorageError):  # it is sealed at the next start, then
                world.do(world.topic.close())
        world.crash()
        client.connect()


async def test_a_client_that_gives_up_asking_disturbs_no_message() -> None:
    world = deduplicating()
    producer = world.producer()
    send(producer, 0)
    world.clock.promise = asyncio.get_running_loop().create_future  # type: ignore[method-assign,assignment]
    asking = asyncio.create_task(world.topic.deduplication.last_sequence_id(producer.name))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0)
    assert asking.cancelled()
    world.clock.pump()
    assert stored(world) == [0]
