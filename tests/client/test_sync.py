"""The blocking facade, and brokers for tests."""

import multiprocessing
import subprocess
import sys
import threading
import tomllib
import uuid
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import magnetar
import magnetar.sync
from magnetar.testing import Broker, BrokerNotStarted
from running_broker import RunningBroker

TIMEOUT_S = 60.0
ROOT = Path(__file__).parents[2]


def new_topic() -> str:
    return f"persistent://public/default/sync-{uuid.uuid4().hex[:10]}"


def test_every_call_waits_for_its_result(broker: RunningBroker) -> None:
    topic = new_topic()
    with magnetar.sync.connect(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", nack_delay_s=0.01)
        producer = client.producer(topic)
        first = producer.send(b"one", key="k")
        producer.send_batch([b"two", b"three"])
        producer.send_nowait(b"four")
        producer.flush()
        messages = [consumer.receive(TIMEOUT_S) for _ in range(4)]
        assert [m.value for m in messages] == [b"one", b"two", b"three", b"four"]
        assert (messages[0].id, messages[0].key) == (first, "k")
        consumer.ack(messages[:1])
        consumer.ack_up_to(messages[2])
        consumer.nack(messages[3])
        assert next(iter(consumer)).value == b"four"
        consumer.seek(first)
        assert consumer.receive_batch(timeout_s=TIMEOUT_S)[0].value == b"one"
        with pytest.raises(magnetar.OperationTimeout):
            client.subscribe(new_topic(), "s").receive(0.01)
        reader = client.reader(topic)
        assert reader.has_message_available()
        assert next(iter(reader)).value == b"one"
        view = client.table_view(topic)
        assert view.snapshot() == {"k": b"one"}
        assert client.partitions(topic) == [topic]
        consumer.unsubscribe()
    with pytest.raises(magnetar.Closed):
        producer.send(b"x")


def test_threads_share_a_producer(broker: RunningBroker) -> None:
    topic = new_topic()
    with magnetar.sync.connect(broker.service_url) as client:
        consumer = client.subscribe(topic, "s")
        producer = client.producer(topic)
        threads = [
            threading.Thread(target=lambda: [producer.send(b"x") for _ in range(20)])
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [consumer.receive(TIMEOUT_S).value for _ in range(100)] == [b"x"] * 100


def child(url: str, topic: str, inherited: magnetar.sync.Producer, back: Connection) -> None:
    try:
        inherited.send(b"never")
    except magnetar.Closed as error:
        back.send(str(error))
    with magnetar.sync.connect(url) as client:
        client.producer(topic).send(b"from the child")
    back.send("sent")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own(broker: RunningBroker) -> None:
    topic = new_topic()
    with magnetar.sync.connect(broker.service_url) as client:
        consumer = client.subscribe(topic, "s")
        producer = client.producer(topic)
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=child, args=(broker.service_url, topic, producer, there)
        )
        process.start()
        assert here.poll(TIMEOUT_S) and "before the process was forked" in here.recv()
        assert here.poll(TIMEOUT_S) and here.recv() == "sent"
        process.join(TIMEOUT_S)
        producer.send(b"from the parent")
        values = {consumer.receive(TIMEOUT_S).value for _ in range(2)}
        assert values == {b"from the child", b"from the parent"}


async def test_a_broker_of_ones_own(tmp_path: Path) -> None:
    async with Broker(tmp_path / "data", settings={"maxMessageSize": "100000"}) as broker:
        async with magnetar.connect(broker.service_url) as client:
            await (await client.producer("t")).send(b"x")
            with pytest.raises(magnetar.MessageTooLarge, match="100000"):
                await (await client.producer("t")).send(bytes(100_001))
        port = broker.port
        broker.kill()
        broker.start()
        assert broker.port == port
        async with magnetar.connect(broker.service_url) as client:
            assert (await (await client.reader("t")).read(TIMEOUT_S)).value == b"x"
    with pytest.raises(ValueError, match="does not run"):
        _ = broker.pid


def test_a_broker_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(BrokerNotStarted, match="data"), Broker(tmp_path / "data"):
        pass


def test_the_fixtures_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import magnetar.sync\n"
        "def test_it(pulsar_url, pulsar_broker):\n"
        "    assert pulsar_url == pulsar_broker.service_url\n"
        "    with magnetar.sync.connect(pulsar_url) as client:\n"
        "        client.producer('t').send(b'x')\n"
    )
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert plugins["pytest11"] == {"magnetar": "magnetar.testing.plugin"}
    options = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    if "magnetar.testing.plugin" not in sys.modules:  # not installed with its entry point here
        options += ["-p", "magnetar.testing.plugin"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
