"""Input that no client sends: the connection ends, the broker runs on and keeps nothing."""

import random
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.entries import encode_entry, encode_head
from magnetar_proto.frames import encode_frame
from raw_client import (
    Closed,
    Kind,
    RawClient,
    closes,
    metadata,
    send_frame,
    send_frame_of,
)
from running_broker import RunningBroker

LIMIT = 5 * 1024 * 1024
PADDING = 10 * 1024
CONNECT = encode(pb.CommandConnect(client_version="raw", protocol_version=21))
TYPES = sorted(set(range(128)) - set(Kind.Type.values()))
FROM_BROKERS = [
    pb.CommandConnected(server_version="me"),
    pb.CommandSuccess(request_id=1),
    pb.CommandSendReceipt(producer_id=1, sequence_id=1),
    pb.CommandProducerSuccess(request_id=1, producer_name="p"),
    pb.CommandActiveConsumerChange(consumer_id=1),
]


def sizes(total: int, command: int) -> bytes:
    return struct.pack(">II", total, command)


def serves(broker: RunningBroker) -> None:
    """Another client is still served."""
    with RawClient(broker.port) as other:
        other.ping()


GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "a frame of no bytes": sizes(0, 0),
    "a frame that cannot hold a command": sizes(5, 1) + b"\x08",
    "a command of no bytes": sizes(6, 0) + b"\x08\x12",
    "a command beyond its frame": sizes(10, 100) + bytes(6),
    "a command beyond four gigabytes": sizes(10, 0xFFFFFFFF) + bytes(6),
    "an oversized frame": sizes(LIMIT + PADDING + 1, 10),
    "four gigabytes": sizes(0xFFFFFFFF, 10),
    "a command that is not one": encode_frame(b"\xff" * 10),
    "no type": encode_frame(b"\x92\x01\x00"),
    "a type without its command": encode_frame(b"\x08\x12"),
    "another command than its type": encode_frame(b"\x08\x12\x9a\x01\x00"),
    "a lack of required fields": encode_frame(b"\x08\x05\x2a\x00"),
    "a broken varint": encode_frame(b"\x08\x06\x32\x0b" + b"\xff" * 11),
    "a version that is not text": CONNECT.replace(b"raw", b"\xff\xfe!"),
    "a topic that is not text": encode(pb.CommandLookupTopic(topic="topic", request_id=1)).replace(
        b"topic", b"\xff\xfe\xfd!!"
    ),
    "a property that is not text": encode(
        pb.CommandProducer(
            topic="t", producer_id=1, request_id=1, metadata=[pb.KeyValue(key="key", value="v")]
        )
    ).replace(b"key", b"\xff\xfe!"),
}


@pytest.mark.parametrize("connected", [False, True], ids=["stranger", "client"])
@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_the_connection(broker: RunningBroker, data: bytes, connected: bool) -> None:
    with RawClient(broker.port, handshake=connected) as raw:
        raw.send_bytes(data)
        closes(raw)
    serves(broker)


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandPing(),
        pb.CommandProducer(topic="t", producer_id=1, request_id=1),
        pb.CommandLookupTopic(topic="t", request_id=1),
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual),
        pb.CommandFlow(consumer_id=1, messagePermits=1),
        pb.CommandNewTxn(request_id=1),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_before_the_handshake(broker: RunningBroker, command: object) -> None:
    with RawClient(broker.port, handshake=False) as raw:
        raw.send(command)
        assert raw.await_close() == []


def test_a_message_before_the_handshake(broker: RunningBroker) -> None:
    with RawClient(broker.port, handshake=False) as raw:
        raw.send_bytes(send_frame(0, b"x"))
        assert raw.await_close() == []


def test_a_large_frame_before_the_handshake(broker: RunningBroker) -> None:
    with RawClient(broker.port, handshake=False) as raw:
        raw.send_bytes(sizes(LIMIT, 100))
        assert raw.await_close() == []


@pytest.mark.parametrize("kind", TYPES[:: len(TYPES) // 8])
def test_an_unknown_command(raw: RawClient, kind: int) -> None:
    raw.send_bytes(encode_frame(bytes([8, kind])))
    closes(raw)


@pytest.mark.parametrize("command", FROM_BROKERS, ids=lambda command: type(command).__name__)
def test_a_command_that_only_brokers_send(raw: RawClient, command: object) -> None:
    raw.send(command)
    closes(raw)


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 8, 12, -1])
def test_a_frame_that_never_ends(broker: RunningBroker, cut: int) -> None:
    with RawClient(broker.port, handshake=False) as raw:
        raw.send_bytes(CONNECT[:cut])
        raw.finish_sending()
        assert raw.await_close() == []
    serves(broker)


