"""The bench measures what it states: the load arrives, the floor syncs, the ratios are right."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import cast

import pytest
from bench.__main__ import main, warn_of_load
from bench.connection import (
    Command,
    Connection,
    LoadError,
    connected,
    look_up,
    open_consumer,
    open_producer,
)
from bench.consuming import Receiver
from bench.contest import Contest
from bench.floor import EntryFile, FloorConnection, serve
from bench.frames import Load, Shape, encode_load
from bench.probe import probe_sync
from bench.publishing import (
    OPENING,
    PACE_SECONDS,
    WINDOW_ENTRIES,
    PacedPublisher,
    Publisher,
)
from bench.results import Results
from bench.rows import BROKERS, ROWS, Row
from bench.scenarios import Trial
from bench.servers import SERVERS, Floor
from bench.usage import Measures
from click.testing import CliRunner

from fakes.waiting import until
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.commands import encode
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.sends import decode_send

TOPIC = "persistent://public/default/t"
SMALL = Shape(20)
SECONDS = 60.0


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


@pytest.mark.parametrize("shape", [Shape(10), Shape(10, batch=3), Shape(5000), Shape(10, topics=3)])
def test_a_load_is_valid_frames_in_sequence(shape: Shape) -> None:
    load = encode_load(shape, entries=7, write_entries=3)
    assert [write.entries for write in load.writes] == [3, 3, 1]
    frames = FrameDecoder(1 << 20).feed(b"".join(b for write in load.writes for b in write.buffers))
    assert len(frames) == load.entries == 7
    for number, (kind, buf, start, mid, entry) in enumerate(frames):
        assert kind == pb.BaseCommand.SEND
        sequence_id, topic = divmod(number, shape.topics)
        assert decode_send(buf, start, mid) == (topic + 1, sequence_id, shape.batch, 0)
        assert verify_checksum(entry, 0, len(entry))
        metadata, body = parse_metadata(entry)
        assert metadata.sequence_id == sequence_id
        messages = [entry[body:]]
        if shape.batch > 1:
            messages = [payload for _, payload in decode_batch(entry[body:], shape.batch)]
        assert [len(message) for message in messages] == [shape.size] * shape.batch


def test_a_load_is_split_between_writes() -> None:
    load = encode_load(SMALL, entries=1000)
    first, rest = load.split(10)
    assert (first.entries, rest.entries) == (100, 900)
    assert [*first.writes, *rest.writes] == load.writes


@pytest.mark.parametrize("shape", [SMALL, Shape(20, batch=5)])
async def test_what_is_published_is_received(shape: Shape, tmp_path: Path) -> None:
    load = encode_load(shape, entries=9000)

    async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
        await open_consumer(connection, TOPIC)
        await open_producer(connection, TOPIC)
        publisher = Publisher(connection)
        first, rest = load.split(10)
        assert await publisher.publish(first, SECONDS) == 900
        assert await publisher.publish(rest, SECONDS) == 8100
        assert await publisher.publish(Load(shape, [], 0), SECONDS) == 0
        receiver = Receiver(connection, shape.batch)
        await receiver.receive(9000, SECONDS)
        assert receiver.entries == sum(count for _, count in receiver.arrivals) == 9000


async def test_a_receiver_knows_how_far_it_was_behind() -> None:
    connection = Connection()
    connection.write = lambda data: None  # type: ignore[method-assign]
    published = 10
    receiver = Receiver(connection, 1, lambda: published)
    message = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=0))
    connection.data_received(encode(message) * 7)
    published = 12
    connection.data_received(encode(message) * 5)
    assert receiver.entries == 12
    assert receiver.most_behind == 10


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_commands_are_counted_however_they_are_cut(cut: int) -> None:
    receipt = pb.CommandSendReceipt(
        producer_id=1, sequence_id=5, message_id=pb.MessageIdData(ledgerId=1, entryId=0)
    )
    data = encode(receipt) * 5

    connection = Connection()
    counts: list[int] = []

    def count(receipts: int, last: Command) -> None:
        counts.append(receipts)

    connection.on_receipts = count
    for at in range(0, len(data), cut):
        connection.data_received(data[at : at + cut])
    assert sum(counts) == 5


async def test_the_publisher_keeps_within_its_window(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=WINDOW_ENTRIES * 2)
    released = Event()

    def sync(fd: int) -> None:
        assert released.wait(10)
        os.fdatasync(fd)

    async with floor(EntryFile(tmp_path / "f", sync)) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        publisher = Publisher(connection)
        publishing = asyncio.create_task(publisher.publish(load, SECONDS))
        await look_up(connection, TOPIC)
        assert publisher.sent == WINDOW_ENTRIES
        assert publisher.answered == 0
        released.set()
        assert await publishing == WINDOW_ENTRIES * 2


async def test_a_publisher_whose_time_is_over_sends_nothing_more(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=WINDOW_ENTRIES * 2)
    released = Event()

    def sync(fd: int) -> None:
        assert released.wait(10)

    async with floor(EntryFile(tmp_path / "f", sync)) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        publisher = Publisher(connection)
        publishing = asyncio.create_task(publisher.publish(load, SECONDS))
        await look_up(connection, TOPIC)
        publisher.until = 0.0
        released.set()
        assert await publishing == publisher.sent == WINDOW_ENTRIES
        # What follows continues behind what was left out.
        longer = encode_load(SMALL, entries=WINDOW_ENTRIES * 2 + 100)
        later = Load(SMALL, longer.writes[-2:], 100)
        assert await publisher.publish(later, SECONDS) == 100


async def test_a_paced_publisher_sends_everything(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=30, write_entries=1)

    async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        publisher = PacedPublisher(connection, load, per_second=1000)
        await publisher.publish()
        assert len(publisher.sent_at) == 30
        assert publisher.sent_at == sorted(publisher.sent_at)


async def test_a_paced_publisher_that_is_stopped_sends_nothing_more(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=3000, write_entries=1)
    stopped = asyncio.Event()
    async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        publisher = PacedPublisher(connection, load, per_second=1000)
        publishing = asyncio.create_task(publisher.publish())
        await until(lambda: publisher.sent_at, "something was sent")
        publishing.cancel()
        sent = len(publisher.sent_at)
        asyncio.get_running_loop().call_later(3 * PACE_SECONDS, stopped.set)
        await stopped.wait()
        assert len(publisher.sent_at) == sent


async def test_a_lost_connection_fails_all_waiters() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Refusing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(LoadError, match="connection was lost"):
        async with connected(port):
            pytest.fail("the handshake was not answered")
    server.close()


class Refusing(asyncio.Protocol):
    """Hangs up on the first bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.close()


