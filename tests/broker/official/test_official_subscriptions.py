"""The official client consumes: each subscription type, alone and side by side."""

import queue
import re
import threading
from collections.abc import Callable, Iterator

import pulsar
import pytest

from official import (
    TIMEOUT_MS,
    batching,
    connect,
    expect_no_more,
    publish,
    publish_batch,
    take,
    texts,
)
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE, SHARED = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared
FAILOVER = pulsar.ConsumerType.Failover


@pytest.fixture
def second(broker: RunningBroker) -> Iterator[pulsar.Client]:
    """Another client of the shared broker, with a connection of its own."""
    connected = connect(broker.service_url)
    yield connected
    connected.close()


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER], ids=lambda kind: kind.name)
def test_one_consumer_of_any_type_receives_everything_in_order(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "sub", kind)
    payloads = [str(n) for n in range(300)]
    publish(client.create_producer(topic), *payloads)
    assert texts(take(consumer, 300)) == payloads


def test_a_new_subscription_begins_at_the_end_by_default(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    publish(producer, "before")
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=EARLIEST)
    publish(producer, "after")
    assert texts(take(latest, 1)) == ["after"]
    assert texts(take(earliest, 2)) == ["before", "after"]


def test_two_subscriptions_each_receive_everything(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "first")
    second = client.subscribe(topic, "second", SHARED)
    payloads = [str(n) for n in range(50)]
    publish(client.create_producer(topic), *payloads)
    for message in take(first, 50):
        first.acknowledge(message)
    assert texts(take(second, 50)) == payloads


def test_an_exclusive_subscription_has_one_consumer(
    client: pulsar.Client, second: pulsar.Client, topic: str
) -> None:
    holder = client.subscribe(topic, "sub")
    with pytest.raises(pulsar.ConsumerBusy):
        second.subscribe(topic, "sub")
    publish(client.create_producer(topic), "a")
    assert texts(take(holder, 1)) == ["a"]
    holder.close()
    assert texts(take(second.subscribe(topic, "sub"), 1)) == ["a"]


def test_consumers_of_different_types_do_not_mix(
    client: pulsar.Client, second: pulsar.Client, topic: str
) -> None:
    shared = client.subscribe(topic, "sub", SHARED)
    with pytest.raises(pulsar.ConsumerBusy):
        second.subscribe(topic, "sub", FAILOVER)
    shared.close()
    second.subscribe(topic, "sub", FAILOVER)


def test_shared_consumers_divide_the_messages(
    client: pulsar.Client, second: pulsar.Client, topic: str
) -> None:
    consumers = [each.subscribe(topic, "sub", SHARED) for each in (client, second)]
    publish(client.create_producer(topic), *map(str, range(200)))
    received: list[list[str]] = [[], []]
    everything = threading.Semaphore(0)

    def receive(consumer: pulsar.Consumer, into: list[str]) -> None:
        while (message := consumer.receive(timeout_millis=TIMEOUT_MS)).data() != b"end":
            into.append(message.data().decode())
            consumer.acknowledge(message)
            everything.release()
        consumer.acknowledge(message)

    threads = [
        threading.Thread(target=receive, args=pair, daemon=True)
        for pair in zip(consumers, received, strict=True)
    ]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert everything.acquire(timeout=TIMEOUT_MS / 1000)
    assert sorted(received[0] + received[1], key=int) == [str(n) for n in range(200)]
    assert received[0] and received[1]
    publish(client.create_producer(topic), "end", "end")
    for thread in threads:
        thread.join(TIMEOUT_MS / 1000)
        assert not thread.is_alive()


def test_what_a_shared_consumer_leaves_behind_goes_to_the_other(
    client: pulsar.Client, second: pulsar.Client, topic: str
) -> None:
    leaving = client.subscribe(topic, "sub", SHARED)
    payloads = [str(n) for n in range(20)]
    publish(client.create_producer(topic), *payloads)
    take(leaving, 20)
    staying = second.subscribe(topic, "sub", SHARED)
    leaving.close()
    received = take(staying, 20)
    assert sorted(texts(received), key=int) == payloads
    assert {message.redelivery_count() for message in received} == {0}


