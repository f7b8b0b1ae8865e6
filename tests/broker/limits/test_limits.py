"""Limits that an operator sets, each reported to the client that meets it; refused starts."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar_proto import PulsarApi_pb2 as pb
from official import QUIET_MS, TIMEOUT_MS, connect, expect_silence, publish, take, texts
from raw_client import Kind, RawClient, refused, send_frame
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
LIMITS = {
    "maxProducersPerTopic": "2",
    "maxConsumersPerTopic": "3",
    "maxConsumersPerSubscription": "2",
    "maxSubscriptionsPerTopic": "3",
    "maxUnackedMessagesPerConsumer": "10",
    "maxMessageSize": "1000",
}
ONE_WORKER = {"magnetarWorkers": "1"}
"""For limits that are of each worker."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with small limits on everything that a topic has."""
    running = RunningBroker(tmp_path_factory.mktemp("limited") / "data", **LIMITS).start()
    yield running
    running.close()


def test_producers_of_a_topic(limited: RunningBroker, topic: str) -> None:
    client = connect(limited.service_url)
    first, _ = client.create_producer(topic), client.create_producer(topic)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    client.create_producer(f"{topic}-another")
    first.close()
    client.create_producer(topic)
    client.close()


def test_consumers_of_a_topic(limited: RunningBroker, topic: str) -> None:
    client = connect(limited.service_url)
    first, *_ = [client.subscribe(topic, f"sub{n}") for n in range(3)]
    with pytest.raises(pulsar.ConsumerBusy):
        client.create_reader(topic, pulsar.MessageId.earliest)
    first.close()
    client.subscribe(topic, "sub0")
    client.close()


def test_consumers_of_a_subscription(limited: RunningBroker, topic: str) -> None:
    client = connect(limited.service_url)
    shared = pulsar.ConsumerType.Shared
    for _ in range(2):
        client.subscribe(topic, "sub", shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "sub", shared)
    client.subscribe(topic, "another", shared)
    client.close()


def test_subscriptions_of_a_topic(limited: RunningBroker, topic: str) -> None:
    with RawClient(limited.port) as raw:
        for number in range(3):
            answer = raw.subscribe(topic, f"sub{number}", consumer_id=number)
            assert isinstance(answer, pb.CommandSuccess)
        raw.request(pb.CommandCloseConsumer(consumer_id=0, request_id=0))
        answer = raw.subscribe(topic, "one more", consumer_id=3)
        refused(answer, pb.NotAllowedError, "maxSubscriptionsPerTopic")


def test_connections_of_the_broker(make_broker: Make) -> None:
    broker = make_broker(brokerMaxConnections="2", **ONE_WORKER)
    with RawClient(broker.port) as first, RawClient(broker.port) as second:
        with RawClient(broker.port, handshake=False) as third:
            third.send(pb.CommandConnect(client_version="raw", protocol_version=21))
            (error,) = third.await_close()
            refused(error.command, pb.NotAllowedError, "brokerMaxConnections")
            assert error.command.request_id == 2**64 - 1
        first.ping()
        second.ping()
        page = broker.metrics
        for name, number in {"create_success": 2, "create_fail": 1, "created_total": 3}.items():
            assert re.search(rf"^pulsar_connection_{name}_count{{.*}} {number}$", page, re.M), name


def test_connections_of_one_address(make_broker: Make) -> None:
    broker = make_broker(brokerMaxConnectionsPerIp="1", **ONE_WORKER)
    with RawClient(broker.port) as first:
        with RawClient(broker.port, handshake=False) as second:
            second.send(pb.CommandConnect(client_version="raw", protocol_version=21))
            (error,) = second.await_close()
            refused(error.command, pb.NotAllowedError, "brokerMaxConnectionsPerIp")
        first.ping()


def test_a_message_above_a_small_limit_ends_the_connection(
    limited: RunningBroker, topic: str
) -> None:
    with RawClient(limited.port) as raw:
        assert raw.connected.max_message_size == 1000
        raw.produce(topic)
        raw.publish(0, bytes(1000))
        raw.send_bytes(send_frame(1, bytes(1000 + 10 * 1024)))
        assert Kind.SEND_RECEIPT not in [frame.kind for frame in raw.await_close()]


def test_many_pending_messages_are_slowed_down_and_not_refused(make_broker: Make) -> None:
    broker = make_broker(
        maxPendingPublishRequestsPerConnection="5", maxMessagePublishBufferSizeInMB="1"
    )
    client = connect(broker.service_url)
    producer = client.create_producer("t", block_if_queue_full=True)
    results: list[pulsar.Result] = []
    for _ in range(500):
        producer.send_async(bytes(20_000), lambda result, _: results.append(result))
    producer.flush()
    assert results == [pulsar.Result.Ok] * 500
    client.close()


