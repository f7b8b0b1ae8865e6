"""The official client shares the keys of a subscription, while consumers come and go."""

import queue
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

import pulsar
import pytest

from magnetar_proto.hashes import range_slot
from official import TIMEOUT_MS, batching, connect, expect_silence, take
from running_broker import RunningBroker

KEY_SHARED = pulsar.ConsumerType.KeyShared
STICKY = pulsar.KeySharedMode.Sticky
KEYS = [f"key-{number}" for number in range(20)]
EACH = 60
POLL_MS = 20


class Crew:
    """Consumers that acknowledge whatever they are given; what they received is listed in order."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._events: queue.Queue[tuple[str, str, int]] = queue.Queue()
        self.next = Counter[str]()
        self.by_name: dict[str, set[str]] = defaultdict(set)
        """The keys that each consumer was given since the last change."""

    def joins(self, name: str) -> pulsar.Consumer:
        def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            key, _, number = message.data().decode().partition(":")
            self._events.put((name, key, int(number)))
            consumer.acknowledge(message)

        return self._client.subscribe(
            self._topic, "sub", KEY_SHARED, consumer_name=name, message_listener=listen,
            receiver_queue_size=10,
        )  # fmt: skip

    def works_until(self, total: int) -> None:
        """Return when so many different messages came; none before an earlier one of its key."""
        while sum(self.next.values()) < total:
            name, key, number = self._events.get(timeout=TIMEOUT_MS / 1000)
            assert number <= self.next[key], f"{key}:{number} came before {self.next[key]}"
            if number == self.next[key]:
                self.next[key] += 1
                self.by_name[name].add(key)


def test_keys_keep_their_order_while_consumers_come_and_go(
    client: pulsar.Client, topic: str
) -> None:
    crew = Crew(client, topic)
    one, two = crew.joins("one"), crew.joins("two")
    producer = client.create_producer(topic, block_if_queue_full=True)

    def sends(first: int, stop: int) -> None:
        for number in range(first, stop):
            for key in KEYS:
                producer.send_async(f"{key}:{number}".encode(), None, partition_key=key)

    sends(0, EACH)
    crew.works_until(200)
    three = crew.joins("three")
    sends(EACH, 2 * EACH)
    crew.works_until(800)
    one.close()
    crew.works_until(1200)
    four = crew.joins("four")
    two.close()
    sends(2 * EACH, 3 * EACH)
    crew.works_until(3 * EACH * len(KEYS))
    crew.by_name.clear()
    sends(3 * EACH, 4 * EACH)
    crew.works_until(4 * EACH * len(KEYS))
    assert set(crew.by_name) == {"three", "four"}
    assert sorted(crew.by_name["three"] | crew.by_name["four"]) == sorted(KEYS)
    assert not crew.by_name["three"] & crew.by_name["four"], "a key went to two consumers"
    three.close()
    four.close()


def test_consumers_that_choose_their_ranges(client: pulsar.Client, topic: str) -> None:
    def takes(*ranges: tuple[int, int]) -> pulsar.Consumer:
        policy = pulsar.ConsumerKeySharedPolicy(STICKY, sticky_ranges=list(ranges))
        return client.subscribe(topic, "sub", KEY_SHARED, key_shared_policy=policy)

    lower = takes((0, 9_999), (20_000, 32_767))
    producer = client.create_producer(topic)
    for key in KEYS:
        producer.send(key.encode(), partition_key=key)
    upper = takes((32_768, 65_535))

    def keys_in(*ranges: tuple[int, int]) -> list[str]:
        return [k for k in KEYS if any(a <= range_slot(k.encode()) <= b for a, b in ranges)]

    mine, others = keys_in((0, 9_999), (20_000, 32_767)), keys_in((32_768, 65_535))
    assert mine and others and len(mine) + len(others) < len(KEYS)
    assert [message.partition_key() for message in take(lower, len(mine))] == mine
    assert [message.partition_key() for message in take(upper, len(others))] == others
    expect_silence(lower)
    rest = takes((10_000, 19_999))
    assert [m.partition_key() for m in take(rest, len(KEYS) - len(mine) - len(others))] == keys_in(
        (10_000, 19_999)
    )
    with pytest.raises(pulsar.ConsumerAssignError):
        takes((0, 5))


def test_batches_by_key_go_where_their_key_goes(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "sub", KEY_SHARED) for _ in range(2)]
    producer = batching(client, topic, batching_type=pulsar.BatchingType.KeyBased)
    for number in range(10):
        for key in KEYS:
            producer.send_async(b"%d" % number, None, partition_key=key)
    producer.flush()
    owner: dict[str, int] = {}
    left = 10 * len(KEYS)
    numbers = defaultdict[str, list[int]](list)
    while left:
        for index, consumer in enumerate(consumers):
            with suppress(pulsar.Timeout):
                message = consumer.receive(timeout_millis=POLL_MS)
                consumer.acknowledge(message)
                assert owner.setdefault(message.partition_key(), index) == index
                numbers[message.partition_key()].append(int(message.data()))
                left -= 1
    assert all(got == list(range(10)) for got in numbers.values())
    assert set(owner.values()) == {0, 1}


@pytest.mark.parametrize("graceful", [True, False], ids=["restart", "kill"])
def test_order_holds_over_a_restart(
    make_broker: Callable[..., RunningBroker], graceful: bool
) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    topic = "persistent://public/default/restarted"
    crew = Crew(client, topic)
    crew.joins("one"), crew.joins("two")
    producer = client.create_producer(topic)
    for number in range(EACH):
        for key in KEYS:
            producer.send(f"{key}:{number}".encode(), partition_key=key)
        if number == EACH // 2:
            crew.works_until(200)
            if graceful:
                broker.restart()
            else:
                broker.kill()
                broker.start()
    crew.works_until(EACH * len(KEYS))
    assert min(crew.next.values()) == EACH
    client.close()
