"""`magnetar verify` on the directory of a real broker."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakes.waiting import until
from magnetar import connect
from magnetar_broker.cli import verify
from magnetar_storage.local import directories
from magnetar_storage.runtime.disk import LocalDisk
from running_broker import RunningBroker

TOPIC = "persistent://public/default/verify me+"
PAYLOAD = b"the payload that will rot"


def run(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(verify, [str(directory), *options])


@pytest.fixture
async def stopped(make_broker: Callable[..., RunningBroker]) -> Path:
    """The directory of a broker that was killed with a topic and a subscription."""
    running = make_broker()
    async with connect(running.service_url) as client:
        await client.subscribe(TOPIC, "reader")
        producer = await client.producer(TOPIC)
        await producer.send_batch([PAYLOAD, PAYLOAD])
    running.kill()
    return running.data_dir


def digests(directory: Path) -> dict[Path, str]:
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def rot(directory: Path) -> Path:
    """Change a byte of the stored payload, wherever it is."""
    for path in sorted(directory.rglob("*.wal")) + sorted(directory.rglob("*.seg")):
        content = bytearray(path.read_bytes())
        at = content.find(PAYLOAD)
        if at >= 0:
            content[at] ^= 1
            path.write_bytes(content)
            return path
    raise AssertionError("the payload is nowhere")


def test_a_killed_broker_leaves_no_damage_and_nothing_is_changed(stopped: Path) -> None:
    before = digests(stopped)
    result = run(stopped)
    assert result.exit_code == 0, result.output
    assert "1 topics" in result.output and "no damage" in result.output
    assert digests(stopped) == before


def test_damage_is_named_with_file_entries_and_topic(
    stopped: Path, make_broker: Callable[..., RunningBroker]
) -> None:
    running = RunningBroker(stopped).start()
    running.stop()  # brings everything to segment files
    name = rot(stopped).relative_to(stopped)
    result = run(stopped)
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if str(name) in line]
    assert TOPIC in line and "0-0" in line
    assert "1 damaged, 1 entries lost" in result.output
    result = run(stopped, "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    (problem,) = found["problems"]
    assert (problem["file"], problem["topic"], problem["entries"]) == (str(name), TOPIC, 1)
    assert found["damaged"] is True and found["checked"]["topics"] == 1


def test_a_directory_in_use_cannot_be_checked(broker: RunningBroker) -> None:
    result = run(broker.data_dir)
    assert result.exit_code == 2
    assert f"in use by process {broker.pid}" in result.output


def test_a_rotten_database_is_damage(stopped: Path) -> None:
    for path in stopped.glob("metadata.db*"):
        content = bytearray(path.read_bytes())
        content[:100] = bytes(100)
        path.write_bytes(content)
    result = run(stopped)
    assert result.exit_code == 1
    assert "metadata.db" in result.output and "restore the database" in result.output


def test_what_is_no_directory_cannot_be_checked(tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere").exit_code == 2
    assert run(tmp_path).exit_code == 2


@pytest.mark.parametrize("directory", ["", "workers/1/", "workers/2/"])
def test_a_store_directory_in_use_prevents_the_check(tmp_path: Path, directory: str) -> None:
    disk = LocalDisk(str(tmp_path))
    directories.prepare(disk, 3)
    lock = disk.lock(f"{directory}LOCK")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f"in use by process {os.getpid()}" in result.output
    lock.close()
    result = run(tmp_path)
    assert result.exit_code == 1 and "metadata.db" in result.output


@pytest.fixture
async def offloaded(make_broker: Callable[..., RunningBroker], tmp_path: Path) -> Path:
    """The directory of a broker that was killed, with closed ledgers that are only objects."""
    place = tmp_path / "objects"
    place.mkdir()
    broker = make_broker(**OFFLOADING, fileSystemURI=f"file://{place}")
    async with connect(broker.service_url) as client:
        producer = await client.producer(TOPIC)
        for _ in range(5):
            await producer.send(PAYLOAD)
    await until(lambda: only_objects(tmp_path, broker.data_dir), "a ledger is only an object")
    broker.kill()
    return broker.data_dir


def only_objects(place: Path, data_dir: Path) -> list[Path]:
    """Return the objects whose ledgers have no file in the data directory."""
    files = {path.stem for path in data_dir.rglob("segments/*.seg")}
    found = place.glob("objects/*/*.seg")
    return [path for path in found if path.stem.partition("-")[0] not in files]


OFFLOADING = {
    "magnetarWorkers": "1",
    "managedLedgerOffloadDriver": "filesystem",
    "managedLedgerOffloadAutoTriggerSizeThresholdBytes": "0",
    "managedLedgerOffloadDeletionLagMs": "0",
    "managedLedgerMaxEntriesPerLedger": "2",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
}


def test_objects_are_checked_if_that_is_asked_for(offloaded: Path, tmp_path: Path) -> None:
    unchecked = run(offloaded)
    assert unchecked.exit_code == 0
    segments = r"(\d+) segments that are only in a store of objects"
    number = re.search(f"not checked: {segments}", unchecked.output)
    assert number is not None and int(number[1]) > 0
    for what in ("size", "all"):
        result = run(offloaded, f"--objects={what}")
        assert result.exit_code == 0, result.output
        checked = re.search(f"{segments} checked there", result.output)
        assert checked is not None and checked[1] == number[1]
    only_objects(tmp_path, offloaded)[0].unlink()
    damaged = run(offloaded, "--objects=size", "--json")
    assert damaged.exit_code == 1
    (problem,) = json.loads(damaged.output)["problems"]
    assert problem["text"] == "the object does not exist"
    assert problem["topic"] == TOPIC and problem["entries"] > 0
