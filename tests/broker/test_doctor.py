"""`magnetar doctor`: it finds and names each fault, with a remedy."""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest

from certificates import Authority, Files
from fakes.waiting import until
from magnetar_broker.commands.checks.disk import kind_of, of_kind
from magnetar_storage.local import layout
from magnetar_storage.runtime.disk import LocalDisk
from official import connect
from running_broker import RunningBroker

COMMAND = str(Path(sys.executable).with_name("magnetar"))
MOUNTS = """\
/dev/vda1 / ext4 rw 0 0
server:/share /mnt/with\\040blank nfs4 rw 0 0
tmpfs /mnt tmpfs rw 0 0
"""


def doctor(
    *arguments: str, prepare: Callable[[], None] | None = None
) -> tuple[int, list[dict[str, Any]]]:
    result = subprocess.run(
        [COMMAND, "doctor", "--json", *arguments],
        capture_output=True, text=True, timeout=120, check=False, preexec_fn=prepare,
    )  # fmt: skip
    assert result.stdout, result.stderr
    answer = json.loads(result.stdout)
    assert answer["ok"] == (result.returncode == 0) or "--strict" in arguments
    for finding in answer["findings"]:
        assert finding["remedy"] or finding["level"] in ("ok", "note"), finding
    return result.returncode, answer["findings"]


def configured(tmp_path: Path, *lines: str, port: int = 0) -> str:
    path = tmp_path / "broker.conf"
    own = [f"brokerServicePort={port}", "webServicePort=0"]
    path.write_text("\n".join([*own, f"magnetarDataDirectory={tmp_path / 'data'}", *lines]))
    return str(path)


def texts(findings: list[dict[str, Any]], *levels: str) -> str:
    return "\n".join(
        f"{one['subject']}: {one['text']}" for one in findings if one["level"] in levels
    )


def test_files_of_tls_are_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    def found(files: Files) -> str:
        lines = (
            "brokerServicePortTls=0",
            f"tlsCertificateFilePath={files.certificate}",
            f"tlsKeyFilePath={files.key}",
        )
        return texts(doctor("--conf", configured(tmp_path, *lines))[1], "ok", "warning", "error")

    good, other = authority.server("localhost"), authority.server("localhost")
    assert "fits its key, and is valid for 89 days" in found(good)
    assert "expires in 9 days" in found(authority.server("localhost", days=10))
    assert "has expired" in found(authority.server("localhost", days=-1))
    assert "it is not the key of the certificate" in found(Files(good.certificate, other.key))
    os.chmod(good.key, 0o644)
    assert "every user of this machine can read or change" in found(good)


def test_nothing_is_wrong_with_a_new_directory(tmp_path: Path) -> None:
    code, found = doctor("--conf", configured(tmp_path))
    assert code == 0
    assert not texts(found, "error")
    subjects = {one["subject"] for one in found}
    assert {"configuration", "brokerServicePort=0", "clock", "disk", "open files"} <= subjects
    assert not (tmp_path / "data").exists(), "nothing is created"


def test_little_room(tmp_path: Path) -> None:
    code, found = doctor("--conf", configured(tmp_path, "magnetarDiskFreeLimit=99%"))
    assert code == 1
    assert "are to stay free (magnetarDiskFreeLimit)" in texts(found, "error")
    code, found = doctor("--conf", configured(tmp_path, "magnetarDiskFreeLimit=0"))
    assert code == 0
    assert "magnetarDiskFreeLimit=0" in texts(found, "warning")


def test_configuration(tmp_path: Path) -> None:
    unknown = configured(tmp_path, "brokerServicePorts=1", "magnetarDurability=relaxed")
    code, found = doctor("--conf", unknown)
    assert code == 0
    warnings = texts(found, "warning")
    assert "did you mean brokerServicePort?" in warnings
    assert "magnetarDurability: relaxed" in warnings
    assert doctor("--conf", unknown, "--strict")[0] == 1
    low, high = "Min", "Max"
    wrong = [
        f"managedLedger{low}LedgerRolloverTimeMinutes=9",
        f"managedLedger{high}LedgerRolloverTimeMinutes=8",
    ]
    code, found = doctor("--conf", configured(tmp_path, *wrong))
    assert (code, len(found)) == (1, 1)
    assert "expected at least" in texts(found, "error")
    code, found = doctor("--conf", str(tmp_path / "missing.conf"))
    assert code == 1 and "No such file" in texts(found, "error")


def test_keys_of_authentication_that_cannot_be_used(tmp_path: Path) -> None:
    on = ("authenticationEnabled=true", "authenticationProviders=token")
    for key in ("planted", "file:///no/such/file", "data:;base64,cGxhbnRlZA=="):
        code, found = doctor("--conf", configured(tmp_path, *on, f"tokenSecretKey={key}"))
        assert code == 1
        assert "tokenSecretKey: " in texts(found, "error")
        assert "planted" not in texts(found, "error")


