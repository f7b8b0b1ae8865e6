"""A broker of several workers, with official clients: one address, and nothing is lost."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pulsar
import pytest

from official import connect, publish, take, texts
from running_broker import RunningBroker

WORKERS = "3"
TOPICS = [f"persistent://public/default/topic-{number}" for number in range(9)]
SUBSCRIPTION = "all"
Make = Callable[..., RunningBroker]


def worker_pids(broker: RunningBroker) -> dict[int, int]:
    """Return the process of each worker, by number: the latest that the supervisor has logged."""
    found = re.findall(r"worker-(\d+) is process (\d+)", broker.log)
    return {int(number): int(pid) for number, pid in found}


def fill(client: pulsar.Client, count: int, prefix: str = "m") -> None:
    """Subscribe to every topic, and publish to it."""
    for topic in TOPICS:
        client.subscribe(topic, SUBSCRIPTION).close()
        producer = client.create_producer(topic)
        publish(producer, *(f"{prefix}{number}" for number in range(count)))
        producer.close()


def expect(client: pulsar.Client, *wanted: str) -> None:
    """Check that every topic delivers these messages in this order, and acknowledge them."""
    for topic in TOPICS:
        consumer = client.subscribe(topic, SUBSCRIPTION)
        messages = take(consumer, len(wanted))
        assert texts(messages) == list(wanted), topic
        for message in messages:
            consumer.acknowledge(message)
        consumer.close()


def owning_directory(ledger: int) -> int:
    """Return the store directory of a ledger (docs/formats.md)."""
    return 0 if ledger < 1 << 32 else ledger & 0xFF


def test_topics_are_served_by_all_workers_behind_one_address(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    client = connect(broker.service_url)
    directories = set()
    for topic in TOPICS:
        [message_id] = publish(client.create_producer(topic), "one")
        directories.add(owning_directory(message_id.ledger_id()))
    assert directories == {0, 1, 2}
    client.close()


def test_the_number_of_workers_may_change_at_every_start(make_broker: Make) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    fill(client, 3, "1-")
    client.close()
    seen = [f"1-{number}" for number in range(3)]
    for workers in ("3", "2", "4", "1"):
        broker.stop()
        broker.settings["magnetarWorkers"] = workers
        broker.start()
        client = connect(broker.service_url)
        fill(client, 2, f"{workers}-of-")
        client.close()
        seen += [f"{workers}-of-{number}" for number in range(2)]
    client = connect(broker.service_url)
    expect(client, *seen)
    client.close()


@pytest.mark.parametrize("after", ["1", "2", "3"])
def test_what_was_acknowledged_outlives_a_kill_of_all_processes(
    make_broker: Make, after: str
) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    client = connect(broker.service_url)
    fill(client, 4)
    broker.kill()
    client.close()
    broker.settings["magnetarWorkers"] = after
    broker.start()
    client = connect(broker.service_url)
    expect(client, "m0", "m1", "m2", "m3")
    client.close()


def test_ledgers_of_a_topic_grow_whichever_worker_serves_it(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    last = dict.fromkeys(TOPICS, (-1, -1))
    for workers in ("3", "2", "3", "1", "2"):
        broker.stop()
        broker.settings["magnetarWorkers"] = workers
        broker.start()
        client = connect(broker.service_url)
        for topic in TOPICS:
            [receipt] = publish(client.create_producer(topic), "next")
            position = receipt.ledger_id(), receipt.entry_id()
            assert position > last[topic], (topic, workers)
            last[topic] = position
        client.close()


def test_a_worker_that_dies_is_back_and_its_clients_go_on(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    client = connect(broker.service_url)
    fill(client, 2)
    producers = [client.create_producer(topic) for topic in TOPICS]
    for number in range(3):
        os.kill(worker_pids(broker)[number], signal.SIGKILL)
        for producer in producers:
            publish(producer, f"after-{number}")
    expect(client, "m0", "m1", "after-0", "after-1", "after-2")
    client.close()


def test_no_process_is_left_when_the_supervisor_is_killed(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    client = connect(broker.service_url)
    fill(client, 2)
    family = psutil.Process(broker.pid).children(recursive=True)
    assert len(family) == int(WORKERS) + 1
    os.kill(broker.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    client.close()
    broker.kill()
    broker.start()
    client = connect(broker.service_url)
    expect(client, "m0", "m1")
    client.close()


def test_a_damaged_part_of_a_worker_is_named(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    broker.stop()
    (broker.data_dir / "workers" / "1" / "FORMAT").write_text("damaged")
    assert not broker.try_start()
    assert broker.stop() == 1
    assert "Error: workers/1/FORMAT at" in broker.log


def test_a_worker_that_cannot_start_fails_the_start_at_once(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    broker.stop()
    for file in (broker.data_dir / "workers" / "1" / "journal").iterdir():
        file.unlink()
    assert not broker.try_start()
    assert broker.stop() == 1
    assert "Error: worker-1 cannot start: workers/1/journal/" in broker.log
    assert "Traceback" not in broker.log
    assert "brokerShutdownTimeoutMs" not in broker.log  # the others stop, although one is missing


def test_a_stop_is_graceful(make_broker: Make, tmp_path: Path) -> None:
    broker = make_broker(magnetarWorkers=WORKERS)
    client = connect(broker.service_url)
    fill(client, 2)
    client.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log
    assert " ERROR " not in broker.log
    assert " WARNING " not in broker.log
