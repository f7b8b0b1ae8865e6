"""Entries that cannot be decoded, between valid ones, with a real daemon."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import magnetar
from admin_http import Admin
from magnetar.consuming.options import Subscription
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import RawClient, send_frame_of
from running_broker import RunningBroker

TIMEOUT_S = 60.0
UNKNOWN_COMPRESSION = 77
QUEUE_SIZE = 10
ROUNDS = 150
"""The number of rounds of bad and good entries: many times the permits of a queue."""


def metadata(sequence_id: int, **fields: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name="raw", sequence_id=sequence_id, publish_time=1, **fields  # type: ignore[arg-type]
    )  # fmt: skip


def entry(sequence_id: int, payload: bytes, **fields: object) -> bytes:
    return encode_entry(metadata(sequence_id, **fields), payload)


def compressed_by_the_future(sequence_id: int) -> bytes:
    described = metadata(sequence_id, uncompressed_size=100)
    tag = pb.MessageMetadata.COMPRESSION_FIELD_NUMBER << 3
    unknown = described.SerializeToString() + bytes([tag, UNKNOWN_COMPRESSION])
    parsed = pb.MessageMetadata()
    parsed.ParseFromString(unknown)
    return encode_entry(parsed, b"squeezed")


def bad_entries(sequence_id: int) -> Iterator[tuple[bytes, int, str]]:
    """Yield an entry of each kind, its number of messages, and why it is unreadable."""
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    yield entry(sequence_id, b"secret", encryption_keys=keys), 1, "encrypted"
    yield (
        entry(sequence_id + 1, b"sealed", encryption_keys=keys, num_messages_in_batch=7),
        7,
        ("encrypted"),
    )
    chunk = entry(sequence_id + 2, b"half", uuid="u", num_chunks_from_msg=2, chunk_id=1)
    yield chunk, 1, "chunked"
    yield compressed_by_the_future(sequence_id + 3), 1, "does not know"
    broken = entry(sequence_id + 4, b"no lz4", compression=pb.LZ4, uncompressed_size=100)
    yield broken, 1, "cannot be decompressed"
    yield entry(sequence_id + 5, b"\x00\x00", num_messages_in_batch=5), 5, "not a batch"
    yield entry(sequence_id + 6, b"x", num_messages_in_batch=-3), 1, "a batch of -3 messages"


BAD = len(list(bad_entries(0)))


def publish(client: RawClient, topic: str, rounds: int) -> list[bytes]:
    """Publish rounds of one entry of each bad kind and a good one; return the good values."""
    assert isinstance(client.produce(topic), pb.CommandProducerSuccess)
    sequence_id = 0
    good = []
    for number in range(rounds):
        for data, messages, _ in bad_entries(sequence_id):
            client.send_bytes(send_frame_of(data, sequence_id, num_messages=messages))
            sequence_id += 1
        good.append(b"good %d" % number)
        client.send_bytes(send_frame_of(entry(sequence_id, good[-1]), sequence_id))
        sequence_id += 1
        for _ in range(BAD + 1):
            client.expect(pb.BaseCommand.SEND_RECEIPT)
    return good


def new_topic() -> str:
    return f"persistent://public/default/unreadable-{uuid.uuid4().hex[:10]}"


def published(broker: RunningBroker, topic: str, rounds: int = ROUNDS) -> list[bytes]:
    with RawClient(broker.port) as client:
        return publish(client, topic, rounds)


async def receive(
    consumer: magnetar.Consumer | magnetar.Reader, count: int
) -> tuple[list[bytes], list[magnetar.Unreadable]]:
    """Return the values of `count` messages, and the errors raised between them."""
    take = consumer.read if isinstance(consumer, magnetar.Reader) else consumer.receive
    values: list[bytes] = []
    errors: list[magnetar.Unreadable] = []
    while len(values) < count:
        try:
            message = await take(TIMEOUT_S)
        except magnetar.Unreadable as error:
            errors.append(error)
            continue
        values.append(message.value)
        if isinstance(consumer, magnetar.Consumer):
            consumer.ack(message)
    return values, errors


async def what_is_left(client: magnetar.Client, topic: str, end: bytes) -> tuple[bytes, int]:
    """Send a message, and return the first one delivered, with the number of errors before it."""
    producer = await client.producer(topic)
    await producer.send(end)
    consumer = await client.subscribe(topic, "s", on_unreadable="skip")
    message = await consumer.receive(TIMEOUT_S)
    return message.value, consumer.unreadable


@pytest.mark.parametrize("queue_size", [0, 1, QUEUE_SIZE])
@pytest.mark.parametrize("kind", ["exclusive", "shared"])
async def test_skipping_delivers_what_is_readable_and_acknowledges_nothing(
    broker: RunningBroker, kind: str, queue_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    good = published(broker, topic)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", type=kind, initial_position="earliest", queue_size=queue_size,
            on_unreadable="skip",
        )  # fmt: skip
        assert await receive(consumer, ROUNDS) == (good, [])
        assert consumer.unreadable == BAD * ROUNDS
        await consumer.close()
        for at, (_, _, why) in enumerate(bad_entries(0)):
            record = caplog.records[at]
            logged = record.getMessage()
            assert f":{at} of {topic}" in logged and why in logged
            fields = [vars(record)[f"pulsar_{name}"] for name in ("topic", "subscription")]
            assert fields == [topic, "s"]
            assert f":{at}:" in vars(record)["pulsar_message_id"]
        assert await what_is_left(client, topic, b"end") == (b"end", BAD * ROUNDS)


@pytest.mark.parametrize("queue_size", [0, 1, QUEUE_SIZE])
async def test_failing_raises_in_the_place_of_each_and_continues(
    broker: RunningBroker, queue_size: int
) -> None:
    topic = new_topic()
    good = published(broker, topic)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", queue_size=queue_size
        )
        values, errors = await receive(consumer, ROUNDS)
        assert values == good
        assert [error.message_id.entry for error in errors] == [
            number * (BAD + 1) + at for number in range(ROUNDS) for at in range(BAD)
        ]
        for error, (_, _, why) in zip(errors, bad_entries(0), strict=False):
            assert why in str(error)


async def test_batches_end_before_a_failure(broker: RunningBroker) -> None:
    topic = new_topic()
    with RawClient(broker.port) as raw:
        raw.produce(topic)
        [bad, *_] = bad_entries(0)
        for number, data in enumerate((entry(0, b"a"), entry(1, b"b"), bad[0], entry(3, b"c"))):
            raw.send_bytes(send_frame_of(data, number))
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", initial_position="earliest")
        received: list[list[bytes]] = []
        while sum(map(len, received)) < 3:
            try:
                batch = await consumer.receive_batch(timeout_s=TIMEOUT_S)
            except magnetar.Unreadable:
                batch = []
            received.append([message.value for message in batch])
        at = received.index([])
        assert list(chain(*received[:at])) == [b"a", b"b"]
        assert list(chain(*received[at:])) == [b"c"]


async def test_discarding_acknowledges(broker: RunningBroker) -> None:
    topic = new_topic()
    good = published(broker, topic)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", queue_size=QUEUE_SIZE, on_unreadable="discard"
        )
        assert await receive(consumer, ROUNDS) == (good, [])
        await consumer.close()
        assert await what_is_left(client, topic, b"end") == (b"end", 0)


async def test_the_other_partitions_continue(broker: RunningBroker) -> None:
    topic = new_topic()
    path = topic.replace("://", "/")
    assert Admin(broker).put(f"{path}/partitions", 2).status == 204
    good = published(broker, f"{topic}-partition-0")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(f"{topic}-partition-1")
        await producer.send_batch([b"other"] * ROUNDS)
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", queue_size=QUEUE_SIZE
        )
        values, errors = await receive(consumer, 2 * ROUNDS)
        assert [value for value in values if value != b"other"] == good
        assert {error.message_id.partition for error in errors} == {0}


@pytest.mark.parametrize("on_unreadable", ["fail", "skip"])
@pytest.mark.parametrize("queue_size", [0, QUEUE_SIZE])
async def test_readers(broker: RunningBroker, on_unreadable: str, queue_size: int) -> None:
    topic = new_topic()
    good = published(broker, topic)
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic, queue_size=queue_size, on_unreadable=on_unreadable)
        values, errors = await receive(reader, ROUNDS // 2)
        # Every connection of the topic is closed: the reader resumes behind the last entry read.
        assert Admin(broker).put(f"{topic.replace('://', '/')}/unload").status == 204
        more, later = await receive(reader, ROUNDS // 2)
        assert values + more == good
        assert reader.unreadable == BAD * ROUNDS
        assert len(errors + later) == (BAD * ROUNDS if on_unreadable == "fail" else 0)


def test_the_command_exits_or_skips(broker: RunningBroker) -> None:
    topic = new_topic()
    published(broker, topic, 1)
    command = [
        str(Path(sys.executable).with_name("magnetar")),
        "consume",
        topic,
        "-s",
        "s",
        "--url",
    ]
    for choice, exit_code, printed in (
        ([], 1, "Error: entry "),
        (["--on-unreadable", "discard"], 0, f"1 message, {BAD} unreadable entries"),
        (["--on-unreadable", "skip"], 0, "0 messages\n"),
    ):
        done = subprocess.run(
            [*command, broker.service_url, "--wait", "2", *choice],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == exit_code, done.stderr
        assert printed in done.stderr


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="'ignore' is unknown; known are fail, skip, discard"):
        Subscription("s", on_unreadable="ignore")
