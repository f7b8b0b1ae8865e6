"""Records the traffic of real clients: `python -m fuzz record`."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pulsar

import magnetar
from fuzz.traffic import TRAFFIC
from running_broker import RunningBroker


class Relay:
    """Passes connections on to a broker and remembers what their clients sent.

    Unless it is `advertised`, it replaces the broker's port in what the broker answers, so that
    clients stay here.
    """

    def __init__(self, port: int, advertised: bool = False) -> None:
        self.sent: list[bytearray] = []
        self._broker = port
        self._advertised = advertised
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        sent = bytearray()
        self.sent.append(sent)
        shown = self._broker if self._advertised else self.port
        ports = b":%d" % self._broker, b":%d" % shown
        with client, socket.create_connection(("127.0.0.1", self._broker)) as broker:
            back = (broker, client, lambda data: None, ports)
            answers = threading.Thread(target=_pump, args=back, daemon=True)
            answers.start()
            _pump(client, broker, sent.extend, ports)
            answers.join()


def _pump(
    source: socket.socket, sink: socket.socket, note: Callable[[bytes], None],
    ports: tuple[bytes, bytes],
) -> None:  # fmt: skip
    with suppress(OSError):  # either side closed it
        while data := source.recv(1 << 16):
            note(data)
            sink.sendall(data.replace(*ports))
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def official(url: str) -> None:
    """The C++ client: batches, compression, partly acknowledged batches, seeks, readers."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    topic = "persistent://public/default/recorded"
    shared = client.subscribe(
        topic, "shared", pulsar.ConsumerType.Shared, properties={"key": "value"},
        batch_index_ack_enabled=True, initial_position=pulsar.InitialPosition.Earliest,
    )  # fmt: skip
    kinds = ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY")
    for kind in kinds:
        producer = client.create_producer(
            topic, compression_type=getattr(pulsar.CompressionType, kind),
            batching_enabled=kind != "ZLib", batching_max_publish_delay_ms=20,
        )  # fmt: skip
        for number in range(4):
            producer.send_async(
                b"message %d " % number * 4, lambda *_: None,
                properties={"n": str(number)}, partition_key=f"key-{number}",
            )  # fmt: skip
        producer.flush()
        producer.close()
    got = [shared.receive(10_000) for _ in range(4 * len(kinds))]
    for message in got[1::2]:
        shared.acknowledge(message)
    shared.negative_acknowledge(got[0])
    shared.redeliver_unacknowledged_messages()
    shared.seek(pulsar.MessageId.earliest)
    failover = client.subscribe(topic, "failover", pulsar.ConsumerType.Failover)
    failover.get_last_message_id()
    failover.unsubscribe()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    for _ in range(3):
        reader.read_next(10_000)
    reader.seek(1)
    reader.close()
    client.get_topic_partitions(topic)
    client.close()


def own(url: str) -> None:
    """Our client."""

    async def talk() -> None:
        async with magnetar.connect(url) as client:
            producer = await client.producer("recorded-own")
            consumer = await client.subscribe("recorded-own", "sub", initial_position="earliest")
            for number in range(5):
                await producer.send(b"own %d" % number)
            consumer.ack(await consumer.receive_batch(timeout_s=10))

    asyncio.run(talk())


def record() -> None:
    """Write TRAFFIC again."""
    talks: tuple[Callable[[str], None], ...] = (official, own)
    TRAFFIC.mkdir(exist_ok=True)
    with TemporaryDirectory() as directory:
        broker = RunningBroker(Path(directory) / "data").start()
        try:
            for talk in talks:
                relay = Relay(broker.port)
                talk(f"pulsar://127.0.0.1:{relay.port}")
                relay.close()
                for number, sent in enumerate(relay.sent):
                    (TRAFFIC / f"{talk.__name__}-{number}.bin").write_bytes(sent)
        finally:
            broker.close()