def test_a_handshake_byte_by_byte(broker: RunningBroker) -> None:
    with RawClient(broker.port, handshake=False) as raw:
        for byte in CONNECT:
            raw.send_bytes(bytes([byte]))
        assert raw.expect(Kind.CONNECTED).max_message_size == LIMIT


def test_what_came_before_the_garbage_still_counts(
    broker: RunningBroker, raw: RawClient, topic: str
) -> None:
    raw.produce(topic)
    raw.send_bytes(send_frame(0, b"kept") + b"\xff" * 20)
    closes(raw)
    with RawClient(broker.port) as other:
        other.subscribe(topic)
        other.flow(1)
        assert other.next_message().entry.endswith(b"kept")


def test_the_largest_frame_and_one_byte_more(raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    overhead = len(send_frame(0, bytes(1 << 20))) - (1 << 20)
    raw.publish(0, bytes(LIMIT + PADDING - overhead))
    try:
        raw.send_bytes(send_frame(1, bytes(LIMIT + PADDING - overhead + 1)))
    except Closed:
        return  # the connection was closed for the sizes, before the rest of the message
    closes(raw)


NO_ENTRIES = {
    "nothing": b"",
    "half a checksum": b"\x0e\x01\x00\x00",
    "no metadata": b"\x0e\x01\x00\x00\x00\x00",
    "metadata beyond the end": encode_entry(metadata(0), b"", checksum=False)[:-5],
    "metadata of four gigabytes": b"\xff\xff\xff\xff" + b"x" * 20,
    "metadata that is none": struct.pack(">I", 6) + b"\xff" * 6,
    "metadata without required fields": struct.pack(">I", 2) + b"\x10\x05" + b"payload",
}


@pytest.mark.parametrize("entry", NO_ENTRIES.values(), ids=NO_ENTRIES.keys())
def test_a_message_that_is_none_ends_the_connection(
    broker: RunningBroker, raw: RawClient, topic: str, entry: bytes
) -> None:
    raw.produce(topic)
    raw.send_bytes(send_frame_of(entry, 3))
    closes(raw)
    with RawClient(broker.port) as other:
        other.produce(topic)
        other.publish(4, b"good")
        other.subscribe(topic)
        other.flow(2)
        assert other.next_message().entry.endswith(b"good")


def test_metadata_that_only_consumers_would_notice(raw: RawClient, topic: str) -> None:
    """The checksum is right: the broker keeps it, and nothing that it does stumbles over it."""
    raw.produce(topic)
    raw.send_bytes(send_frame_of(encode_head(b"\xff" * 6, b"x") + b"x", 0))
    kept = raw.expect(Kind.SEND_RECEIPT).message_id
    raw.subscribe(topic)
    last = raw.request(pb.CommandGetLastMessageId(consumer_id=1, request_id=0)).last_message_id
    assert (last.ledgerId, last.entryId) == (kept.ledgerId, kept.entryId)
    seek = pb.CommandSeek(consumer_id=1, request_id=0, message_publish_time=1)
    assert isinstance(raw.request(seek), pb.CommandSuccess)
    raw.publish(1, b"good")


@settings(max_examples=examples(150))
@given(data=st.binary(min_size=1, max_size=200))
def test_any_bytes(broker: RunningBroker, data: bytes) -> None:
    with RawClient(broker.port) as raw:
        try:
            raw.send_bytes(data)
            raw.finish_sending()
        except (Closed, OSError):
            pass
        raw.await_close()


@settings(max_examples=examples(150))
@given(
    kind=st.sampled_from(sorted(Kind.Type.values())),
    body=st.binary(max_size=40),
    payload=st.binary(max_size=40),
)
def test_any_body_of_any_command(
    broker: RunningBroker, kind: int, body: bytes, payload: bytes
) -> None:
    tag = kind << 3 | 2
    encoded = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    command = b"\x08" + bytes([kind]) + encoded + bytes([len(body)]) + body
    with RawClient(broker.port) as raw:
        try:
            raw.send_bytes(encode_frame(command, payload))
            raw.finish_sending()
        except (Closed, OSError):
            pass
        raw.await_close()


def announce_and_leave(broker: RunningBroker, count: int) -> None:
    """Connections that promise a message and break off, each in its own way."""
    noise = random.Random(0)
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", broker.port)) as connection:
            connection.sendall(CONNECT + sizes(LIMIT, 10) + noise.randbytes(20_000))


def test_bad_input_does_not_pile_up(broker: RunningBroker) -> None:
    announce_and_leave(broker, 100)
    serves(broker)
    before = broker.memory_kib
    announce_and_leave(broker, 1000)
    serves(broker)
    assert broker.memory_kib - before < 10 * 1024, "half of what was sent has stayed"


def test_the_log_knows_of_no_defect(broker: RunningBroker) -> None:
    assert "Traceback" not in broker.log
