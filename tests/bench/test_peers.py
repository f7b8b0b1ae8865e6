"""The load of other brokers is valid in their protocols, and counted however it is cut."""

import asyncio
import gc
import struct
from pathlib import Path
from typing import Any

import click
import pytest
from bench.__main__ import chosen_peers, installed
from bench.connection import Command, Link, LoadError
from bench.consuming import PERMITS, Arrivals
from bench.contest import takes_part
from bench.frames import Load, Shape
from bench.kafka import (
    CONTROL,
    FETCHED,
    KafkaDialect,
    KafkaLink,
    batches_in,
    brokers_in,
    fetch,
    record_batch,
    varint,
)
from bench.lineup import NAMES, PEERS, SERVERS
from bench.markdown import report
from bench.maven import class_path
from bench.nats import NatsDialect, NatsLink
from bench.outcome import Results
from bench.rows import ROWS
from bench.table import promises
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

TOPIC = "persistent://public/default/t"
CUTS = pytest.mark.parametrize("cut", [1, 7, 40, 1 << 20])


def sent_by(link: Link) -> list[bytes]:
    """What it writes, from now on."""
    written: list[bytes] = []
    link.write = written.append  # type: ignore[method-assign, assignment]
    return written


def feed(link: Any, data: bytes, cut: int) -> None:
    for at in range(0, len(data), cut):
        link.data_received(data[at : at + cut])


def frames_of(load: Load) -> bytes:
    return b"".join(buffer for write in load.writes for buffer in write.buffers)


def receipts_of(link: Link) -> list[int]:
    """The number of the last receipt of each read."""
    numbers: list[int] = []

    def noted(count: int, last: Command) -> None:
        numbers.append(link.receipt_number(last))

    link.on_receipts = noted
    return numbers


# Kafka -------------------------------------------------------------------------------------------


