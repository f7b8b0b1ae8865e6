"""Processes of a broker that are stopped (SIGSTOP), for a moment or until they are replaced."""

import os
import re
import signal
from collections.abc import Callable
from queue import SimpleQueue

import pulsar
import pytest

import official
from broker.server.processes.test_worker import TOPICS, owning_directory, worker_pids
from official import connect, publish, take, texts
from running_broker import RunningBroker

TIMEOUT_MS = 20_000
"""The timeout of clients; a busy machine does not delay a running process for this long."""
ROUNDS = 20
LATER = [f"later-{number}" for number in range(5)]
Make = Callable[..., RunningBroker]


@pytest.fixture
def several(make_broker: Make) -> RunningBroker:
    return make_broker(
        magnetarWorkers="2",
        metadataStoreSessionTimeoutMillis=str(TIMEOUT_MS),
        brokerDeduplicationEnabled="true",
    )


def owners(client: pulsar.Client) -> dict[str, int]:
    """Return the worker of each topic, after creating a subscription and a message in it."""
    found = {}
    for topic in TOPICS:
        client.subscribe(topic, "all").close()
        producer = client.create_producer(topic)
        [receipt] = publish(producer, "first")
        found[topic] = owning_directory(receipt.ledger_id())
        producer.close()
    assert set(found.values()) == {0, 1}
    return found


def publish_all(producers: list[pulsar.Producer]) -> "SimpleQueue[pulsar.Result]":
    """Publish without waiting; return the queue of the receipts."""
    receipts: SimpleQueue[pulsar.Result] = SimpleQueue()
    for producer in producers:
        for text in LATER:
            producer.send_async(text.encode(), lambda result, _: receipts.put(result))
    return receipts


def are_published(producers: list[pulsar.Producer], receipts: "SimpleQueue[pulsar.Result]") -> bool:
    """Tell whether each message has a receipt that it is published."""
    for producer in producers:
        producer.flush()  # returns before the client's thread has called back for the last one
    found = [
        receipts.get(timeout=official.TIMEOUT_MS / 1000) for _ in range(len(LATER) * len(producers))
    ]
    return found == [pulsar.Result.Ok] * len(found) and receipts.empty()


def test_a_worker_that_hangs_is_replaced_and_never_goes_on(several: RunningBroker) -> None:
    client = connect(several.service_url)
    owner = owners(client)
    producers = [client.create_producer(topic, producer_name=f"p-{topic}") for topic in TOPICS]
    for producer in producers:
        # Official clients of C++ and Python reuse the first message's number if they reconnect
        # before its receipt: deduplication would drop the messages after it.
        publish(producer, "second")
    for hung in range(2):
        pid = worker_pids(several)[hung]
        os.kill(pid, signal.SIGSTOP)
        for topic, producer in zip(TOPICS, producers, strict=True):
            if owner[topic] != hung:  # clients of the other worker notice nothing
                publish(producer, f"beside-{hung}")
        of_hung = [
            one for one, topic in zip(producers, TOPICS, strict=True) if owner[topic] == hung
        ]
        assert are_published(of_hung, publish_all(of_hung))  # by the next process
        assert worker_pids(several)[hung] != pid
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert f"worker-{hung} (process {pid}) is killed: its event loop has not run" in several.log
    for topic in TOPICS:
        later = [*LATER, "beside-1"] if owner[topic] == 0 else ["beside-0", *LATER]
        wanted = ["first", "second", *later]
        assert texts(take(client.subscribe(topic, "all"), len(wanted))) == wanted
    client.close()


def test_a_worker_that_is_stopped_for_a_moment_goes_on(make_broker: Make) -> None:
    several = make_broker(magnetarWorkers="2", metadataStoreSessionTimeoutMillis="3600000")
    client = connect(several.service_url)
    owners(client)
    producers = [client.create_producer(topic) for topic in TOPICS]
    before = worker_pids(several)
    for pid in before.values():
        os.kill(pid, signal.SIGSTOP)
    receipts = publish_all(producers)
    assert receipts.empty()
    for pid in before.values():
        os.kill(pid, signal.SIGCONT)
    assert are_published(producers, receipts)
    assert worker_pids(several) == before
    client.close()


def test_a_controller_that_hangs_is_replaced(several: RunningBroker) -> None:
    client = connect(several.service_url)
    owners(client)
    producers = [client.create_producer(topic, producer_name=f"p-{topic}") for topic in TOPICS]
    before = worker_pids(several)
    for producer in producers:
        publish(producer, "second")
    [controller] = re.findall(r"controller is process (\d+)", several.log)
    os.kill(int(controller), signal.SIGSTOP)
    for producer in producers:
        publish(producer, "beside")  # loaded topics need no controller
    reconnected = client.create_producer(f"{TOPICS[0]}-new")  # by the next controller
    assert are_published(producers, publish_all(producers))
    assert worker_pids(several) == before
    assert f"controller (process {controller}) is killed" in several.log
    assert several.log.count("is killed") == 1
    reconnected.close()
    wanted = ["first", "second", "beside", *LATER]
    for topic in TOPICS:
        assert texts(take(client.subscribe(topic, "all"), len(wanted))) == wanted
    client.close()


def test_the_workers_go_on_while_the_supervisor_is_stopped(several: RunningBroker) -> None:
    """The stop is shorter than the timeout; a longer one is in `test_process_liveness.py`."""
    client = connect(several.service_url)
    owners(client)
    producers = [client.create_producer(topic) for topic in TOPICS]
    before = worker_pids(several)
    os.kill(several.pid, signal.SIGSTOP)
    try:
        for _ in range(ROUNDS):
            for producer in producers:
                publish(producer, "beside")
    finally:
        os.kill(several.pid, signal.SIGCONT)
    os.kill(before[0], signal.SIGKILL)
    for producer in producers:
        publish(producer, "after")
    assert worker_pids(several)[0] != before[0]  # the supervisor has started it again
    assert worker_pids(several)[1] == before[1]
    client.close()
