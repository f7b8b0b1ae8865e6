"""Snapshots of a running broker: their contents, under load, and when the broker is killed."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from admin_http import Admin
from magnetar_broker.server.data_directory.snapshots import restoring
from magnetar_broker.server.data_directory.snapshots.files import MANIFEST, copy_file
from magnetar_storage.local import directories
from official import TIMEOUT_MS, connect, publish, take
from running_broker import RunningBroker

COMMAND = str(Path(sys.executable).with_name("magnetar"))
TOPICS = 6
MakeBroker = Callable[..., RunningBroker]
SMALL_LEDGERS = {
    "managedLedgerMaxEntriesPerLedger": "40",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
}
"""Settings with which ledgers are created, listed and deleted all the time."""


def magnetar(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def snapshot(broker: RunningBroker, name: str) -> Path:
    """Make a snapshot, and check every record in it."""
    made = magnetar("snapshot", name, "--admin-url", broker.http_url, "--json")
    assert made.returncode == 0, made.stderr + broker.log
    path = Path(json.loads(made.stdout)["path"])
    checked = magnetar("verify", str(path), "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return path


def restored(path: Path, target: Path, workers: int) -> RunningBroker:
    result = magnetar("restore", str(path), str(target))
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (target / MANIFEST).exists(), "it is a data directory, and no snapshot"
    return RunningBroker(target, magnetarWorkers=str(workers)).start()


class Load:
    """Publishes numbers to topics, acknowledges them, and records what was confirmed."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acked = 0
        self._producer = client.create_producer(topic)
        self._consumer = client.subscribe(
            topic, "s", initial_position=pulsar.InitialPosition.Earliest,
            consumer_type=pulsar.ConsumerType.Shared,
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.send(b"%d" % self.sent)
            self.sent += 1
            if self.sent % 3 == 0:
                message = self._consumer.receive(TIMEOUT_MS)
                self._consumer.acknowledge(message)
                self.acked = int(message.data()) + 1


def numbers_left(client: pulsar.Client, topic: str) -> list[int]:
    """Return the numbers that the subscription has still to receive, up to the end."""
    marker = client.create_producer(topic)
    marker.send(b"end")
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    found: list[int] = []
    while (data := consumer.receive(TIMEOUT_MS).data()) != b"end":
        found.append(int(data))
    consumer.close()
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_a_snapshot_under_load_has_all_that_was_acknowledged_before(
    make_broker: MakeBroker, tmp_path: Path, workers: int
) -> None:
    broker = make_broker(magnetarWorkers=str(workers), **SMALL_LEDGERS)
    client = connect(broker.service_url)
    loads = [Load(client, f"loaded-{number}") for number in range(TOPICS)]
    settled = client.subscribe("settled", "s", initial_position=pulsar.InitialPosition.Earliest)
    publish(client.create_producer("settled"), *(str(number) for number in range(10)))
    for message in take(settled, 4):
        settled.acknowledge(message)
    settled.close()  # which has the acknowledgements stored
    found: list[tuple[Path, list[int], list[int]]] = []
    try:
        for round_ in range(3):
            while min(load.sent for load in loads) < 150 * (round_ + 1):
                time.sleep(0.01)
            before = [load.sent for load in loads]
            path = snapshot(broker, f"round-{round_}")
            found.append((path, before, [load.acked for load in loads]))
    finally:
        for load in loads:
            load.stop()
        client.close()
    for number, (path, before, acked) in enumerate(found):
        copy = restored(path, tmp_path / f"copy-{number}", workers)
        client = connect(copy.service_url)
        try:
            for load, sent_before, acked_after in zip(loads, before, acked, strict=True):
                left = numbers_left(client, load.topic)
                assert left == list(range(left[0], left[-1] + 1)), "no gap, nothing twice"
                assert left[-1] + 1 >= sent_before, "all that was confirmed before"
                assert left[0] <= acked_after, "no acknowledgement that was not made"
            assert numbers_left(client, "settled") == list(range(4, 10))
        finally:
            client.close()
            copy.close()


def test_a_broker_on_the_snapshot_itself_changes_nothing_of_the_original(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(magnetarWorkers="1", **SMALL_LEDGERS)
    client = connect(broker.service_url)
    sent = [str(number) for number in range(100)]
    client.subscribe("t", "keeps them").close()
    producer = client.create_producer("t")
    last = publish(producer, *sent)[-1]
    path = snapshot(broker, "one")
    assert any(file.stat().st_nlink > 1 for file in (path / "segments").iterdir())
    copy = RunningBroker(path, magnetarWorkers="1").start()
    try:
        other = connect(copy.service_url)
        first = publish(other.create_producer("t"), *(f"other {one}" for one in sent))[0]
        assert first.ledger_id() > last.ledger_id() + 1000, "no message id is given twice"
        publish(producer, *(f"more {one}" for one in sent))
        other.close()
    finally:
        copy.close()
    refused = magnetar("restore", str(path), str(path.parent / "restored"))
    assert (refused.returncode, "not a complete snapshot" in refused.stderr) == (2, True)
    assert Admin(broker).get("brokers/snapshots").json == [], "it is no snapshot any more"
    client.close()
    broker.stop()
    for data in (path, broker.data_dir):
        checked = magnetar("verify", str(data))
        assert checked.returncode == 0, checked.stdout
    broker.start()
    client = connect(broker.service_url)
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    expected = [one.encode() for one in [*sent, *(f"more {one}" for one in sent)]]
    assert [reader.read_next(TIMEOUT_MS).data() for _ in expected] == expected
    client.close()


@pytest.mark.parametrize("moment", range(4))
def test_a_broker_that_is_killed_leaves_no_snapshot_that_looks_complete(
    make_broker: MakeBroker, tmp_path: Path, moment: int
) -> None:
    broker = make_broker(magnetarWorkers="1")
    client = connect(broker.service_url)
    for number in range(12):
        producer = client.create_producer(f"t-{number}")
        for _ in range(4):
            producer.send(os.urandom(1 << 20))
    client.close()
    directory = broker.data_dir / "snapshots"
    # At a different moment each time: before there are any files, and with some copied.
    while not kill_in_snapshot(broker, directory / "one", files=moment * 3):
        shutil.rmtree(directory / "one")
        broker.start()
    left = list(directory.iterdir()) if directory.exists() else []
    for path in left:
        assert path.name.endswith(".unfinished")
        assert not (path / "FORMAT").exists()
        refused = magnetar("restore", "--no-verify", str(path), str(tmp_path / "copy"))
        assert refused.returncode == 2
        assert "not a complete snapshot" in refused.stderr
        if not any(one.is_file() for one in path.rglob("*")):
            continue  # killed before the first file: an empty directory is no data of anybody
        on_it = RunningBroker(shutil.copytree(path, tmp_path / path.name))
        try:
            assert not on_it.try_start()
            assert "FORMAT" in on_it.log
        finally:
            on_it.close()
    broker.start()
    assert Admin(broker).get("brokers/snapshots").json == []
    assert not list(broker.data_dir.glob("snapshots/*")), "the start removes what was left"
    assert not list(broker.data_dir.glob("snapshot-*"))
    assert snapshot(broker, "one") == directory / "one"


def test_a_worker_that_is_killed_fails_the_snapshot_and_the_next_one_is_made(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(magnetarWorkers="2")
    client = connect(broker.service_url)
    for number in range(8):
        client.create_producer(f"t-{number}").send(os.urandom(4 << 20))
    admin = Admin(broker)
    admin.post("brokers/snapshots/one")
    kill_a_worker(broker)
    state = ended(admin, "one")
    if state["status"] == "SUCCESS":  # it was complete before
        shutil.rmtree(state["path"])
    else:
        assert "worker-0" in state["error"]
        of_the_other = broker.data_dir / directories.name_of(1)
        assert not list(of_the_other.glob("snapshot-*")), "what it had gathered is removed"
    client.create_producer("t-after").send(b"x")
    until_every_worker_is_there(admin)
    snapshot(broker, "two")
    client.close()


def kill_in_snapshot(broker: RunningBroker, path: Path, files: int) -> bool:
    """Kill the broker when `files` files are copied; tell whether the snapshot was incomplete."""
    begun = Admin(broker).post(f"brokers/snapshots/{path.name}")
    assert (begun.status, begun.json["status"]) == (202, "RUNNING")
    while sum(1 for _ in path.parent.glob("*/segments/*")) < files and not path.exists():
        pass
    broker.kill()
    return not path.exists()


def kill_a_worker(broker: RunningBroker) -> None:
    line = next(one for one in broker.log.splitlines() if "worker-0 is process" in one)
    os.kill(int(line.rpartition(" ")[2]), 9)


def until_every_worker_is_there(admin: Admin) -> None:
    while admin.get("brokers/health").status != 200:
        time.sleep(0.05)


def ended(admin: Admin, name: str) -> dict[str, Any]:
    while (state := admin.get(f"brokers/snapshots/{name}").json)["status"] == "RUNNING":
        time.sleep(0.02)
    return dict(state)


def test_on_another_file_system_everything_is_copied(make_broker: MakeBroker) -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("there is no other file system to write to")
    target = shm / f"magnetar-test-{os.getpid()}"
    try:
        broker = make_broker(magnetarSnapshotDirectory=str(target), **SMALL_LEDGERS)
        client = connect(broker.service_url)
        publish(client.create_producer("t"), *map(str, range(100)))
        client.close()
        path = snapshot(broker, "one")
        assert path == target / "one"
        assert all(file.stat().st_nlink == 1 for file in (path / "segments").iterdir())
    finally:
        shutil.rmtree(target, ignore_errors=True)


def test_an_interrupted_restore_leaves_nothing_that_a_broker_starts_on(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = snapshot(broker, "interrupted")
    every = [file for file in path.rglob("*") if file.is_file()]
    files = [file for file in every if file.name not in restoring.LEFT_OUT]
    for copied in range(0, len(files), 1 + len(files) // 4):
        target = tmp_path / f"copy-{copied}"
        left = iter(range(copied))

        def copy_some(source: str, target: str, length: int, stopped: threading.Event) -> None:
            if next(left, None) is None:  # noqa: B023 (called before the next turn)
                raise OSError("interrupted")
            copy_file(source, target, length, stopped)

        monkeypatch.setattr(restoring, "copy_file", copy_some)
        with pytest.raises(OSError, match="interrupted"):
            restoring.restored(str(path), str(target))
        on_it = RunningBroker(target)
        assert not on_it.try_start()
        assert "FORMAT" in on_it.log
        on_it.close()


def test_refusals(broker: RunningBroker, tmp_path: Path) -> None:
    admin = Admin(broker)
    for name in ("..", "a%2Fb", ".hidden", "one.unfinished", "%00", "x" * 101):
        answer = admin.post(f"brokers/snapshots/{name}")
        assert answer.status == 412, name
        assert "letters, digits" in answer.reason
    assert admin.get("brokers/snapshots/missing").status == 404
    path = snapshot(broker, "there")
    again = magnetar("snapshot", "there", "--admin-url", broker.http_url)
    assert (again.returncode, "choose another name" in again.stderr) == (1, True)
    listed = magnetar("snapshot", "--list", "--admin-url", broker.http_url)
    assert str(path) in listed.stdout
    away = magnetar("snapshot", "--admin-url", "http://127.0.0.1:1")
    assert (away.returncode, "cannot reach the broker" in away.stderr) == (1, True)
    full = magnetar("restore", str(path), str(tmp_path.parent))
    assert (full.returncode, "is not empty" in full.stderr) == (2, True)


def test_a_damaged_snapshot_is_not_restored(broker: RunningBroker, tmp_path: Path) -> None:
    client = connect(broker.service_url)
    client.create_producer("for-damage").send(b"payload " * 100)
    client.close()
    path = tmp_path / "copy"
    shutil.copytree(snapshot(broker, "damaged"), path)
    largest = max(path.glob("**/*.seg"), key=lambda file: file.stat().st_size)
    with largest.open("r+b") as file:
        file.seek(60)
        file.write(b"rot")
    refused = magnetar("restore", str(path), str(tmp_path / "new"))
    assert (refused.returncode, "nothing was restored" in refused.stderr) == (1, True)
    assert not (tmp_path / "new").exists()
    forced = magnetar("restore", "--no-verify", str(path), str(tmp_path / "new"))
    assert forced.returncode == 0