def test_a_consumer_stops_at_its_unacknowledged_messages(
    limited: RunningBroker, topic: str
) -> None:
    client = connect(limited.service_url)
    client.subscribe(topic, "sub", pulsar.ConsumerType.Shared).close()
    publish(client.create_producer(topic), *map(str, range(30)))
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    held = take(consumer, 10)
    expect_silence(consumer)
    for message in held:
        consumer.acknowledge(message)
    assert texts(take(consumer, 10)) == [str(n) for n in range(10, 20)]
    client.close()


def test_a_subscription_stops_at_its_unacknowledged_messages(make_broker: Make) -> None:
    client = connect(make_broker(maxUnackedMessagesPerSubscription="10").service_url)
    shared = pulsar.ConsumerType.Shared
    first, second = (client.subscribe("t", "sub", shared) for _ in range(2))
    publish(client.create_producer("t"), *map(str, range(40)))
    held = _at_least(10, first, second)
    assert len(held) == 10
    for consumer, message in held:
        consumer.acknowledge(message)
    again = _at_least(10, first, second)
    assert len(again) < 30  # a run of entries may exceed the limit
    client.close()


def _at_least(
    count: int, *consumers: pulsar.Consumer
) -> list[tuple[pulsar.Consumer, pulsar.Message]]:
    """So many messages of these consumers, and those that come within some time after them."""
    found: list[tuple[pulsar.Consumer, pulsar.Message]] = []
    quiet = 0
    while len(found) < count or quiet < len(consumers):
        for consumer in consumers:
            try:
                found.append((consumer, consumer.receive(timeout_millis=QUIET_MS)))
                quiet = 0
            except pulsar.Timeout:
                quiet += 1
    return found


def test_a_client_that_does_not_read_delays_no_other(make_broker: Make) -> None:
    broker = make_broker(managedLedgerCacheSizeMB="1", maxMessagePublishBufferSizeInMB="8")
    client = connect(broker.service_url)
    with RawClient(broker.port) as stuck:
        stuck.subscribe("t", "stuck", pb.CommandSubscribe.Shared)
        stuck.flow(1_000_000)
        consumer = client.subscribe("t", "sub")
        producer = client.create_producer("t", block_if_queue_full=True)
        before = broker.memory_kib
        for _ in range(1000):
            producer.send_async(bytes(200_000), lambda result, _: None)
        producer.flush()
        for message in take(consumer, 1000):
            consumer.acknowledge(message)
        assert broker.memory_kib - before < 150 * 1024, "what was sent has stayed"
        for _ in range(1000):  # nothing was dropped for being slow
            stuck.next_message()
    client.close()


# Starts that are refused ------------------------------------------------------------------------


def start(data_dir: Path, **keys: Any) -> subprocess.CompletedProcess[str]:
    """Try to start a daemon with a configuration of these keys."""
    conf = data_dir.parent / "test.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    magnetar = Path(sys.executable).with_name("magnetar")
    command = [magnetar, "standalone", "--conf", conf, "--data-dir", data_dir, "--port", "0"]
    return subprocess.run(
        [*map(str, command), "--http-port", "0"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_MS / 1000,
        check=False,
    )


def test_what_cannot_be_honoured_stops_the_start(tmp_path: Path) -> None:
    ended = start(tmp_path / "data", authenticationEnabled="true")
    assert ended.returncode != 0 and "authenticationProviders" in ended.stderr
    assert "Traceback" not in ended.stderr and ended.stdout == ""


def test_every_wrong_value_is_reported_at_once(tmp_path: Path) -> None:
    ended = start(tmp_path / "data", maxMessageSize="huge", maxProducersPerTopic="-x")
    assert ended.returncode != 0 and "Traceback" not in ended.stderr
    assert "maxMessageSize" in ended.stderr and "maxProducersPerTopic" in ended.stderr


def test_a_second_daemon_on_the_same_data(make_broker: Make) -> None:
    broker = make_broker()
    ended = start(broker.data_dir)
    assert ended.returncode != 0 and str(broker.data_dir) in ended.stderr
    assert "Traceback" not in ended.stderr
    with RawClient(broker.port) as raw:
        raw.ping()
        raw.produce("t")
        raw.publish(0, b"still writing")


def test_a_port_that_is_taken(make_broker: Make, tmp_path: Path) -> None:
    broker = make_broker()
    second = RunningBroker(tmp_path / "other")
    second.port = broker.port
    with pytest.raises(AssertionError, match="address already in use"):
        second.start()
    second.close()
