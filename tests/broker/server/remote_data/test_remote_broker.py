"""Real brokers without data of their own: in versitygw, and in etcd or PostgreSQL."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from fakes.waiting import LOOK_SECONDS
from official import connect, publish, take, texts
from remote_data import ENGINES, Stores, await_serving, running_stores, serves, url_of
from running_broker import RunningBroker

TOPIC = "persistent://public/default/remote"
MANY = 200


@pytest.fixture(params=ENGINES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with running_stores(tmp_path, request.param) as running:
        yield running


@pytest.fixture
def machines(stores: Stores, tmp_path: Path) -> Iterator[list[RunningBroker]]:
    """Two brokers on the same stores, which are not started."""
    both = [RunningBroker(tmp_path / name, **stores.settings()) for name in ("one", "two")]
    try:
        yield both
    finally:
        for broker in both:
            broker.kill()


def fill(broker: RunningBroker, acknowledged: int) -> None:
    """Publish `MANY` messages, and acknowledge some of them."""
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared)
    publish(client.create_producer(TOPIC), *map(str, range(MANY)))
    for message in take(consumer, acknowledged):
        consumer.acknowledge(message)
    client.close()


def left(url: str, count: int) -> list[str]:
    """Return the next messages of the subscription."""
    client = connect(url)
    try:
        return texts(take(client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared), count))
    finally:
        client.close()


@pytest.mark.parametrize("ends", ["kill", "stop"])
def test_another_machine_has_all_data(machines: list[RunningBroker], ends: str) -> None:
    first, second = machines
    fill(first.start(), 50)
    assert not first.data_dir.exists()
    if ends == "kill":
        first.kill()
    else:
        assert first.stop() == 0
    second.start()
    assert left(second.service_url, MANY - 50) == [str(n) for n in range(50, MANY)]
    assert "  data        s3://bucket/data-1?" in second.banner
    assert "  durability  objects: " in second.banner


def test_a_standby_takes_over_while_clients_go_on(machines: list[RunningBroker]) -> None:
    first, standby = machines
    first.start()
    standby.begin()
    client = connect(url_of(first, standby))
    consumer = client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared)
    producer = client.create_producer(TOPIC, send_timeout_millis=0)
    publish(producer, *map(str, range(MANY)))
    first.kill()
    publish(producer, *map(str, range(MANY, 2 * MANY)))
    assert await_serving(standby) is standby
    # What was sent again, because its receipt was lost, comes twice.
    received: list[str] = []
    while len(set(received)) < 2 * MANY:
        received += texts(take(consumer, 1))
    assert list(dict.fromkeys(received)) == [str(n) for n in range(2 * MANY)]
    client.close()


def test_a_standby_can_be_stopped(machines: list[RunningBroker]) -> None:
    first, standby = machines
    first.start()
    standby.begin()
    while "standby: " not in standby.log:
        time.sleep(LOOK_SECONDS)
    assert standby.stop() == 0
    assert serves(first)


def test_a_broker_that_was_suspended_ends_and_confirms_nothing(
    machines: list[RunningBroker],
) -> None:
    first, standby = machines
    fill(first.start(), 0)
    standby.begin()
    client = connect(first.service_url)
    producer = client.create_producer(TOPIC, send_timeout_millis=0)
    first_process = first.pid
    os.kill(first_process, signal.SIGSTOP)
    results: list[pulsar.Result] = []
    producer.send_async(b"to nobody", lambda result, _: results.append(result))
    await_serving(standby)
    os.kill(first_process, signal.SIGCONT)
    assert first.wait() == 1
    assert "this broker ends, because" in first.log
    assert left(standby.service_url, MANY) == [str(n) for n in range(MANY)]
    assert results == []
    client.close()


def test_publishing_waits_for_a_store_of_objects_that_is_away(
    stores: Stores, machines: list[RunningBroker]
) -> None:
    first, _ = machines
    first.start()
    client = connect(first.service_url)
    producer = client.create_producer(TOPIC, send_timeout_millis=0)
    publish(producer, "before")
    stores.objects.kill()
    receipts: list[pulsar.Result] = []
    producer.send_async(b"meanwhile", lambda result, _: receipts.append(result))
    stores.objects.start()
    producer.flush()
    assert receipts == [pulsar.Result.Ok]
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    assert [reader.read_next().data() for _ in range(2)] == [b"before", b"meanwhile"]
    client.close()


def test_doctor_checks_both_stores(
    stores: Stores, machines: list[RunningBroker], tmp_path: Path
) -> None:
    conf = tmp_path / "cluster.conf"
    first, _ = machines
    conf.write_text("".join(f"{key}={value}\n" for key, value in stores.settings().items()))
    answer = run_doctor(conf)
    assert "ok    objects: s3://bucket/data-1?" in answer and "ok    metadata: " in answer
    assert "data directory" not in answer
    fill(first.start(), 0)  # what the check has written is no obstacle for a first start
    stores.metadata.kill()
    stores.objects.kill()
    answer = run_doctor(conf)
    assert "FAIL  objects: " in answer and "FAIL  metadata: " in answer


def run_doctor(conf: Path) -> str:
    """Return what the command prints."""
    command = [str(Path(sys.executable).with_name("magnetar")), "doctor", "--conf", str(conf)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def test_stores_that_do_not_belong_together_are_refused(
    stores: Stores, machines: list[RunningBroker]
) -> None:
    first, second = machines
    fill(first.start(), 0)
    first.stop()
    second.settings["metadataStoreUrl"] = stores.metadata.place(2)
    assert not second.try_start()
    assert "do not belong together: the metadata has no id, and the objects have one" in second.log
    assert left(first.start().service_url, MANY) == [str(n) for n in range(MANY)]


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("metadataStoreUrl", "etcd:127.0.0.1:1", "metadataStoreUrl: "),
        ("metadataStoreUrl", "postgres://u:s3cret@127.0.0.1:1/db", "127.0.0.1:1"),
        ("metadataStoreUrl", "etcd:http://127.0.0.1:1", "http://127.0.0.1:1: "),
        ("magnetarSegmentStore", "s3://bucket?endpoint=http://127.0.0.1:1", "127.0.0.1:1"),
        ("magnetarSegmentStore", "s3://", "magnetarSegmentStore: "),
    ],
)
def test_a_wrong_endpoint_is_one_sentence(
    machines: list[RunningBroker], setting: str, value: str, text: str
) -> None:
    first, _ = machines
    first.settings[setting] = value
    assert not first.try_start()
    lines = [line for line in first.log.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1 and text in lines[0], first.log
    assert "Traceback" not in first.log and "s3cret" not in first.log
