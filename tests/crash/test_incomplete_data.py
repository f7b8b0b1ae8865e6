"""A broker with an incomplete data directory, as of an unfinished copy, refuses to start; after the
missing parts are restored, nothing is lost."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from magnetar import connect
from magnetar_broker.commands.repair import repair
from running_broker import RunningBroker

TOPICS = ["first", "second"]
COUNT = 20
TIMEOUT = 120
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])


async def publish(broker: RunningBroker, first: int = 0) -> None:
    async with connect(broker.service_url) as client:
        for topic in TOPICS:
            await client.subscribe(topic, "kept")
            producer = await client.producer(topic)
            await producer.send_batch([b"%d" % number for number in range(first, first + COUNT)])


async def consume(broker: RunningBroker, count: int = COUNT) -> None:
    """Check that every message is delivered to the former subscription."""
    async with connect(broker.service_url) as client:
        for topic in TOPICS:
            consumer = await client.subscribe(topic, "kept")
            found = [(await consumer.receive(TIMEOUT)).value for _ in range(count)]
            assert found == [b"%d" % number for number in range(count)]


@pytest.fixture
def made(make_broker: Callable[..., RunningBroker]) -> Callable[[str], RunningBroker]:
    return lambda workers: make_broker(magnetarWorkers=workers)


def segments(broker: RunningBroker) -> list[Path]:
    return sorted(broker.data_dir.glob("**/segments/*.seg"))


def refused(broker: RunningBroker, *words: str) -> None:
    """Check that two starts fail with this reason, change no file of a ledger, and do not count."""
    before = {path: path.stat().st_size for path in segments(broker)}
    counted = starts(broker)
    for _ in range(2):
        assert not broker.try_start()
        text = " ".join(broker.log_of_start.split())
        for word in words:
            assert word in text, text
        assert "Put" in text and "restore a snapshot" in text
    assert {path: path.stat().st_size for path in segments(broker)} == before
    assert starts(broker) == counted


def starts(broker: RunningBroker) -> int | None:
    """Return how many starts the metadata has counted; None if there is no such file."""
    if not (broker.data_dir / "metadata.db").exists():
        return None
    with closing(sqlite3.connect(broker.data_dir / "metadata.db")) as database:
        (found,) = database.execute("SELECT starts FROM directory").fetchone()
        return int(found)


@WORKERS
async def test_without_metadata(made: Callable[[str], RunningBroker], workers: str) -> None:
    broker = made(workers)
    await publish(broker)
    broker.stop()
    away = broker.data_dir.with_name("away")
    away.mkdir()
    for path in broker.data_dir.glob("metadata.db*"):
        path.rename(away / path.name)
    refused(broker, "metadata.db is missing")
    for path in away.iterdir():
        path.rename(broker.data_dir / path.name)
    broker.start()
    await consume(broker)


@WORKERS
async def test_older_metadata(made: Callable[[str], RunningBroker], workers: str) -> None:
    broker = made(workers)
    await publish(broker)
    broker.stop()
    older = shutil.copytree(broker.data_dir, broker.data_dir.with_name("older"))
    broker.start()
    await publish(broker, COUNT)
    broker.stop()
    right = shutil.copytree(broker.data_dir, broker.data_dir.with_name("right"))
    shutil.copy(older / "metadata.db", broker.data_dir)
    refused(broker, "metadata.db is older than")
    shutil.copy(right / "metadata.db", broker.data_dir)
    broker.start()
    await consume(broker, 2 * COUNT)


@WORKERS
async def test_metadata_that_is_older_by_a_moment(
    made: Callable[[str], RunningBroker], workers: str
) -> None:
    """No checkpoint shows what it lacks, but a journal has a ledger that it does not list."""
    broker = made(workers)
    await publish(broker)
    older, right = (broker.data_dir.with_name(name) for name in ("older", "right"))
    move_metadata(broker.data_dir, older, shutil.copy)
    async with connect(broker.service_url) as client:
        await (await client.producer("third")).send(b"later")
    broker.kill()
    move_metadata(broker.data_dir, right, shutil.move)
    move_metadata(older, broker.data_dir, shutil.copy)
    for _ in range(2):
        assert not broker.try_start()
        text = " ".join(broker.log_of_start.split())
        assert "metadata.db is older than" in text, text
    move_metadata(broker.data_dir, older, shutil.move)
    move_metadata(right, broker.data_dir, shutil.move)
    broker.start()
    await consume(broker)
    async with connect(broker.service_url) as client:
        reader = await client.reader("third")
        assert (await reader.read(TIMEOUT)).value == b"later"


def move_metadata(source: Path, target: Path, move: Callable[[Path, Path], object]) -> None:
    target.mkdir(exist_ok=True)
    for name in ("metadata.db", "metadata.db-wal", "metadata.digest"):
        if (source / name).exists():
            move(source / name, target / name)


@WORKERS
@pytest.mark.parametrize("how", ["one is missing", "all are empty", "all are missing"])
async def test_without_segments(
    made: Callable[[str], RunningBroker], workers: str, how: str
) -> None:
    broker = made(workers)
    await publish(broker)
    broker.stop()
    right = shutil.copytree(broker.data_dir, broker.data_dir.with_name("right"))
    largest = max(segments(broker), key=lambda path: path.stat().st_size)
    for path in segments(broker):
        if how == "all are empty":
            path.write_bytes(b"")
        elif how == "all are missing" or path == largest:
            path.unlink()
    if how == "all are missing":
        for folder in broker.data_dir.glob("**/segments"):
            folder.rmdir()
    names = [topic for topic in TOPICS if workers == "1"] if how != "one is missing" else []
    refused(broker, "lacks", ".seg", *names)
    if workers == "1" and how == "one is missing":
        assert "persistent://public/default/" in broker.log_of_start
    shutil.copytree(right, broker.data_dir, dirs_exist_ok=True)
    broker.start()
    await consume(broker)


@WORKERS
async def test_what_is_missing_can_be_given_up(
    made: Callable[[str], RunningBroker], workers: str
) -> None:
    broker = made(workers)
    await publish(broker)
    broker.stop()
    lost = max(segments(broker), key=lambda path: path.stat().st_size)
    lost.unlink()
    run = CliRunner().invoke
    before = {path: path.read_bytes() for path in segments(broker)}
    dry = run(repair, [str(broker.data_dir)])
    number = int(lost.stem, 16)
    assert dry.exit_code == 1 and f"{number}: the file is missing" in dry.output, dry.output
    (topic,) = [topic for topic in TOPICS if f"persistent://public/default/{topic}" in dry.output]
    assert {path: path.read_bytes() for path in segments(broker)} == before
    assert not broker.try_start()
    assert run(repair, [str(broker.data_dir), "--apply"]).exit_code == 0
    again = run(repair, [str(broker.data_dir), "--apply"])
    assert again.exit_code == 0 and "nothing to repair" in again.output
    broker.start()
    rest = [one for one in TOPICS if one != topic]
    async with connect(broker.service_url) as client:
        consumer = await client.subscribe(rest[0], "kept")
        found = [(await consumer.receive(TIMEOUT)).value for _ in range(COUNT)]
        assert found == [b"%d" % one for one in range(COUNT)]


def test_nothing_is_repaired_where_there_is_no_data_directory(tmp_path: Path) -> None:
    result = CliRunner().invoke(repair, [str(tmp_path)])
    assert result.exit_code == 2 and "cannot repair" in result.output


async def test_a_controller_that_is_started_again_compares_nothing_of_before(
    made: Callable[[str], RunningBroker],
) -> None:
    """What the parts reported before the very first start no longer counts."""
    broker = made("3")
    await publish(broker)
    (controller,) = (
        child
        for child in psutil.Process(broker.pid).children()
        if f"controller is process {child.pid}" in broker.log
    )
    controller.kill()
    controller.wait(TIMEOUT)
    await consume(broker)


async def test_a_directory_that_was_copied_whole_is_served(
    made: Callable[[str], RunningBroker],
) -> None:
    broker = made("3")
    await publish(broker)
    broker.kill()
    copy = shutil.copytree(broker.data_dir, broker.data_dir.with_name("copy"))
    shutil.rmtree(broker.data_dir)
    copy.rename(broker.data_dir)
    broker.start()
    await consume(broker)
