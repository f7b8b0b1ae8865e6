"""One message that waits does not hold the disk: what is acknowledged around it is reclaimed."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pulsar
import pytest

from crash.file_events import FileEvents
from official import TIMEOUT_MS, connect, expect_no_more, publish, take, texts
from running_broker import RunningBroker

TOPIC = "persistent://public/default/reclaimed"
BATCH = 50
MESSAGES = 1000 * BATCH
WAITS = 4 * BATCH + 7
ALSO_WAITS = 500 * BATCH
SMALL_SEGMENTS = {
    "managedLedgerMaxEntriesPerLedger": "100",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
}


def stored_bytes(broker: RunningBroker) -> float:
    """What the topic's payloads take, as the broker reports."""
    lines = broker.metrics.splitlines()
    (line,) = (one for one in lines if one.startswith("pulsar_storage_size{") and TOPIC in one)
    return float(line.rsplit(" ", 1)[1])


def await_less(broker: RunningBroker, limit: float) -> None:
    """Wait until so little is stored; checked at each change of the metadata and each second.

    The figure follows a change of the file, so that the last change alone may come too early.
    """
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    with FileEvents(broker.data_dir) as events:
        while stored_bytes(broker) > limit:
            assert time.monotonic() < deadline, "nothing is reclaimed"
            events.await_change("metadata.db", 1)


def segment_bytes(data_dir: Path) -> int:
    """What the files take that have messages in them; others are those of cursors."""
    files = [file.read_bytes() for file in (data_dir / "segments").iterdir()]
    return sum(len(data) for data in files if b"0" * 90 in data)


def fill(client: pulsar.Client) -> None:
    """Batches of `BATCH`; every message contains its number."""
    producer = client.create_producer(
        TOPIC,
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=60_000,
        block_if_queue_full=True,
    )
    for number in range(MESSAGES):
        producer.send_async(b"%0100d" % number, None)
        if number % (50 * BATCH) == 50 * BATCH - 1:  # ledgers end between runs
            producer.flush()


def subscribe(client: pulsar.Client) -> pulsar.Consumer:
    return client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)


def acknowledge_most(consumer: pulsar.Consumer) -> list[pulsar.MessageId]:
    """All messages but two, whose ids are returned."""
    waiting = []
    for number in range(MESSAGES):
        message = consumer.receive(timeout_millis=TIMEOUT_MS)
        if number in (WAITS, ALSO_WAITS):
            waiting.append(message.message_id())
        else:
            consumer.acknowledge(message)
    return waiting


def test_the_disk_is_given_back_around_messages_that_wait(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(**SMALL_SEGMENTS)
    client = connect(broker.service_url)
    consumer = subscribe(client)
    fill(client)
    full = stored_bytes(broker)
    waiting = acknowledge_most(consumer)
    # The last, open segment stays, and so do the two batches.
    await_less(broker, full / 4)
    client.close()
    broker.stop()
    assert segment_bytes(broker.data_dir) < full / 3
    broker.start()
    broker.kill()  # and once more without a clean end
    broker.start()
    client = connect(broker.service_url)
    consumer = subscribe(client)
    again = take(consumer, 2)
    assert [int(text) for text in texts(again)] == [WAITS, ALSO_WAITS]
    assert [message.message_id() for message in again] == waiting
    for message in again:
        consumer.acknowledge(message)
    publish(client.create_producer(TOPIC), "behind")
    assert texts(take(consumer, 1)) == ["behind"]
    client.close()


def test_delayed_messages_hold_nothing_but_themselves(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(**SMALL_SEGMENTS)
    client = connect(broker.service_url)
    consumer = subscribe(client)
    producer = client.create_producer(TOPIC)
    for number in range(500):
        producer.send_async(b"%0100d" % number, None)
        if number % 125 == 60:  # a few of each ledger
            producer.send_async(b"later %d" % number, None, deliver_after=timedelta(hours=1))
        if number % 50 == 49:  # ledgers end between runs
            producer.flush()
    full = stored_bytes(broker)
    for message in take(consumer, 500):
        consumer.acknowledge(message)
    await_less(broker, full / 2)  # a fifth or two is the last, open ledger
    client.close()
    broker.kill()
    broker.start()
    client = connect(broker.service_url)
    consumer = subscribe(client)
    expect_no_more(client, consumer)
    consumer.close()
    impatient = client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Exclusive)
    later = [f"later {number}" for number in range(60, 500, 125)]
    assert texts(take(impatient, len(later))) == later
    client.close()


@pytest.fixture
def rewritten(make_broker: Callable[..., RunningBroker]) -> RunningBroker:
    """A broker with a topic of which two batches and the last, open segment are left."""
    broker = make_broker(**SMALL_SEGMENTS)
    client = connect(broker.service_url)
    consumer = subscribe(client)
    fill(client)
    full = stored_bytes(broker)
    acknowledge_most(consumer)
    await_less(broker, full / 4)
    client.close()
    return broker


def test_readers_and_seeks_pass_over_what_was_reclaimed(rewritten: RunningBroker) -> None:
    client = connect(rewritten.service_url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(timeout_millis=TIMEOUT_MS).data()))
    assert numbers == sorted(set(numbers)), "in order, and nothing twice"
    batches = {number // BATCH for number in numbers}
    assert {WAITS // BATCH, ALSO_WAITS // BATCH} <= batches
    assert len(numbers) == len(batches) * BATCH < MESSAGES / 3
    first = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    message = first.read_next(timeout_millis=TIMEOUT_MS)
    first.seek(message.publish_timestamp())
    assert first.read_next(timeout_millis=TIMEOUT_MS).data() == message.data()
    consumer = subscribe(client)
    consumer.seek(pulsar.MessageId.earliest)
    assert [int(text) for text in texts(take(consumer, len(numbers)))] == numbers
    expect_no_more(client, consumer)
    client.close()
