"""The bench measures what it says: the load arrives, the floor syncs, the ratios are right."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from bench.__main__ import main
from bench.floor import EntryFile, serve
from bench.load import (
    Connection,
    LoadError,
    PacedPublisher,
    Publisher,
    Receiver,
    connected,
    encode_load,
    look_up,
    open_consumer,
    open_producer,
)
from bench.probe import probe_sync
from bench.rows import ROWS, Scale
from bench.servers import COMMANDS, Server
from bench.table import Results, table, verdict
from click.testing import CliRunner

from bench import load as bench_load
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.commands import decode_send
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import FrameDecoder

TOPIC = "persistent://public/default/t"
TINY = Scale(entries=3000, batches=100, paced=120)
MESSAGES = {"publish": 2700, "publish-batched": 5000, "deliver": 120}
RATE_MEASURES = {"messages", "msg_per_s", "cpu_us", "rss_mib", "uss_mib", "generator_percent"}


@asynccontextmanager
async def floor(file: EntryFile) -> AsyncIterator[int]:
    """A floor in this loop; its port."""
    server, url = await serve(file)
    try:
        yield int(url.rsplit(":", 1)[1])
    finally:
        server.close()
        file.close()


# The load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
def test_a_load_is_valid_frames_in_sequence(batch: int) -> None:
    load = encode_load(entries=7, size=10, batch=batch, entries_per_write=3)
    assert [entries for _, entries in load.writes] == [3, 3, 1]
    frames = FrameDecoder(1 << 20).feed(b"".join(data for data, _ in load.writes))
    assert len(frames) == load.entries == 7
    for number, (kind, buf, start, mid, end) in enumerate(frames):
        assert kind == pb.BaseCommand.SEND
        assert decode_send(buf, start, mid) == (bench_load.PRODUCER_ID, number, batch, 0)
        entry = buf[mid:end]
        assert verify_checksum(entry, 0, len(entry))
        metadata, body = parse_metadata(entry)
        assert metadata.sequence_id == number
        messages = [entry[body:]]
        if batch > 1:
            messages = [payload for _, payload in decode_batch(entry[body:], batch)]
        assert [len(message) for message in messages] == [10] * batch


def test_what_is_published_is_received_in_order(tmp_path: Path) -> None:
    load = encode_load(entries=5000, size=20)

    async def run() -> None:
        entries: list[int] = []
        async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
            await open_consumer(connection, TOPIC)
            await open_producer(connection, TOPIC)
            publisher = Publisher(connection)
            await publisher.publish(load.writes[:10])
            assert publisher.answered == 500
            await publisher.publish(load.writes[10:])
            await publisher.publish([])
            assert publisher.answered == 5000
            receiver = Receiver(connection)
            taken = connection.on_messages

            def spy(frames: list[bench_load.Frame]) -> None:
                for _, buf, _, mid, end in frames:
                    entries.append(parse_metadata(buf[mid:end])[0].sequence_id)
                taken(frames)

            connection.on_messages = spy
            await receiver.receive(5000)
            assert len(receiver.arrivals) == 5000
        assert entries == list(range(5000))

    asyncio.run(run())


def test_the_publisher_keeps_within_its_window(tmp_path: Path) -> None:
    load = encode_load(entries=3000, size=20)
    released = Event()

    def sync(fd: int) -> None:
        assert released.wait(10)
        os.fdatasync(fd)

    async def run() -> None:
        async with floor(EntryFile(tmp_path / "f", sync)) as port, connected(port) as connection:
            await open_producer(connection, TOPIC)
            publisher = Publisher(connection)
            publishing = asyncio.create_task(publisher.publish(load.writes))
            await look_up(connection, TOPIC)
            assert publisher.sent == bench_load.PENDING_ENTRIES
            assert publisher.answered == 0
            released.set()
            await publishing
            assert publisher.sent == publisher.answered == 3000

    asyncio.run(run())


def test_a_paced_publisher_sends_everything(tmp_path: Path) -> None:
    load = encode_load(entries=30, size=20, entries_per_write=1)

    async def run() -> None:
        async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
            await open_producer(connection, TOPIC)
            publisher = PacedPublisher(connection, load, per_second=1000)
            await publisher.publish()
            assert len(publisher.sent_at) == 30
            assert publisher.sent_at == sorted(publisher.sent_at)

    asyncio.run(run())


def test_a_lost_connection_fails_whoever_waits() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Refusing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LoadError, match="connection was lost"):
            async with connected(port):
                pytest.fail("nobody answered the handshake")
        server.close()

    asyncio.run(run())


class Refusing(asyncio.Protocol):
    """Hangs up on the first bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.close()


