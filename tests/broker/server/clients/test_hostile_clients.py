"""Hostile clients: their effects, while an honest client publishes and consumes undisturbed."""

import random
import select
import socket
import struct
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count, islice

import pytest
import zstandard

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import encode
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import SIZE, encode_frame
from official import connect, publish, take
from raw_client import (
    Closed,
    Kind,
    RawClient,
    metadata,
    process_of,
    refused,
    send_error,
    send_frame,
)
from running_broker import RunningBroker

MB = 1 << 20
LIMITS = {
    "magnetarReceiveBufferSizeInMB": "24",
    "magnetarSendBufferSizeInMB": "24",
    "magnetarSlowReaderTimeoutSeconds": "1",
    "magnetarMaxUnauthenticatedConnectionsPerIp": "50",
    "magnetarMaxProducersPerConnection": "200",
    "magnetarMaxConsumersPerConnection": "200",
    "magnetarMaxTopicWatchersPerConnection": "100",
    "maxConcurrentLookupRequest": "500",
}
WORKERS = 3
GROWTH_KIB = 400 << 10
"""The limit of memory growth for everything together: buffers, caches, allocator."""


@pytest.fixture(scope="module", params=[1, WORKERS], ids=["one process", "several workers"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    settings = {**LIMITS, "magnetarWorkers": str(request.param)}
    running = RunningBroker(tmp_path_factory.mktemp("hostile") / "data", **settings).start()
    yield running
    running.close()


def get_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


class Honest:
    """A client whose messages must arrive.

    If the machine stalls, it may be disconnected as a slow reader; it then connects again.
    """

    def __init__(self, broker: RunningBroker, topic: str) -> None:
        self.client = connect(broker.service_url)
        self._consumer = self.client.subscribe(topic, "honest")
        self._producer = self.client.create_producer(topic)
        self._numbers = count()

    def is_served(self) -> None:
        sent = [f"{number}" for number in islice(self._numbers, 10)]
        publish(self._producer, *sent)
        came: list[str] = []
        while came != sent:
            (message,) = take(self._consumer, 1)
            self._consumer.acknowledge(message)
            if (text := message.data().decode()) in sent and text not in came:
                came.append(text)


@pytest.fixture
def honest(broker: RunningBroker, topic: str) -> Iterator[Honest]:
    before = broker.memory_kib
    made = Honest(broker, f"{topic}-honest")
    made.is_served()
    yield made
    made.is_served()
    assert made.client.create_producer(f"{topic}-another")
    made.client.close()
    assert broker.memory_kib - before < GROWTH_KIB


def reached(broker: RunningBroker, limit: str) -> float:
    """Return how often a limit was reached."""
    page = broker.metrics
    lines = [line for line in page.splitlines() if f'limit="{limit}"' in line]
    assert lines, f"the page has no limit {limit}"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def is_ended(client: RawClient) -> bool:
    """Tell whether the broker has closed a connection by now."""
    poll = select.poll()
    poll.register(client.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def begun_send(size: int, sent: int) -> bytes:
    """Return the beginning of a SEND of this size."""
    return send_frame(0, bytes(size))[:sent]


def test_frames_that_are_never_complete(broker: RunningBroker, honest: Honest) -> None:
    before = reached(broker, "receive_buffer")
    with ExitStack() as stack:
        hostile = [stack.enter_context(RawClient(broker.port)) for _ in range(20)]
        for client in hostile:
            with suppress(Closed):
                client.send_bytes(begun_send(5 * MB, 4 * MB))
            honest.is_served()
        while reached(broker, "receive_buffer") < before + 14:
            honest.is_served()
        while sum(map(is_ended, hostile)) < 14:
            honest.is_served()


def test_connections_without_a_handshake(broker: RunningBroker, honest: Honest) -> None:
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(RawClient(broker.port, handshake=False))
        honest.is_served()
        stack.enter_context(RawClient(broker.port)).ping()
    assert reached(broker, "unauthenticated_connections_per_ip") > 0


def test_connections_that_name_any_process(
    broker: RunningBroker, honest: Honest, topic: str
) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(RawClient(broker.port))
        requests = [
            pb.CommandLookupTopic(topic=f"{topic}-{number}", request_id=0) for number in range(20)
        ]
        names = sorted({process_of(client.request(request)) or "" for request in requests})
        for number in range(300):
            connect = pb.CommandConnect(
                client_version="hostile",
                protocol_version=21,
                proxy_to_broker_url=[*names, "nowhere:1"][number % (len(names) + 1)],
                auth_data=bytes(60_000),
            )
            hostile = stack.enter_context(RawClient(broker.port, handshake=False))
            with suppress(Closed):
                hostile.send_bytes(encode(connect) + begun_send(5 * MB, 1000))
            if number % 50 == 0:
                honest.is_served()


def test_messages_in_any_number_to_topics_of_any_process(
    broker: RunningBroker, honest: Honest, topic: str
) -> None:
    with ExitStack() as stack:
        for number in range(6):
            hostile = stack.enter_context(RawClient(broker.port))
            hostile.produce(f"{topic}-{number}")
            # The data sent is never all read at once, and no receipt is.
            for sequence_id in range(10):
                hostile.send_bytes(send_frame(sequence_id, bytes(4 * MB)))
            honest.is_served()


def test_lookups_whose_answers_nobody_reads(broker: RunningBroker, honest: Honest) -> None:
    before = reached(broker, "slow_reader")
    flood = b"".join(
        encode(pb.CommandLookupTopic(topic=f"persistent://public/default/{n}", request_id=n))
        for n in range(10_000)
    )
    with RawClient(broker.port) as hostile:
        with suppress(Closed, TimeoutError):
            while reached(broker, "slow_reader") == before:
                hostile.send_bytes(flood)
                honest.is_served()
        hostile.await_close()
    assert reached(broker, "slow_reader") > before


def test_messages_that_nobody_reads(broker: RunningBroker, honest: Honest, topic: str) -> None:
    producer = honest.client.create_producer(topic)
    before = reached(broker, "slow_reader")
    with RawClient(broker.port) as hostile:
        hostile.subscribe(topic)
        hostile.flow(1000)
        hostile.ping()
        for _ in range(20):
            producer.send(bytes(MB))
        while reached(broker, "slow_reader") == before:
            honest.is_served()
        hostile.await_close()


def test_properties_that_the_broker_would_have_to_keep(
    broker: RunningBroker, honest: Honest, topic: str
) -> None:
    large = [pb.KeyValue(key="k", value="v" * 100_000)]
    many = [pb.KeyValue(key=f"{n}", value="v" * 10) for n in range(100_000)]
    with RawClient(broker.port) as client:
        for properties in (large, many):
            answer = client.produce(topic, metadata=properties)
            refused(answer, pb.MetadataError, "magnetarMaxProducerMetadataSize")
            answer = client.subscribe(topic, metadata=properties)
            refused(answer, pb.MetadataError, "maxConsumerMetadataSize")
        client.produce(topic)
        sent = metadata(0, properties=many, partition_key="k" * MB, event_time=1)
        client.send_bytes(send_frame(0, b"", own_metadata=sent))
        client.expect(Kind.SEND_RECEIPT)
        honest.is_served()


@pytest.mark.parametrize("declared", [1, 100 * MB, 2**32 - 1])
def test_little_that_decompresses_to_much(
    broker: RunningBroker, honest: Honest, topic: str, declared: int
) -> None:
    bomb = zstandard.compress(bytes(200 * MB), 19)
    assert len(bomb) < MB
    with RawClient(broker.port) as client:
        client.produce(topic)
        sent = metadata(
            0, compression=pb.ZSTD, uncompressed_size=declared, num_messages_in_batch=1000
        )
        client.send_bytes(send_frame(0, bomb, own_metadata=sent, num_messages=1000))
        client.expect(Kind.SEND_RECEIPT)
        client.subscribe(topic, "sub")
    name = topic.removeprefix("persistent://")
    before = broker.memory_kib
    for path in (
        f"persistent/{name}/subscription/sub/position/1",
        f"persistent/{name}/examinemessage?initialPosition=earliest&messagePosition=1",
    ):
        with suppress(OSError):  # any answer will do
            get_text(f"{broker.http_url}/admin/v2/{path}")
        honest.is_served()
    assert broker.memory_kib - before < 100 << 10


@pytest.mark.parametrize(
    "frame",
    [
        SIZE.pack(0),
        SIZE.pack(5),
        SIZE.pack(2**31),
        SIZE.pack(2**32 - 1),
        struct.pack(">II", 100, 2**32 - 1) + bytes(96),
        struct.pack(">II", 100, 97) + bytes(96),
        struct.pack(">Ii", 100, -1) + bytes(96),
        encode_frame(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        encode(pb.CommandConnect(client_version="again", protocol_version=21)),
        encode_frame(b"\x08\x06" + b"\x3a\xff\xff\xff\xff\x0f"),
    ],
)
def test_lengths_that_cannot_be(broker: RunningBroker, honest: Honest, frame: bytes) -> None:
    with RawClient(broker.port) as client:
        client.send_bytes(frame)
        client.await_close()


def test_garbage_after_a_good_handshake(broker: RunningBroker, honest: Honest) -> None:
    chance = random.Random(7)
    for _ in range(100):
        with RawClient(broker.port) as client:
            with suppress(Closed):
                client.send_bytes(chance.randbytes(chance.randrange(8, 4096)))
                # Half a frame may be left, which waits for its rest.
                client.finish_sending()
            client.await_close()


def test_thousands_of_producers_and_consumers_on_one_connection(
    broker: RunningBroker, honest: Honest, topic: str
) -> None:
    with RawClient(broker.port) as client:
        answers = [client.produce(topic, number) for number in range(200)]
        assert {type(answer) for answer in answers} == {pb.CommandProducerSuccess}
        refused(client.produce(topic, 200), pb.NotAllowedError, "magnetarMaxProducersPerConnection")
        client.request(pb.CommandCloseProducer(producer_id=0, request_id=0))
        assert isinstance(client.produce(topic, 200), pb.CommandProducerSuccess)
        shared = pb.CommandSubscribe.Shared
        for number in range(200):
            client.subscribe(topic, "sub", shared, number)
        answer = client.subscribe(topic, "sub", shared, 200)
        refused(answer, pb.NotAllowedError, "magnetarMaxConsumersPerConnection")
        honest.is_served()


def test_ids_that_are_in_use(broker: RunningBroker, honest: Honest, topic: str) -> None:
    opening = encode(pb.CommandProducer(topic=topic, producer_id=1, request_id=1))
    closing = encode(pb.CommandCloseProducer(producer_id=1, request_id=1))
    subscribing = encode(
        pb.CommandSubscribe(
            topic=topic, subscription="sub", subType="Shared", consumer_id=1, request_id=1
        )
    )
    leaving = encode(pb.CommandCloseConsumer(consumer_id=1, request_id=1))
    with RawClient(broker.port) as client:
        client.send_bytes((opening + subscribing) * 200)
        client.send_bytes((opening + closing + subscribing + leaving) * 200)
        client.ping()
        honest.is_served()


def test_acknowledgements_without_end(broker: RunningBroker, honest: Honest, topic: str) -> None:
    with RawClient(broker.port) as client:
        client.produce(topic)
        client.subscribe(topic, "sub", pb.CommandSubscribe.Shared)
        batch = metadata(0, num_messages_in_batch=10)
        client.send_bytes(send_frame(0, b"", own_metadata=batch, num_messages=10))
        found = client.expect(Kind.SEND_RECEIPT).message_id
        long = [2**63 - 1] * 50_000
        for number in range(20):
            ids = [(found.ledgerId, found.entryId + number, long)]
            client.send_bytes(encode_ack(1, pb.CommandAck.Individual, ids, None))
        many: list[tuple[int, int, list[int]]] = [
            (2**62 + n, 2**62 + n, []) for n in range(100_000)
        ]
        client.send_bytes(encode_ack(1, pb.CommandAck.Individual, many, None))
        client.send_bytes(encode_ack(1, pb.CommandAck.Cumulative, many[:1], None))
        honest.is_served()
        with suppress(Closed):  # it may be disconnected
            client.ping()


def test_patterns_without_end(broker: RunningBroker, honest: Honest) -> None:
    with RawClient(broker.port) as client:
        for number in range(300):
            answer = client.request(
                pb.CommandWatchTopicList(
                    request_id=0,
                    watcher_id=number,
                    namespace="public/default",
                    topics_pattern="persistent://public/default/(a+)+(b*)*c{1,9}",
                )
            )
        refused(answer, pb.NotAllowedError, "magnetarMaxTopicWatchersPerConnection")
        honest.is_served()


HOST = b"Host: h\r\n"
HIDDEN = b"GET /admin/v2/clusters HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\nContent-Length: 44\r\n",
        b"Content-Length: 0, 44\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"X: y\nContent-Length: 44\r\n",
        b"X: y\r\n Content-Length: 44\r\n",
        b"Content-Length : 44\r\n",
    ],
)
def test_requests_over_http_that_hide_another(
    broker: RunningBroker, honest: Honest, head: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", broker.http_port), 60) as client:
        path = b"POST /admin/v2/persistent/public/default/none/unload HTTP/1.1\r\n"
        client.sendall(path + HOST + head + b"\r\n" + HIDDEN)
        received = b""
        while data := client.recv(1 << 16):
            received += data
    assert received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
    assert received.count(b"HTTP/1.1 ") == 1
    honest.is_served()


def test_entries_that_are_none(broker: RunningBroker, honest: Honest, topic: str) -> None:
    with RawClient(broker.port) as client:
        client.produce(topic)
        entry = encode_entry(metadata(0), b"payload")
        for wrong in (b"", b"\x0e\x01", entry[:6], entry[:10] + b"\xff\xff\xff\xff" + entry[10:]):
            command = pb.BaseCommand(type=Kind.SEND)
            command.send.CopyFrom(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1))
            with suppress(Closed):
                send_error(client, encode_frame(command.SerializeToString(), wrong))
        honest.is_served()