async def test_an_unexpected_receipt_fails_the_load() -> None:
    connection = Connection()
    publisher = Publisher(connection)
    waiting = connection.promise()
    receipt = pb.CommandSendReceipt(
        producer_id=1, sequence_id=5, message_id=pb.MessageIdData(ledgerId=1, entryId=0)
    )
    connection.data_received(encode(receipt))
    assert publisher.answered == 1
    with pytest.raises(LoadError, match="receipt 1 is for sequence id 5"):
        await waiting


# The floor ---------------------------------------------------------------------------------------


async def test_the_floor_answers_only_behind_its_sync(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=50)
    path = tmp_path / "f"
    entered, released = Event(), Event()
    sizes: list[int] = []

    def sync(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        entered.set()
        assert released.wait(10)
        os.fdatasync(fd)

    loop = asyncio.get_running_loop()
    async with floor(EntryFile(path, sync)) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        publisher = Publisher(connection)
        publishing = asyncio.create_task(publisher.publish(load, SECONDS))
        assert await loop.run_in_executor(None, entered.wait, 10)
        # An answer that came too early would have come before this one.
        await look_up(connection, TOPIC)
        assert publisher.answered == 0
        released.set()
        assert await publishing == 50
    assert sizes and path.stat().st_size == sizes[-1]


async def test_the_floor_keeps_its_entries_when_it_is_opened_again(tmp_path: Path) -> None:
    load = encode_load(SMALL, entries=100)

    async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
        await open_producer(connection, TOPIC)
        await Publisher(connection).publish(load, SECONDS)
    async with floor(EntryFile(tmp_path / "f")) as port, connected(port) as connection:
        await open_consumer(connection, TOPIC)
        receiver = Receiver(connection)
        await receiver.receive(100, SECONDS)
        assert receiver.entries == 100


async def test_entries_that_arrive_after_the_end_of_a_floor_are_dropped(tmp_path: Path) -> None:
    """Connections are still open when a trial closes it: they must not end the benchmark."""
    file = EntryFile(tmp_path / "f")
    file.close()
    file.append([(cast(FloorConnection, None), 1, 0, 1, b"late")])
    assert file._committing is None
    assert (tmp_path / "f").read_bytes() == b""


# The rows, the table and the command --------------------------------------------------------------


RATE = {"messages", "msg_per_s", "cpu_us", "peak_mib", "client_percent"}
RATIO = {"msg_per_s", "official_per_s", "of_official"}
START = {"healthy_ms", "first_ms", "rss_mib", "pss_mib"}
MEASURES = {
    "publish": RATE,
    "topics-1000": RATE,
    "dedup": RATE,
    "tail": RATE | {"published_per_s", "behind_messages", "behind_ms", "kept_up"},
    "catch-up": RATE,
    "fan-out": RATE,
    "latency": RATE | {"p50_ms", "p99_ms", "p999_ms", "longest_ms"},
    "shared": RATE,
    "key_shared": RATE,
    "holes": RATE | {"holes_mib", "first_ms", "rest_per_s", "came_again"},
    "topics-10k": RATE
    | {"topic_kib", "idle_percent", "healthy_ms", "reopened_per_s", "used_per_s"},
    "txn": RATE,
    "client-latency": {"p50_ms", "p99_ms", "official_p50_ms", "of_official"},
    "client": RATIO,
    "workers": RATE,
    "takeover": {"msg_per_s", "calm_gap_ms", "publish_gap_ms", "opening_gap_ms"},
    "start": START,
    "crash": START | {"stored_gb"},
}
"""What rows measure, by the beginning of their name; those of Spark have a module of their own."""
MAY_BE_ZERO = {"cpu_us", "client_percent", "idle_percent", "came_again", "behind_messages"}
MAY_BE_NEGATIVE = {"holes_mib", "topic_kib"}
"""Differences between two looks at the memory."""
MEASURED = (
    *("publish-100x100", "topics-1000", "dedup-100", "tail-100x100", "catch-up-100", "fan-out"),
    *("latency", "shared", "key_shared", "holes", "topics-10k", "txn-100", "client-send"),
    *("client-receive-batched", "client-latency", "workers-2", "takeover", "start", "crash"),
)
"""One row of each kind."""
TINY = 0.003


def measures_of(key: str) -> set[str]:
    return next(found for prefix, found in MEASURES.items() if key.startswith(prefix))


@pytest.mark.parametrize(
    ("key", "name"),
    [(key, "magnetar") for key in MEASURED]
    + [("publish-64k", "floor"), ("catch-up-100x100", "floor"), ("start", "floor")],
)
def test_a_row_measures(key: str, name: str, tmp_path: Path) -> None:
    row = ROWS[key]
    server = SERVERS[name](tmp_path / "data")
    if row.settings:
        server.configure(row.settings)
    with server:
        measures = row.measure(Trial(server, TOPIC, TINY, SECONDS))
    assert measures.keys() >= measures_of(key)
    for measure in measures_of(key) - MAY_BE_NEGATIVE:
        assert measures[measure] > 0 or (measure in MAY_BE_ZERO and measures[measure] == 0)
    assert measures.get("came_again", 0) == 0
    if "first_ms" in measures and "healthy_ms" in measures:
        assert measures["healthy_ms"] < measures["first_ms"]


def test_rows_are_for_the_servers_that_can_do_them() -> None:
    takers = {key: [name for name in SERVERS if row.is_for(name)] for key, row in ROWS.items()}
    assert takers["publish-100"] == list(SERVERS)
    assert takers["shared"] == [name for name in SERVERS if name != "floor"]
    assert takers["spark-read"] == ["compiled", "magnetar", "before"]
    assert all(row.servers == BROKERS for key, row in ROWS.items() if key.startswith("txn"))


def test_a_load_may_have_many_topics(tmp_path: Path) -> None:
    row = Row("publish {}", ROWS["publish-100"].work, Shape(100, topics=OPENING + 3), 1000)
    assert str(row) == f"publish 100 B over {OPENING + 3} topics"
    with Floor(tmp_path / "data") as server:
        assert row.measure(Trial(server, TOPIC, 1.0, SECONDS))["messages"] == 900


class Lasting(Floor):
    """A floor that is declared slow to start."""

    quick = False


def test_servers_take_turns_and_a_lasting_one_is_warmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVERS, "lasting", Lasting)
    seen: list[tuple[int, str]] = []

    def work(trial: Trial, shape: Shape, count: int) -> Measures:
        seen.append((trial.server.pid, trial.topic))
        return {"msg_per_s": float(len(seen))}

    with Contest(["floor", "lasting"], tmp_path, TINY, SECONDS) as contest:
        turns = list(contest.run({"a": Row("a", work, SMALL, 1)}, 2, lambda text: None))
    rates = []
    for row, name, measures in turns:
        assert not isinstance(measures, str), measures
        rates.append((row, name, measures["msg_per_s"]))
    assert rates == [
        ("a", "floor", 1),
        ("a", "lasting", 3),
        ("a", "floor", 4),
        ("a", "lasting", 5),
    ]
    pids = [pid for pid, _ in seen]
    assert pids[1] == pids[2] == pids[4] and len(set(pids)) == 3
    assert len({topic for _, topic in seen}) == 5