def test_an_unexpected_receipt_fails_the_load() -> None:
    async def run() -> None:
        connection = Connection()
        publisher = Publisher(connection)
        waiting = connection.promise()
        receipt = bench_load.encode(
            pb.CommandSendReceipt(producer_id=1, sequence_id=5, message_id=pb.MessageIdData(
                ledgerId=1, entryId=0))
        )  # fmt: skip
        connection.data_received(receipt)
        assert publisher.answered == 1
        with pytest.raises(LoadError, match="receipt 1 is for sequence id 5"):
            await waiting

    asyncio.run(run())


# The floor ---------------------------------------------------------------------------------------


def test_the_floor_answers_only_behind_its_sync(tmp_path: Path) -> None:
    load = encode_load(entries=50, size=20)
    path = tmp_path / "f"
    entered, released = Event(), Event()
    sizes: list[int] = []

    def sync(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        entered.set()
        assert released.wait(10)
        os.fdatasync(fd)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with floor(EntryFile(path, sync)) as port, connected(port) as connection:
            await open_producer(connection, TOPIC)
            publisher = Publisher(connection)
            publishing = asyncio.create_task(publisher.publish(load.writes))
            assert await loop.run_in_executor(None, entered.wait, 10)
            # An answer that came too early would have come before this one.
            await look_up(connection, TOPIC)
            assert publisher.answered == 0
            released.set()
            await publishing
            assert publisher.answered == 50

    asyncio.run(run())
    assert sizes and path.stat().st_size == sizes[-1]


def test_the_floor_keeps_its_entries_when_it_is_opened_again(tmp_path: Path) -> None:
    load = encode_load(entries=100, size=20)

    async def fill() -> None:
        async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
            await open_producer(connection, TOPIC)
            await Publisher(connection).publish(load.writes)

    async def read() -> int:
        async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
            await open_consumer(connection, TOPIC)
            receiver = Receiver(connection)
            await receiver.receive(100)
            return len(receiver.arrivals)

    asyncio.run(fill())
    assert asyncio.run(read()) == 100


# The rows, the table and the command --------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_row_measures(row: str, name: str, tmp_path: Path) -> None:
    with Server(name, tmp_path / "data") as server:
        measures = ROWS[row][1](server, TINY)
    if row == "start":
        assert measures["start_ms"] > 0
        return
    assert 0 < measures["uss_mib"] <= measures["rss_mib"]
    if row == "idle":
        return
    assert measures.keys() >= RATE_MEASURES
    if row == "catch-up":
        assert 0 < measures["messages"] <= 2700
    else:
        assert measures["messages"] == MESSAGES[row]
    assert measures["msg_per_s"] > 0 and measures["cpu_us"] >= 0
    if row == "deliver":
        assert 0 < measures["p50_ms"] <= measures["p99_ms"]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    with pytest.raises(RuntimeError, match="did not start"):
        Server("floor", tmp_path / "data").start()


def test_the_probe_reports_two_percentiles(tmp_path: Path) -> None:
    probe = probe_sync(tmp_path, 10)
    assert 0 < probe["p50_ms"] <= probe["p99_ms"]
    assert list(tmp_path.iterdir()) == []


def results(subject: list[float], reference: list[float]) -> Results:
    made = Results({}, len(subject), {})
    for name, values in (("magnetar", subject), ("floor", reference)):
        for value in values:
            made.add("publish", name, {"cpu_us": value})
    return made


def test_the_ratio_is_the_median_over_rounds() -> None:
    assert results([2, 30, 9], [1, 10, 3]).ratio("publish", "cpu_us") == 3
    assert results([2], [0]).ratio("publish", "cpu_us") is None
    assert results([2], [1]).ratio("publish", "p50_ms") is None


@pytest.mark.parametrize(
    ("cost", "words"), [(25.0, "budget: kept"), (25.1, "budget: EXCEEDED"), (None, "not measured")]
)
def test_the_verdict(cost: float | None, words: str) -> None:
    made = results([] if cost is None else [cost], [10.0])
    assert words in verdict(made)


def test_the_table_shows_medians_ranges_and_ratios() -> None:
    head, subject, reference, ratio = table(results([4, 6, 5], [2, 2, 2])).splitlines()
    assert "CPU us/msg" in head
    assert "publish 100 B, unbatched" in subject and "5.00 (4.00-6.00)" in subject
    assert reference.split() == ["floor", "2.00"]
    assert ratio.split() == ["ratio", "2.50x"]


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ["--rows", "start", "--quick", "--json", str(path), "--dir", str(tmp_path)]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0 and "start, empty" in done.output
    written = json.loads(path.read_text())
    assert written["rounds"] == 1
    assert written["measures"]["start"].keys() == {"magnetar", "floor"}
    assert written["ratios"]["start"]["start_ms"] > 0
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_the_command_refuses_unknown_rows() -> None:
    done = CliRunner().invoke(main, ["--rows", "start,nonsense"])
    assert done.exit_code == 2 and "no such row: nonsense" in done.output
