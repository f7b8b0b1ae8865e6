"""Deduplication in the real daemon: the official client's ids, and kills under load."""

from collections.abc import Callable

import pulsar

from magnetar_proto.entries import parse_metadata
from official import batching, connect, expect_no_more, take, texts
from raw_client import Kind, RawClient, send_frame
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
TOPIC = "persistent://public/default/once"
ON = {"brokerDeduplicationEnabled": "true"}
NOWHERE = (1 << 64) - 1
FEW = {"brokerDeduplicationEntriesInterval": "50"}


def again(broker: RunningBroker) -> RunningBroker:
    broker.kill()
    return broker.start()


def test_a_source_that_continues_at_its_position(make_broker: Callable[..., RunningBroker]) -> None:
    """A copier of numbered lines: what it does not know to be published it publishes again."""
    broker = make_broker(**ON)

    def copy(first: int, stop: int) -> int:
        """Publish lines under their numbers; which one the broker had last."""
        client = connect(broker.service_url)
        producer = client.create_producer(
            TOPIC, producer_name="copier", batching_enabled=False, send_timeout_millis=0
        )
        known = int(producer.last_sequence_id())
        for line in range(first, stop):
            producer.send_async(b"%d" % line, lambda *_: None, sequence_id=line)
        producer.flush()
        client.close()
        return known

    assert copy(0, 20) == -1
    assert copy(10, 30) == 19
    again(broker)
    assert copy(25, 40) == 29
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 40)) == [str(line) for line in range(40)]
    expect_no_more(client, consumer)
    client.close()


def test_an_initial_sequence_id(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(**ON)
    client = connect(broker.service_url)
    for _ in range(2):
        producer = client.create_producer(TOPIC, producer_name="p", initial_sequence_id=99)
        for text in ("a", "b"):
            producer.send(text.encode())
        assert producer.last_sequence_id() == 101
        producer.close()
    consumer = client.subscribe(TOPIC, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 2)) == ["a", "b"]
    expect_no_more(client, consumer)
    client.close()


def test_of_a_batch_of_this_client_the_first_id_is_known(
    make_broker: Callable[..., RunningBroker],
) -> None:
    """It sends no other; Java's sends the first and the last (docs/deduplication.md)."""
    broker = make_broker(**ON)
    client = connect(broker.service_url)
    producer = batching(client, TOPIC, producer_name="p", initial_sequence_id=9)
    for text in ("a", "b", "c"):
        producer.send_async(text.encode(), lambda *_: None)
    producer.flush()
    producer.close()
    producer = client.create_producer(TOPIC, producer_name="p")
    assert producer.last_sequence_id() == 10
    client.close()


def test_a_batch_is_one_when_it_is_sent_again(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(**ON)
    client = connect(broker.service_url)
    for _ in range(2):
        producer = batching(client, TOPIC, producer_name="p", initial_sequence_id=9)
        for text in ("a", "b", "c"):
            producer.send_async(text.encode(), lambda *_: None)
        producer.flush()
        producer.close()
    consumer = client.subscribe(TOPIC, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 3)) == ["a", "b", "c"]
    expect_no_more(client, consumer)
    client.close()


# Kills ----------------------------------------------------------------------------------------


class Resender:
    """Publishes 0 to `count` - 1; after each kill it sends again all that has no receipt."""

    WINDOW = 200

    def __init__(self, broker: RunningBroker, count: int) -> None:
        self.broker = broker
        self.count = count
        self.answered = 0
        self.copies = 0

    def publish(self, kill_at: int) -> None:
        """Go on, on a new connection, to the end; kill the broker when so many are answered."""
        with RawClient(self.broker.port) as client:
            last = client.produce(TOPIC, producer_name="raw").last_sequence_id
            assert last >= self.answered - 1, "what has a receipt is known"
            sent = self.answered
            while self.answered < min(kill_at, self.count):
                new = range(sent, min(self.answered + self.WINDOW, self.count))
                client.send_bytes(b"".join(send_frame(n, b"%d" % n) for n in new))
                sent = new.stop
                receipt = client.expect(Kind.SEND_RECEIPT)
                assert receipt.sequence_id == self.answered
                self.copies += receipt.message_id.entryId == NOWHERE
                self.answered += 1
            if self.answered < self.count:
                self.broker.kill()


def stored(broker: RunningBroker, count: int) -> list[int]:
    """What a new subscription gets, up to the last message."""
    with RawClient(broker.port) as client:
        client.subscribe(TOPIC)
        client.flow(2 * count)
        found: list[int] = []
        while not found or found[-1] < count - 1:
            entry = client.next_message().entry
            found.append(int(entry[parse_metadata(entry)[1] :]))
        return found


def test_kill_9_with_deduplication_neither_loses_nor_doubles(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(**ON, **FEW)
    resender = Resender(broker, 3000)
    for kill_at in range(300, 3000, 450):
        resender.publish(kill_at)
        broker.start()
    resender.publish(resender.count)
    assert stored(broker, resender.count) == list(range(resender.count))
    assert resender.copies, "some had been stored, and their receipts were lost"