def test_a_server_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    with pytest.raises(RuntimeError, match="did not start"):
        Floor(tmp_path / "data").start()


def test_the_probe_reports_two_percentiles(tmp_path: Path) -> None:
    probe = probe_sync(tmp_path, 10)
    assert 0 < probe["p50_ms"] <= probe["p99_ms"]


def results(subject: list[float], other: list[float], measure: str = "msg_per_s") -> Results:
    made = Results({}, len(subject), 1.0)
    for name, values in (("magnetar", subject), ("floor", other)):
        for value in values:
            made.add("publish-100", name, {measure: value})
    return made


def test_the_ratio_is_the_median_over_rounds() -> None:
    assert results([2, 30, 9], [1, 10, 3]).ratio("publish-100", "msg_per_s", "floor") == 3
    assert results([2], [0]).ratio("publish-100", "msg_per_s", "floor") is None
    assert results([2], [1]).ratio("publish-100", "p50_ms", "floor") is None


def test_ratios_are_of_the_compiled_form_where_it_was_measured() -> None:
    made = results([4], [10])
    assert made.ratio("publish-100", "msg_per_s", "floor") == 0.4
    made.add("publish-100", "compiled", {"msg_per_s": 6})
    assert made.ratio("publish-100", "msg_per_s", "floor") == 0.6
    assert made.ratio("publish-100", "msg_per_s", "magnetar") == 1.5


