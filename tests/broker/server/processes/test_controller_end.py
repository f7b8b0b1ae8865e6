"""The end of the controller: topics are served all the time, and the next one takes over."""

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from queue import SimpleQueue

import pulsar
import pytest

from admin_http import Admin, Answer
from broker.server.processes.test_worker import TOPICS, worker_pids
from crash.victims import Processes
from fakes.waiting import await_true
from magnetar_proto import PulsarApi_pb2 as pb
from official import TIMEOUT_MS, connect, expect_silence, take, texts
from raw_client import Kind, RawClient, id_of
from running_broker import RunningBroker

ROUNDS = 4
COUNT = 400
CLOSURES = (Kind.CLOSE_PRODUCER, Kind.CLOSE_CONSUMER)
SPACE = "/admin/v2/persistent/public/default"
Make = Callable[..., RunningBroker]


@pytest.fixture
def several(make_broker: Make) -> RunningBroker:
    return make_broker(magnetarWorkers="3")


def controller_pid(broker: RunningBroker) -> int:
    """Return the controller's process: the latest one that the supervisor has logged."""
    return int(re.findall(r"controller is process (\d+)", broker.log)[-1])


def kill_controller(broker: RunningBroker) -> None:
    """Return when the system has ended it."""
    ending = Processes([pid := controller_pid(broker)])
    os.kill(pid, signal.SIGKILL)
    ending.await_end()
    ending.close()


def have_joined(broker: RunningBroker, times: int) -> bool:
    """Tell whether workers have joined a controller, other than their first one, `times` times."""
    return broker.log.count("joined the controller") == times


def when_ready(ask: Callable[[], Answer]) -> Answer:
    """Return the answer of a controller that serves; others ask clients to retry."""
    while True:
        try:
            answer = ask()
        except (ConnectionError, HTTPException):
            continue  # the controller was killed before it answered
        if answer.status != 503:
            return answer


class Client:
    """A producer and a consumer of one topic, on one connection to its worker."""

    def __init__(self, port: int, topic: str) -> None:
        self.client = RawClient.of_topic(port, topic)
        self.client.produce(topic)
        self.client.subscribe(topic)
        self.client.flow(1000)
        self.sent = 0

    def exchange(self) -> None:
        """Publish a message, receive it as the next one, and acknowledge it durably."""
        payload = b"%d" % self.sent
        self.client.publish(self.sent, payload)
        received = self.client.next_message()
        assert received.entry.endswith(payload)
        message = id_of(received)
        answer = self.client.ack([(message.ledger, message.entry, ())])
        assert not answer.HasField("error"), answer
        self.sent += 1

    def close(self) -> list[int]:
        """Return the kinds of frames that came unasked."""
        self.client.ping()
        kinds = [frame.kind for frame in self.client._waiting]
        self.client.close()
        return kinds


def test_loaded_topics_are_served_without_a_controller_and_by_the_next_one(
    several: RunningBroker,
) -> None:
    before = worker_pids(several)
    clients = [Client(several.port, topic) for topic in TOPICS]
    for number in range(ROUNDS):
        for client in clients:
            client.exchange()
        kill_controller(several)
        for client in clients:
            client.exchange()
        assert when_ready(partial(Admin(several).put, f"{SPACE}/new-{number}")).status == 204
        with RawClient.of_topic(several.port, f"persistent://public/default/new-{number}") as new:
            assert isinstance(new.produce(f"new-{number}"), pb.CommandProducerSuccess)
        wanted = len(before) * (number + 1)
        await_true(partial(have_joined, several, wanted), "every worker has joined")
        for client in clients:
            client.exchange()
    for client in clients:
        assert not set(client.close()) & set(CLOSURES)
    assert worker_pids(several) == before
    found = connect(several.service_url)
    for topic in TOPICS:
        consumer = found.subscribe(topic, "later", initial_position=pulsar.InitialPosition.Earliest)
        assert texts(take(consumer, clients[0].sent)) == [str(n) for n in range(clients[0].sent)]
    found.close()
    assert several.stop() == 0


@pytest.fixture
def rolling(make_broker: Make) -> RunningBroker:
    """Start a broker whose ledgers are closed all the time, each with a change of metadata."""
    return make_broker(
        magnetarWorkers="3",
        managedLedgerMaxEntriesPerLedger="5",
        managedLedgerMinLedgerRolloverTimeMinutes="0",
    )


def test_nothing_is_lost_or_reordered_while_ledgers_are_closed(rolling: RunningBroker) -> None:
    before, client = worker_pids(rolling), connect(rolling.service_url)
    consumers = [client.subscribe(topic, "all") for topic in TOPICS]
    producers = [client.create_producer(topic) for topic in TOPICS]
    receipts: SimpleQueue[pulsar.Result] = SimpleQueue()
    for number in range(COUNT):
        if number % (COUNT // ROUNDS) == COUNT // ROUNDS // 2:
            assert when_ready(partial(Admin(rolling).get, SPACE)).status == 200
            kill_controller(rolling)
        for producer in producers:
            producer.send_async(b"%d" % number, lambda result, _: receipts.put(result))
    for producer in producers:
        producer.flush()
    found = [receipts.get(timeout=TIMEOUT_MS / 1000) for _ in range(COUNT * len(TOPICS))]
    assert found == [pulsar.Result.Ok] * len(found)
    for consumer in consumers:
        received = take(consumer, COUNT)
        assert texts(received) == [str(number) for number in range(COUNT)]
        for message in received:
            consumer.acknowledge(message)
        consumer.close()
    client.close()
    assert worker_pids(rolling) == before
    assert "its log failed" not in rolling.log
    assert rolling.restart()
    again = connect(rolling.service_url)
    for topic in TOPICS:
        expect_silence(again.subscribe(topic, "all"))
    again.close()
