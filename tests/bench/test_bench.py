"""The bench measures what it states: the load arrives, the floor syncs, the ratios are right."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from bench.__main__ import main, warn_of_load
from bench.budget import by_step, self_times, shares
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
from bench.contest import Contest, takes_part
from bench.floor import EntryFile, serve
from bench.frames import Load, Shape, encode_load
from bench.lineup import SERVERS
from bench.markdown import BEGIN, END
from bench.markdown import main as to_markdown
from bench.outcome import Results
from bench.probe import main as probe_files
from bench.probe import probe_sync
from bench.publishing import (
    OPENING,
    PACE_SECONDS,
    WINDOW_ENTRIES,
    PacedPublisher,
    Publisher,
)
from bench.rows import ROWS, Mark, Row
from bench.scenarios import Trial, crash, publish
from bench.servers import Floor
from bench.table import marks, table
from bench.usage import Measures, cpu_ratio
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


# The rows, the table and the command --------------------------------------------------------------


NUMBERS = ("fdatasync_p50_ms", "fdatasync_p99_ms", "load_before", "load_after")
RATE = {"messages", "msg_per_s", "mb_per_s", "cpu_us", "peak_mib", "client_percent"}
ALSO = {
    "tail": {"published_per_s", "behind_messages", "behind_ms", "kept_up"},
    "latency": {"p50_ms", "p99_ms", "p999_ms"},
    "holes": {"holes_mib", "first_ms", "rest_per_s"},
    "tls": {"of_plain", "cpu_of_plain"},
}
TINY = 0.003


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("publish-64k", "floor"),
        ("publish-100x100", "magnetar"),
        ("tail-100x100", "magnetar"),
        ("catch-up-100", "magnetar"),
        ("catch-up-100x100", "floor"),
        ("fan-out-10", "magnetar"),
        ("latency", "magnetar"),
        ("holes-in-order", "magnetar"),
        ("holes-random", "magnetar"),
        ("tls-100", "magnetar"),
        ("start", "magnetar"),
        ("start", "floor"),
    ],
)
def test_a_row_measures(key: str, name: str, tmp_path: Path) -> None:
    with SERVERS[name](tmp_path / "data") as server:
        scale = 0.015 if key == "latency" else TINY
        measures = ROWS[key].measure(Trial(server, TOPIC, scale, SECONDS))
    if key == "start":
        assert 0 < measures["healthy_ms"] < measures["first_ms"]
        assert 0 < measures["uss_mib"] <= measures["pss_mib"] <= measures["rss_mib"]
        return
    assert measures.keys() >= RATE | ALSO.get(key.partition("-")[0], set())
    assert measures.get("came_again", 0) == 0
    assert measures["messages"] > 0 and measures["msg_per_s"] > 0 and measures["cpu_us"] >= 0
    assert 0 < measures["pss_mib"] <= measures["peak_mib"]


def test_a_run_too_short_for_the_kernels_clock_has_no_cpu_ratio() -> None:
    assert cpu_ratio(6.0, 3.0) == 2.0
    assert cpu_ratio(6.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("key", "positive"),
    [
        ("latency-topics", {"p50_ms", "p999_ms", "beside_per_s"}),
        ("latency-backlog", {"p50_ms", "p999_ms", "beside_per_s"}),
        ("latency-compaction", {"p50_ms", "p999_ms", "beside_share"}),
        ("scrapes", {"scrape_ms", "page_mb", "quiet_p99_ms", "p99_ms"}),
        ("scrapes-workers", {"scrape_ms", "page_mb", "quiet_p99_ms", "p99_ms"}),
        ("workers-publish", {"of_one", "one_per_s", "idle_mib", "healthy_ms"}),
        ("workers-shared", {"of_one", "one_per_s", "idle_mib", "healthy_ms"}),
        ("first-delivery-cold", {"healthy_ms", "beginning_ms", "middle_ms", "stored_gb"}),
        ("topics-million", {"healthy_ms", "without_mib", "known_mib", "rss_mib"}),
        ("client-send", {"msg_per_s", "official_per_s", "of_official"}),
        ("client-receive-batched", {"msg_per_s", "official_per_s", "of_official"}),
        ("client-latency", {"p50_ms", "p99_ms", "official_p50_ms", "of_official"}),
        ("txn-1", {"messages", "msg_per_s", "cpu_us"}),
        ("txn-100", {"messages", "msg_per_s", "cpu_us"}),
        ("txn-aborts", {"of_quiet", "p99_ms", "aborted_per_s"}),
        ("txn-open", {"of_plain", "seen_of_plain"}),
        ("delayed", {"delayed_ratio", "healthy_ms", "first_ms", "peak_mib"}),
    ],
)
def test_a_row_of_one_kind_measures(key: str, positive: set[str], tmp_path: Path) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        scale = 0.015 if key.startswith(("latency", "scrapes", "txn-aborts")) else TINY
        measures = ROWS[key].measure(Trial(server, TOPIC, scale, SECONDS))
    assert all(measures[name] > 0 for name in positive)
    assert measures.get("stored_share", 1.0) == 1.0


def test_a_server_without_topics_has_nothing_beside_the_load(tmp_path: Path) -> None:
    with Floor(tmp_path / "data") as server:
        measures = ROWS["latency-compaction"].measure(Trial(server, TOPIC, 0.015, SECONDS))
    assert measures["p50_ms"] > 0 and measures["beside_share"] == 0


def test_rows_that_need_magnetar_are_for_its_forms_alone() -> None:
    takers = [name for name in SERVERS if takes_part(ROWS["topics-million"], name)]
    assert takers == ["magnetar", "compiled", "before"]


def test_a_load_may_have_many_topics(tmp_path: Path) -> None:
    shape = Shape(100, topics=OPENING + 3)
    with Floor(tmp_path / "data") as server:
        measures = publish(Trial(server, TOPIC, 1.0, SECONDS), shape=shape, entries=1000)
    assert measures["messages"] == 900


def test_a_killed_server_is_started_again_on_its_data(tmp_path: Path) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        trial = Trial(server, TOPIC, 1.0, SECONDS)
        measures = crash(trial, shape=Shape(100, batch=10), gigabytes=0.0001)
    assert 0 < measures["healthy_ms"] < measures["first_ms"]


class Lasting(Floor):
    """A floor that is declared slow to start."""

    quick = False


def test_servers_take_turns_and_a_lasting_one_is_warmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVERS, "lasting", Lasting)
    seen: list[tuple[int, str]] = []

    def measure(trial: Trial) -> Measures:
        seen.append((trial.server.pid, trial.topic))
        return {"msg_per_s": float(len(seen))}

    with Contest(["floor", "lasting"], tmp_path, TINY, SECONDS) as contest:
        turns = list(contest.run({"a": Row("a", measure)}, 2, lambda text: None))
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


def test_the_probe_compares_numbers_of_files(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        probe_files, ["--files", "1,3", "--seconds", "0.2", "--dir", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert [line.partition(":")[0] for line in done.output.splitlines()] == ["1 files", "3 files"]
    assert not list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    ("subject", "passed", "word"), [(5.0, True, "pass"), (4.9, False, "MISS"), (None, False, "not")]
)
def test_a_mark_is_passed_missed_or_not_measured(
    subject: float | None, passed: bool, word: str
) -> None:
    made = results([] if subject is None else [subject], [10.0])
    verdicts = {(v.mark.measure, v.mark.of): v for v in made.verdicts("publish-100")}
    assert verdicts["msg_per_s", "floor"].passed is passed
    assert not verdicts["msg_per_s", "pulsar-fsync"].passed
    line = next(line for line in marks(made).splitlines() if "of floor" in line)
    assert word in line


def test_marks_count_for_the_compiled_form_where_it_was_measured() -> None:
    made = results([4], [10])
    assert made.ratio("publish-100", "msg_per_s", "floor") == 0.4
    made.add("publish-100", "compiled", {"msg_per_s": 6})
    assert made.ratio("publish-100", "msg_per_s", "floor") == 0.6
    verdicts = {v.mark.of: v for v in made.verdicts("publish-100")}
    assert verdicts["floor"].passed
    assert "  / Magnetar" in table(made)


@pytest.mark.parametrize(("load", "warned"), [(0.99, False), (1.0, True)])
def test_a_busy_machine_is_told_of(
    load: float, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_load(Results({"load_before": load}, 1, 1.0))
    assert ("WARNING" in capsys.readouterr().err) is warned


def test_a_mark_may_be_an_upper_bound() -> None:
    made = results([512.0, 513.0, 1.0], [1.0], "peak_mib")
    peak = made.verdicts("publish-100")[-1]
    assert peak.mark == Mark("peak_mib", 512, at_most=True)
    assert peak.passed


def test_the_table_shows_medians_ranges_and_ratios() -> None:
    lines = table(results([4, 6, 5], [2, 2, 2])).splitlines()
    head, _, title, subject, other, ratio = lines
    assert "CPU us/msg" in head
    assert title == "publish 100 B"
    assert subject.split() == ["Magnetar", "5", "(4-6)"]
    assert other.split() == ["floor", "2"]
    assert ratio.split() == ["/", "floor", "2.50x"]


def test_the_command_prints_tables_and_writes_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ["--rows", "start", "--quick", "--json", str(path), "--dir", str(tmp_path)]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0 and "start, empty" in done.output
    written = json.loads(path.read_text())
    assert written["rounds"] == 1
    assert written["measures"]["start"].keys() == {"magnetar", "floor"}
    assert [mark["measure"] for mark in written["marks"]["start"]] == ["healthy_ms", "rss_mib"]
    assert Results.load(path).as_json() == path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_run_becomes_markdown_between_the_markers_of_a_document(tmp_path: Path) -> None:
    made = results([4, 6, 5], [2, 2, 2])
    known = ("magnetar", "python", "system", "cpus")
    made.machine = dict.fromkeys(known, "x") | dict.fromkeys(NUMBERS, 1.0)
    path, document = tmp_path / "run.json", tmp_path / "doc.md"
    path.write_text(made.as_json())
    document.write_text(f"above\n{BEGIN}old\n{END}below\n")
    done = CliRunner().invoke(to_markdown, [str(path), "--into", str(document)])
    assert done.exit_code == 0, done.output
    text = document.read_text()
    assert text.startswith(f"above\n{BEGIN}") and text.endswith(f"{END}below\n")
    assert "| publish 100 B | 5 msg/s | 2 msg/s | 2.50 |" in text
    assert "old" not in text


def test_a_profile_is_shared_out() -> None:
    profile = (
        "thread (0x1A): MainThread;run (a.py:1);decode_send (magnetar_proto/sends.py:7) 30\n"
        "thread (0x1A): MainThread;run (a.py:1);decode_send (magnetar_proto/sends.py:9) 30\n"
        "thread (0x1B): magnetar-journal;write (magnetar_storage/disk.py:3) 40\n"
    )
    functions, threads = self_times(profile)
    assert functions == {
        "decode_send (magnetar_proto/sends.py)": 60,
        "write (magnetar_storage/disk.py)": 40,
    }
    assert threads == {"MainThread": 60, "magnetar-journal": 40}
    assert by_step(functions) == {"read what is asked": 60, "write to files and sync": 40}
    assert shares(threads, 5.0, 1) == "| MainThread | 3 | 60 % |\n| everything else | 2 | 40 % |\n"


def test_a_failed_row_is_reported_and_the_others_run(tmp_path: Path) -> None:
    def measure(trial: Trial) -> Measures:
        raise LoadError("no luck")

    def works(trial: Trial) -> Measures:
        return {"msg_per_s": 1.0}

    lines: list[str] = []
    made = Results({}, 1, 1.0)
    with Contest(["floor"], tmp_path, TINY, SECONDS) as contest:
        rows = {"publish-100": Row("a", measure), "publish-1k": Row("b", works)}
        for measured in contest.run(rows, 1, lines.append):
            made.add(*measured)
    assert "FAILED: LoadError: no luck" in lines
    assert made.failures == [("publish-100", "floor", "LoadError: no luck")]
    assert made.values("publish-1k", "floor", "msg_per_s") == [1.0]


def test_the_command_refuses_unknown_rows() -> None:
    done = CliRunner().invoke(main, ["--rows", "start,nonsense"])
    assert done.exit_code == 2 and "no such row: nonsense" in done.output
