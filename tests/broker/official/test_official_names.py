"""What the official client sees when topics are unloaded, grow, and are deleted under it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pulsar
import pytest

from admin_http import Admin
from official import TIMEOUT_MS, connect, publish, take, texts
from running_broker import RunningBroker

SHARED = pulsar.ConsumerType.Shared
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


class Load:
    """Messages sent one after the other, and what became of them."""

    def __init__(self, producer: pulsar.Producer) -> None:
        self.confirmed: list[str] = []
        self.refused: list[Exception] = []
        self._producer = producer
        self._stop = threading.Event()
        self._more = threading.Semaphore(0)

    def run(self) -> None:
        while not self._stop.is_set():
            text = str(len(self.confirmed))
            try:
                self._producer.send(text.encode())
            except pulsar.PulsarException as error:
                self.refused.append(error)
                return
            self.confirmed.append(text)
            self._more.release()

    def goes_on(self, messages: int) -> None:
        """Wait until so many more are confirmed."""
        for _ in range(messages):
            assert self._more.acquire(timeout=TIMEOUT_MS / 1000)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def loaded(producer: pulsar.Producer) -> Iterator[Load]:
    load = Load(producer)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join(60)


def path(topic: str) -> str:
    return topic.replace("://", "/")


def test_nothing_is_lost_by_unloading(admin: Admin, client: pulsar.Client, topic: str) -> None:
    namespace = f"public/{uuid4().hex}"
    admin.makes_namespace(namespace, {"bundles": {"numBundles": 1}})
    topic = f"persistent://{namespace}/topic"
    consumer = client.subscribe(topic, "sub", SHARED, initial_position=EARLIEST)
    unloads = (
        f"{path(topic)}/unload",
        f"namespaces/{namespace}/unload",
        f"namespaces/{namespace}/0x00000000_0xffffffff/unload",
    )
    with loaded(client.create_producer(topic)) as load:
        for unload in unloads:
            load.goes_on(20)
            assert admin.put(unload).status == 204
        load.goes_on(20)
    assert load.refused == []
    wanted, got = set(load.confirmed), set[str]()
    while not wanted <= got:
        message = consumer.receive(timeout_millis=TIMEOUT_MS)
        got.add(message.data().decode())
        consumer.acknowledge(message)
    consumer.close()


def test_acknowledged_messages_do_not_come_again_after_unloading(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, initial_position=EARLIEST)
    publish(client.create_producer(topic), "a", "b", "c")
    first = take(consumer, 2)
    for message in first:
        consumer.acknowledge(message)
    assert sorted(texts(first)) == ["a", "b"]
    consumer.close()
    assert admin.put(f"{path(topic)}/unload").status == 204
    again = client.subscribe(topic, "sub", SHARED)
    assert texts(take(again, 1)) == ["c"]
    stats = admin.get(f"{path(topic)}/subscriptions")
    assert stats.json == ["sub"]


def test_new_partitions_are_used_and_miss_nothing(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    assert admin.put(f"{path(topic)}/partitions", 1).status == 204
    client.subscribe(topic, "sub").close()
    assert admin.post(f"{path(topic)}/partitions", 4).status == 204
    assert len(client.get_topic_partitions(topic)) == 4
    ids = publish(client.create_producer(topic), *map(str, range(40)))
    assert {message_id.partition() for message_id in ids} == {0, 1, 2, 3}
    consumer = client.subscribe(topic, "sub")  # it begins where the copied subscriptions are
    assert sorted(texts(take(consumer, 40)), key=int) == [str(n) for n in range(40)]


def test_a_topic_that_is_deleted_under_load_is_made_anew(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, initial_position=EARLIEST)
    with loaded(client.create_producer(topic)) as load:
        load.goes_on(20)
        assert admin.delete(path(topic)).status == 412
        load.goes_on(5)
        assert admin.delete(f"{path(topic)}?force=true").status == 204
        load.goes_on(20)
    assert load.refused == []
    message = consumer.receive(timeout_millis=TIMEOUT_MS)  # its subscription was created again, too
    consumer.acknowledge(message)
    consumer.close()


def test_without_auto_creation_it_is_gone(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(allowAutoTopicCreation="false")
    admin, client = Admin(broker), connect(broker.service_url)
    topic = "persistent://public/default/topic"
    try:
        assert admin.put(path(topic)).status == 204
        producer = client.create_producer(topic)
        with loaded(producer) as load:
            load.goes_on(20)
            assert admin.delete(f"{path(topic)}?force=true").status == 204
            producer.close()  # which ends a send that waits for a connection
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic)
        assert admin.get(f"{path(topic)}/partitions").status == 404
        assert admin.get("persistent/public/default").json == []
        assert admin.put(path(topic)).status == 204
        client.create_producer(topic).send(b"new")
    finally:
        client.close()