def test_who_has_the_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, found = doctor("--conf", configured(tmp_path, port=port))
    assert code == 1
    assert f"brokerServicePort={port}: used by" in texts(found, "error")
    if sys.platform == "linux":
        assert f"process {os.getpid()} (" in texts(found, "error")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_broker_that_runs(make_broker: Callable[..., RunningBroker], workers: str) -> None:
    broker = make_broker(magnetarWorkers=workers)
    conf = broker.data_dir.parent / "broker.conf"
    conf.write_text(
        f"brokerServicePort={broker.port}\nwebServicePort={broker.http_port}\n"
        f"magnetarDataDirectory={broker.data_dir}\n"
    )
    code, found = doctor("--conf", str(conf))
    assert code == 0, found
    good = texts(found, "ok")
    at = f"used by the broker that runs at {broker.service_url}, process {broker.pid}"
    assert f"brokerServicePort={broker.port}: {at}" in good
    assert f"at {broker.http_url} publishes and consumes" in good
    assert "subscriptions: none is stalled" in good
    assert "not checked" in texts(found, "note")
    broker.stop()
    code, found = doctor("--conf", str(conf))
    assert code == 0, found
    assert "no damage" in texts(found, "ok")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_asks_the_broker_of_the_data_directory_and_no_other(
    make_broker: Callable[..., RunningBroker], broker: RunningBroker, workers: str
) -> None:
    mine = make_broker(magnetarWorkers=workers)
    conf = mine.data_dir.parent / "of_another.conf"
    conf.write_text(f"brokerServicePort={broker.port}\nwebServicePort={broker.http_port}\n")
    arguments = ("--conf", str(conf), "--data-dir", str(mine.data_dir))
    code, found = doctor(*arguments)
    assert code == 0, found
    assert f"at {mine.http_url} publishes and consumes" in texts(found, "ok")
    assert f"the broker that runs is at {mine.http_url}, process {mine.pid}" in texts(found, "note")
    assert broker.http_url not in texts(found, "ok", "note", "warning", "error")

    mine.kill()
    code, found = doctor(*arguments)
    assert code == 1, "the ports of this configuration are used"
    assert "broker: none runs on" in texts(found, "note")
    assert "has ended without a stop" in texts(found, "note")
    assert "publishes and consumes" not in texts(found, "ok")

    mine.start()
    mine.stop()
    _, found = doctor(*arguments)
    assert "broker: none runs on" in texts(found, "note")
    assert "has ended without a stop" not in texts(found, "note")


def test_the_environment_names_no_other_broker(
    make_broker: Callable[..., RunningBroker],
    broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = make_broker()
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", broker.http_url)
    _, found = doctor("--data-dir", str(mine.data_dir))
    assert f"at {mine.http_url} publishes and consumes" in texts(found, "ok")
    _, found = doctor("--data-dir", str(mine.data_dir), "--admin-url", broker.http_url)
    assert f"at {broker.http_url} publishes and consumes" in texts(found, "ok")


def test_a_command_that_holds_the_directory_is_no_broker(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with closing(LocalDisk(str(directory)).lock(layout.LOCK_FILE)):
        code, found = doctor("--conf", configured(tmp_path))
    assert code == 0
    assert f"process {os.getpid()} holds {directory}" in texts(found, "warning")


async def test_a_stalled_subscription(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(maxUnackedMessagesPerConsumer="1")
    client = connect(broker.service_url)
    consumer = client.subscribe("t", "slow", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer("t", batching_enabled=False)
    for number in range(3):
        producer.send(b"%d" % number)
    consumer.receive()
    await until(lambda: "has sent nothing for" in broker.log, "the subscription is stalled")
    code, found = doctor("--data-dir", str(broker.data_dir))
    client.close()
    assert code == 0, found
    assert "1 stalled (unacked_consumer): slow of persistent://public/default/t" in texts(
        found, "warning"
    )


def test_damaged_data(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(magnetarWorkers="1")
    client = connect(broker.service_url)
    client.create_producer("t").send(b"payload " * 100)
    client.close()
    broker.stop()
    (segment,) = (
        file for file in broker.data_dir.glob("segments/*.seg") if file.stat().st_size > 800
    )
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"rot")
    code, found = doctor("--data-dir", str(broker.data_dir))
    assert code == 1
    assert f"1 damaged: segments/{segment.name}" in texts(found, "error")


def test_a_clock_that_is_behind_the_data(tmp_path: Path) -> None:
    journal = tmp_path / "data" / "journal"
    journal.mkdir(parents=True)
    file = journal / "0000000000000001.wal"
    file.touch()
    os.utime(file, (time.time() + 7200,) * 2)
    code, found = doctor("--conf", configured(tmp_path))
    assert code == 1
    assert "the data was written" in texts(found, "error")


def test_limits_and_permissions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data").chmod(0o755)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, min(hard, 1000)))

    code, found = doctor("--conf", configured(tmp_path), prepare=few_files)
    assert code == 0
    warnings = texts(found, "warning")
    assert "open files: the limit is 1000" in warnings
    assert "every user of this machine can read" in warnings


def test_a_broker_that_is_not_there(tmp_path: Path) -> None:
    code, found = doctor("--conf", configured(tmp_path), "--admin-url", "http://127.0.0.1:1")
    assert code == 0
    assert "cannot reach the broker" in texts(found, "warning")


def test_people_see_the_remedy_below_each_finding(tmp_path: Path) -> None:
    result = subprocess.run(
        [COMMAND, "doctor", "--conf", configured(tmp_path, "nonsense=1")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = result.stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("WARN  configuration"))
    assert "nonsense" in lines[at] and "-> change or remove it" in lines[at + 1]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/", "ext4"),
        ("/mnt/x", "tmpfs"),
        ("/mnt/with blank/x", "nfs4"),
        ("/mntx", "ext4"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert kind_of(path, MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "level", "words"),
    [
        ("nfs4", "warning", "is on a network file system (nfs4)"),
        ("fuse.sshfs", "warning", "is on a network file system (fuse.sshfs)"),
        ("tmpfs", "warning", "is in memory (tmpfs)"),
        ("ext4", "note", "the file system is ext4"),
    ],
)
def test_what_a_file_system_means_for_the_data(kind: str, level: str, words: str) -> None:
    (finding,) = of_kind("/data", kind)
    assert finding.level == level
    assert words in finding.text
