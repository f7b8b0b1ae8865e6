"""Clients that do not name the worker of a topic, on a broker of several workers."""

import json
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from urllib.request import urlopen

import psutil
import pulsar
import pytest

from broker.official.test_official_statistics import awaited, stats
from broker.server.processes.test_worker import owning_directory, worker_pids
from magnetar_proto import PulsarApi_pb2 as pb
from official import connect, publish, take, texts
from raw_client import Kind, RawClient, id_of, send_frame
from running_broker import RunningBroker

WORKERS = 3
NUMBERS = range(9)
TOPICS = [f"persistent://public/default/topic-{number}" for number in NUMBERS]
Make = Callable[..., RunningBroker]


@pytest.fixture
def several(make_broker: Make) -> RunningBroker:
    """Start a broker whose topics are divided among three workers."""
    return make_broker(magnetarWorkers=str(WORKERS))


def serving(client: RawClient, broker: RunningBroker) -> int:
    """Return the worker that has accepted a client."""
    with socket.socket(fileno=os.dup(client.fileno())) as own:
        port = own.getsockname()[1]
    for number, pid in worker_pids(broker).items():
        connections = psutil.Process(pid).net_connections("tcp")
        if any(one.raddr and one.raddr.port == port for one in connections):
            return number
    raise AssertionError("no worker has the client's connection")


def by_http(broker: RunningBroker) -> pulsar.Client:
    """Return a client that looks topics up over HTTP, and so learns only the broker's address."""
    return connect(broker.http_url)


def test_a_client_that_looks_up_over_http_uses_all_topics(several: RunningBroker) -> None:
    client = by_http(several)
    directories = set()
    for topic in TOPICS:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        ids = publish(producer, "a", "b", "c")
        directories |= {owning_directory(one.ledger_id()) for one in ids}
        messages = take(consumer, 3)
        assert texts(messages) == ["a", "b", "c"]
        consumer.acknowledge_cumulative(messages[1])
        consumer.seek(pulsar.MessageId.earliest)
        messages = take(consumer, 3)
        assert texts(messages) == ["a", "b", "c"]
        consumer.acknowledge(messages[0])
        consumer.negative_acknowledge(messages[1])
        assert consumer.get_last_message_id().entry_id() == ids[-1].entry_id()
        # The client sends acknowledgements late: one behind the redelivery would be too late.
        awaited(
            partial(stats, several, topic),
            lambda found: found["subscriptions"]["s"]["msgBacklog"] == 2,
        )
        consumer.redeliver_unacknowledged_messages()
        assert texts(take(consumer, 2)) == ["b", "c"]
        consumer.unsubscribe()
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert reader.has_message_available()
        assert reader.read_next().data() == b"a"
        producer.close()
        reader.close()
    assert directories == {0, 1, 2}
    client.close()


def test_one_connection_carries_the_topics_of_all_workers(several: RunningBroker) -> None:
    with RawClient(several.port) as client:
        for number, topic in enumerate(TOPICS):
            assert client.produce(topic, number).producer_name
            client.subscribe(topic, consumer_id=number)
            client.flow(10, number)
        sends = [send_frame(n, b"%d" % number, number) for n in range(3) for number in NUMBERS]
        client.send_bytes(b"".join(sends))
        received = [client.next_message() for _ in sends]
        for number in NUMBERS:
            own = [one for one in received if one.command.consumer_id == number]
            assert [one.entry[-1:] for one in own] == [b"%d" % number] * 3
            at = id_of(own[0])
            assert not client.ack([(at.ledger, at.entry, ())], consumer_id=number).message
            last = client.request(pb.CommandGetLastMessageId(consumer_id=number, request_id=0))
            assert last.last_message_id.entryId == 2


def test_what_a_killed_worker_had_is_closed_and_the_connection_goes_on(
    several: RunningBroker,
) -> None:
    with RawClient(several.port) as client:
        for number, topic in enumerate(TOPICS):
            client.produce(topic, number)
        receipts = {number: client.publish(0, b"x", number).ledgerId for number in NUMBERS}
        own = serving(client, several)
        killed = next(one for one in range(WORKERS) if one != own)
        os.kill(worker_pids(several)[killed], signal.SIGKILL)
        lost = {number for number in NUMBERS if owning_directory(receipts[number]) == killed}
        closed = {client.expect(Kind.CLOSE_PRODUCER).producer_id for _ in lost}
        assert closed == lost
        for number in closed:  # answered once the worker is back
            assert client.produce(TOPICS[number], number).producer_name
        for number in NUMBERS:
            client.publish(1, b"y", number)


def test_an_official_client_goes_on_when_a_worker_was_killed(several: RunningBroker) -> None:
    client = by_http(several)
    consumers = [client.subscribe(topic, "s") for topic in TOPICS]
    producers = [client.create_producer(topic) for topic in TOPICS]
    for number in range(WORKERS):
        os.kill(worker_pids(several)[number], signal.SIGKILL)
        for producer, consumer in zip(producers, consumers, strict=True):
            publish(producer, f"after-{number}")
            while texts(take(consumer, 1)) != [f"after-{number}"]:
                pass  # not acknowledged, so delivered again
    client.close()


def test_http_lookups_answer_the_address_of_the_broker(several: RunningBroker) -> None:
    for topic in TOPICS:
        path = topic.replace("://", "/")
        with urlopen(f"{several.http_url}/lookup/v2/topic/{path}") as answer:
            found = json.load(answer)
        assert (found["brokerUrl"], found["nativeUrl"]) == (several.service_url,) * 2
        assert found["httpUrl"] == several.http_url


def test_clients_of_a_listener_reach_all_workers(several: RunningBroker) -> None:
    several.stop()
    inside, outside = several.service_url, f"pulsar://localhost:{several.port}"
    several.settings["advertisedListeners"] = f"inside:{inside},outside:{outside}"
    several.start()
    for url in (inside, several.http_url):
        client = connect(url, listener_name="outside")
        for topic in TOPICS:
            consumer = client.subscribe(topic, "s")
            publish(client.create_producer(topic), "a")
            assert texts(take(consumer, 1)) == ["a"]
            consumer.close()
        client.close()