def unsigned(buf: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
        pos, shift = pos + 1, shift + 7
        if byte < 0x80:
            return value, pos


def signed(buf: bytes, pos: int) -> tuple[int, int]:
    value, pos = unsigned(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_variable_integer_is_read_back(value: int) -> None:
    encoded = varint(value)
    assert signed(encoded, 0) == (value, len(encoded))


def records_of(batch: bytes) -> list[bytes]:
    """The values of a record batch, after checking what surrounds them."""
    first, size, epoch, magic, crc = struct.unpack_from(">qiibI", batch)
    assert (first, size, epoch, magic) == (0, len(batch) - 12, -1, 2)
    assert crc == crc32c(batch[21:])
    attributes, last_delta, began, ended = struct.unpack_from(">hiqq", batch, 21)
    producer, producer_epoch, sequence, count = struct.unpack_from(">qhii", batch, 43)
    assert (attributes, last_delta, began, ended) == (0, count - 1, 5, 5)
    assert (producer, producer_epoch, sequence) == (-1, -1, -1)
    values, pos = [], 61
    for number in range(count):
        length, pos = signed(batch, pos)
        end = pos + length
        assert batch[pos] == 0
        time_delta, pos = signed(batch, pos + 1)
        offset_delta, pos = signed(batch, pos)
        key_length, pos = signed(batch, pos)
        assert (time_delta, offset_delta, key_length) == (0, number, -1)
        value_length, pos = signed(batch, pos)
        values.append(batch[pos : pos + value_length])
        headers, pos = signed(batch, pos + value_length)
        assert headers == 0 and pos == end
    assert pos == len(batch)
    return values


@pytest.mark.parametrize("count", [1, 100])
def test_a_record_batch_holds_its_records(count: int) -> None:
    assert records_of(record_batch(b"x" * 300, count, now_ms=5)) == [b"x" * 300] * count


@pytest.mark.parametrize("shape", [Shape(10), Shape(10, batch=3), Shape(5000)])
def test_a_load_for_kafka_is_produce_requests_in_order(shape: Shape) -> None:
    load = KafkaDialect().encode_load(TOPIC, shape, 7, 3)
    assert [write.entries for write in load.writes] == [3, 3, 1]
    assert (load.entries, load.shape) == (7, shape)
    data, pos = frames_of(load), 0
    for number in range(7):
        (size,) = struct.unpack_from(">i", data, pos)
        frame = data[pos + 4 : pos + 4 + size]
        pos += 4 + size
        assert struct.unpack_from(">hhi", frame) == (0, 7, number)
        where = struct.unpack_from(">h5shhiih1siii", frame, 8)
        batch = frame[8 + struct.calcsize(">h5shhiih1siii") :]
        assert where == (5, b"bench", -1, -1, 30_000, 1, 1, b"t", 1, 0, len(batch))
        assert struct.unpack_from(">i", batch, 57) == (shape.batch,)
    assert pos == len(data)


def produced(number: int, error: int = 0) -> bytes:
    """A produce response."""
    body = struct.pack(">ii", number, 1) + struct.pack(">h1sii", 1, b"t", 1, 0)
    body += struct.pack(">hqqqi", error, number, -1, 0, 0)
    return struct.pack(">i", len(body)) + body


def fetched(batches: bytes, error: int = 0) -> bytes:
    """A fetch response."""
    body = struct.pack(">iihii", FETCHED, 0, 0, 0, 1) + struct.pack(">h1sii", 1, b"t", 1, 0)
    body += struct.pack(">hqqqiii", error, 9, 9, 0, -1, -1, len(batches)) + batches
    return struct.pack(">i", len(body)) + body


def stored(offset: int, count: int) -> bytes:
    """A record batch as the broker has it."""
    return struct.pack(">q", offset) + record_batch(b"x" * 50, count, 5)[8:]


@CUTS
async def test_answers_to_produce_requests_are_counted(cut: int) -> None:
    link = KafkaLink()
    numbers = receipts_of(link)
    feed(link, b"".join(map(produced, range(20))), cut)
    assert numbers[-1] == 19 and numbers == sorted(numbers)
    assert len(numbers) == (20 if cut < 40 else len(numbers))


async def test_a_refused_batch_fails_the_load() -> None:
    link = KafkaLink()
    receipts_of(link)
    waiting = link.promise()
    link.data_received(produced(0, error=6))
    with pytest.raises(LoadError, match="error 6"):
        await waiting


@CUTS
async def test_fetched_batches_are_counted_and_more_is_asked_for(cut: int) -> None:
    link = KafkaLink()
    written = sent_by(link)
    link.topic = b"t"
    receiver = KafkaDialect().receiver(link, 3)
    assert written == [fetch(b"t", 0)]
    # The last one is cut off, as brokers do that have sent enough.
    feed(link, fetched(stored(0, 3) + stored(3, 3) + stored(6, 3)[:-1]), cut)
    assert receiver.entries == 2 and written[1:] == [fetch(b"t", 6)]
    feed(link, fetched(b""), cut)
    assert receiver.entries == 2 and written[2:] == [fetch(b"t", 6)]
    feed(link, fetched(stored(6, 3)), cut)
    assert receiver.entries == 3 and written[3:] == [fetch(b"t", 9)]


async def test_a_refused_fetch_fails_the_load() -> None:
    link = KafkaLink()
    sent_by(link)
    waiting = link.promise()
    link.data_received(fetched(b"", error=3))
    with pytest.raises(LoadError, match="error 3"):
        await waiting


def test_batches_that_are_not_whole_do_not_count() -> None:
    whole = stored(4, 2)
    for size in range(len(whole)):
        assert batches_in(whole[:size], 0, size) == (0, -1)
    assert batches_in(whole, 0, len(whole)) == (1, 6)


def test_a_broker_is_there_when_the_metadata_names_it() -> None:
    assert brokers_in(struct.pack(">iii", CONTROL, 0, 0)) == 0
    assert brokers_in(struct.pack(">iii", CONTROL, 0, 1)) == 1


# NATS --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [Shape(10), Shape(10, batch=3)])
def test_a_load_for_nats_is_numbered_messages(shape: Shape) -> None:
    load = NatsDialect().encode_load(TOPIC, shape, 4, 3)
    count = 4 * shape.batch
    assert (load.entries, load.shape.batch) == (count, 1)
    assert sum(write.entries for write in load.writes) == count
    lines = frames_of(load).split(b"\r\n")
    assert lines[::2] == [*(b"PUB t _INBOX.receipt.t.%d 10" % n for n in range(count)), b""]
    assert [len(payload) for payload in lines[1::2]] == [10] * count


def acknowledged(number: int, body: bytes = b'{"stream":"t","seq":1}') -> bytes:
    return b"MSG _INBOX.receipt.t.%d 3 %d\r\n%s\r\n" % (number, len(body), body)


def delivered(number: int) -> bytes:
    payload = b"x\r\nPING\r\n"
    return b"MSG t 2 $JS.ACK.%d %d\r\n%s\r\n" % (number, len(payload), payload)


@CUTS
async def test_acknowledgements_of_nats_are_counted(cut: int) -> None:
    link = NatsLink()
    written = sent_by(link)
    numbers = receipts_of(link)
    feed(link, b"INFO {}\r\n" + b"".join(map(acknowledged, range(20))) + b"PING\r\n", cut)
    assert numbers[-1] == 19 and numbers == sorted(numbers)
    assert written == [b"PONG\r\n"]


@pytest.mark.parametrize(
    "refusal", [acknowledged(0, b'{"error":{"code":503}}'), b"-ERR 'Slow Consumer'\r\n"]
)
async def test_what_nats_refuses_fails_the_load_and_nothing_else(refusal: bytes) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: unhandled.append(what))
    link = NatsLink()
    receipts_of(link)
    waiting = link.promise()
    link.data_received(refusal)
    with pytest.raises(LoadError, match="refused"):
        await waiting
    await asyncio.sleep(0)
    del link, waiting
    gc.collect()
    assert unhandled == []


async def test_a_client_of_nats_waits_for_the_servers_answer() -> None:
    link = NatsLink()
    written = sent_by(link)
    greeting = asyncio.create_task(link.greet())
    await asyncio.sleep(0)
    assert b"".join(written).startswith(b"CONNECT ") and written[-1].endswith(b"\r\nPING\r\n")
    assert not greeting.done()
    link.data_received(b"INFO {}\r\nPONG\r\n")
    await greeting


@CUTS
async def test_messages_of_nats_are_acknowledged_and_pulled(cut: int) -> None:
    link = NatsLink()
    written = sent_by(link)
    link.topic, link.consumer = "t", "bench"
    receiver: Arrivals = NatsDialect().receiver(link, 1)
    (pull,) = written
    assert pull.startswith(b"PUB $JS.API.CONSUMER.MSG.NEXT.t.bench _INBOX.")
    assert pull.endswith(b'\r\n{"batch":%d}\r\n' % PERMITS)
    feed(link, b"".join(map(delivered, range(30))), cut)
    assert receiver.entries == 30
    assert written[-1] == b"PUB $JS.ACK.29 4\r\n+ACK\r\n"
    link.data_received(b"".join(map(delivered, range(30, PERMITS // 2))))
    assert b'{"batch":%d}' % (PERMITS // 2) in written[-1]


async def test_a_request_of_the_api_has_its_own_answer() -> None:
    link = NatsLink()
    written = sent_by(link)

    def answer(body: bytes) -> None:
        reply = written[-1].split(b" ")[2]
        link.data_received(b"MSG %s 1 %d\r\n%s\r\n" % (reply, len(body), body))

    link.write = lambda data: (written.append(data), answer(b'{"type":"x"}'))  # type: ignore
    await link.ask("STREAM.CREATE.t", {"name": "t"})
    assert written[-1].startswith(b"PUB $JS.API.STREAM.CREATE.t ")
    link.write = lambda data: (written.append(data), answer(b'{"error":{"code":400}}'))  # type: ignore
    with pytest.raises(LoadError, match="CREATE"):
        await link.ask("STREAM.CREATE.t", {"name": "t"})


# Who is measured, and how it is shown ------------------------------------------------------------


def test_peers_are_chosen_by_name() -> None:
    assert chosen_peers("") == set()
    assert chosen_peers("pulsar,kafka") == {"pulsar-fsync", "pulsar", "kafka-flush", "kafka"}
    with pytest.raises(click.BadParameter, match="no such peer: rabbit"):
        chosen_peers("nats,rabbit")


def test_other_protocols_have_the_rows_that_mean_the_same() -> None:
    rows = [key for key, row in ROWS.items() if takes_part(row, "nats")]
    of_kafka = [key for key, row in ROWS.items() if takes_part(row, "kafka")]
    assert rows == [key for key in of_kafka if not key.startswith("spark-")]
    assert {"spark-read", "spark-write", "spark-idle"} < set(of_kafka)
    assert {"publish-100", "publish-100x100", "catch-up-100", "fan-out-10", "latency"} < set(rows)
    assert "start" in rows
    assert not {"topics-1000", "shared", "delayed", "policy", "latency-topics"} & set(rows)


def test_a_peer_that_cannot_be_fetched_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails() -> None:
        class_path(tmp_path / "some.pom.xml", tmp_path / "target")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(SERVERS["kafka"], "install", fails)
    assert installed(["magnetar", "kafka"]) == ["magnetar"]
    printed = capsys.readouterr().err
    assert printed.startswith("SKIPPED: Kafka: Maven did not fetch what some.pom.xml names: ")


def test_what_was_fetched_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("a.jar:b.jar\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert class_path(tmp_path / "some.pom.xml", target) == "a.jar:b.jar"


def test_a_column_says_what_is_promised() -> None:
    assert NAMES.keys() == SERVERS.keys()
    assert set().union(*PEERS.values()) < NAMES.keys()
    made = Results(dict.fromkeys(MACHINE, 1.0), 1, 1.0)
    for name in ("magnetar", "nats", "kafka-flush", "kafka"):
        made.add("publish-100", name, {"msg_per_s": 1.0})
    assert "| NATS JetStream (fsync of every message) | Kafka, flush (fsync of every batch) " in (
        report(made)
    )
    assert promises(made).splitlines()[-1] == "Kafka (page cache only)"


MACHINE = ("magnetar", "python", "system", "cpus", "fdatasync_p50_ms", "fdatasync_p99_ms",
           "load_before", "load_after")  # fmt: skip