def test_a_shared_consumer_with_a_small_queue_does_not_hold_up_the_other(
    client: pulsar.Client, second: pulsar.Client, topic: str
) -> None:
    stuck = client.subscribe(topic, "sub", SHARED, receiver_queue_size=1)
    working = second.subscribe(topic, "sub", SHARED)
    publish(client.create_producer(topic), *map(str, range(100)))
    held = set(texts([stuck.receive(timeout_millis=TIMEOUT_MS)]))
    # The stuck one holds what it received and one more in its queue.
    assert len(held | set(texts(take(working, 98)))) == 99


def test_failover_moves_to_the_next_consumer_and_loses_nothing(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(activeConsumerFailoverDelayTimeMillis="0")
    arrived: queue.SimpleQueue[tuple[str, pulsar.Message]] = queue.SimpleQueue()
    clients, consumers = {}, {}
    for name in ("one", "two"):
        clients[name] = connect(broker.service_url)
        consumers[name] = clients[name].subscribe(
            topic,
            "sub",
            FAILOVER,
            consumer_name=name,
            message_listener=lambda _, message, name=name: arrived.put((name, message)),
        )
    sender = connect(broker.service_url)
    producer = sender.create_producer(topic)
    publish(producer, *map(str, range(10)))
    received = [arrived.get(timeout=TIMEOUT_MS / 1000) for _ in range(10)]
    active, passive = ("one", "two") if received[0][0] == "one" else ("two", "one")
    assert [(name, m.data()) for name, m in received] == [
        (active, str(n).encode()) for n in range(10)
    ]
    for _, message in received[:4]:
        consumers[active].acknowledge(message)
    clients[active].close()  # writes out what was acknowledged
    publish(producer, "more")
    moved = [arrived.get(timeout=TIMEOUT_MS / 1000) for _ in range(7)]
    assert [(name, m.data().decode()) for name, m in moved] == [
        (passive, text) for text in ("4", "5", "6", "7", "8", "9", "more")
    ]
    clients[passive].close()
    sender.close()


def test_an_unsubscribed_name_begins_anew(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    first = client.subscribe(topic, "sub")
    publish(producer, "a")
    first.unsubscribe()
    again = client.subscribe(topic, "sub")
    publish(producer, "b")
    assert texts(take(again, 1)) == ["b"]


def test_a_subscription_keeps_its_position_while_no_client_is_connected(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    first = client.subscribe(topic, "sub")
    publish(producer, "a", "b")
    first.acknowledge(take(first, 1)[0])
    first.close()
    publish(producer, "c")
    assert texts(take(client.subscribe(topic, "sub"), 2)) == ["b", "c"]


def test_several_topics_in_one_consumer(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{letter}" for letter in "abc"]
    consumer = client.subscribe(topics, "sub")
    for name in topics:
        publish(client.create_producer(name), name)
    assert sorted(texts(take(consumer, 3))) == topics


def test_topics_by_pattern(client: pulsar.Client, topic: str) -> None:
    names = [f"{topic}-pattern-{letter}" for letter in "abc"]
    for name in names:
        client.create_producer(name)
    consumer = client.subscribe(
        re.compile(f"{topic}-pattern-[ab]"), "sub", initial_position=EARLIEST
    )
    for name in names:
        publish(client.create_producer(name), name)
    assert sorted(texts(take(consumer, 2))) == names[:2]
    expect_no_more(client, consumer, names[1])


def test_a_listener_receives_batches_too(client: pulsar.Client, topic: str) -> None:
    received: list[str] = []
    done = threading.Event()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        received.append(message.data().decode())
        consumer.acknowledge(message)
        if len(received) == 100:
            done.set()

    client.subscribe(topic, "sub", message_listener=listen)
    publish_batch(batching(client, topic), *map(str, range(100)))
    assert done.wait(TIMEOUT_MS / 1000)
    assert received == [str(n) for n in range(100)]


def test_batch_receive(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(10, -1, -1)
    consumer = client.subscribe(topic, "sub", batch_receive_policy=policy)
    publish(client.create_producer(topic), *map(str, range(10)))
    assert texts(list(consumer.batch_receive())) == [str(n) for n in range(10)]