@pytest.mark.parametrize(("load", "warned"), [(0.99, False), (1.0, True)])
def test_a_busy_machine_is_told_of(
    load: float, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_load(load)
    assert ("WARNING" in capsys.readouterr().err) is warned


def test_the_table_shows_medians_ranges_and_ratios() -> None:
    made = results([4, 6, 5], [2, 2, 2])
    made.add("latency", "magnetar", {"p50_ms": 0.5, "p99_ms": 1.0})
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.table().splitlines()]
    head, rule, *rows = lines
    assert head == ["row", "measure", "Magnetar", "floor", "/ floor"]
    assert rule[0].strip("-") == "" and rule[2].endswith("-:")
    assert rows == [
        ["publish 100 B", "a second", "5 (4-6)", "2", "2.50"],
        ["publish to deliver 100 B at 1,000 msg/s", "p50 ms", "0.50", "", ""],
        ["", "p99 ms", "1.00", "", ""],
    ]
    assert len({len(line) for line in made.table().splitlines()}) == 1


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    options = ["--rows", "start", "--rounds", "1", "--scale", "0.1", "--dir", str(tmp_path)]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0 and "start, empty" in done.output
    (path,) = tmp_path.iterdir()
    written = json.loads(path.read_text())
    assert written["rounds"] == 1
    assert written["measures"]["start"].keys() == {"magnetar", "floor"}
    assert Results(**written).as_json() == path.read_text()


def test_a_failed_row_is_reported_and_the_others_run(tmp_path: Path) -> None:
    def fails(trial: Trial, shape: Shape, count: int) -> Measures:
        raise LoadError("no luck")

    def works(trial: Trial, shape: Shape, count: int) -> Measures:
        return {"msg_per_s": 1.0}

    lines: list[str] = []
    made = Results({}, 1, 1.0)
    with Contest(["floor"], tmp_path, TINY, SECONDS) as contest:
        rows = {"publish-100": Row("a", fails, SMALL, 1), "publish-1k": Row("b", works, SMALL, 1)}
        for measured in contest.run(rows, 1, lines.append):
            made.add(*measured)
    assert "FAILED: LoadError: no luck" in lines
    assert made.failures == [("publish-100", "floor", "LoadError: no luck")]
    assert made.values("publish-1k", "floor", "msg_per_s") == [1.0]


@pytest.mark.parametrize(
    ("option", "named"), [("--rows", "start,nonsense"), ("--servers", "floor,nonsense")]
)
def test_the_command_refuses_unknown_names(option: str, named: str) -> None:
    done = CliRunner().invoke(main, [option, named])
    assert done.exit_code == 2 and ": nonsense; there are " in done.output
