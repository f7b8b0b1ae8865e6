"""Finding the process that holds a data directory, and whether its addresses are a broker's."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from magnetar_broker.commands.checks.holder import holder_of
from magnetar_broker.config import Settings
from magnetar_broker.server.data_directory import addresses
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_storage.local import layout
from magnetar_storage.runtime.disk import LocalDisk

PORTS = PortNumbers(clients=7001, clients_tls=None, http=7002, http_tls=None)


def of(data_dir: Path) -> Settings:
    return Settings(data_dir=str(data_dir))


def test_the_addresses_count_while_their_process_holds_the_lock(tmp_path: Path) -> None:
    settings = of(tmp_path)
    with closing(LocalDisk(str(tmp_path)).lock(layout.LOCK_FILE)):
        starting = holder_of(str(tmp_path))
        addresses.announce(settings, PORTS)
        running = holder_of(str(tmp_path))
    assert starting is not None and starting.addresses is None
    assert running is not None and running.addresses is not None
    assert (running.pid, running.addresses.admin_url) == (os.getpid(), "http://127.0.0.1:7002")
    assert running.addresses.clients == "pulsar://127.0.0.1:7001"
    assert holder_of(str(tmp_path)) is None, "the lock is free: nothing runs, whatever is written"
    addresses.forget(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["LOCK"]


def test_addresses_of_an_earlier_process_do_not_count(tmp_path: Path) -> None:
    addresses.announce(of(tmp_path), PORTS)
    file = tmp_path / addresses.FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"process": os.getppid()}))
    with closing(LocalDisk(str(tmp_path)).lock(layout.LOCK_FILE)):
        holder = holder_of(str(tmp_path))
    assert holder is not None
    assert (holder.pid, holder.addresses) == (os.getpid(), None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"process": 1}', "\x00"])
def test_a_file_that_is_not_whole_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / addresses.FILE).write_text(text)
    assert addresses.addresses_in(str(tmp_path)) is None


def test_a_broker_runs_without_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / addresses.FILE).mkdir()
    addresses.announce(of(tmp_path), PORTS)
    addresses.forget(str(tmp_path))
    assert "`magnetar doctor` does not find this broker" in caplog.text
    assert "cannot remove" in caplog.text


@pytest.mark.parametrize(
    ("bind", "advertised", "http", "https"),
    [
        ("0.0.0.0", None, "http://127.0.0.1:1", "https://127.0.0.1:2"),
        ("0.0.0.0", "host.example", "http://127.0.0.1:1", "https://host.example:2"),
        ("127.0.0.1", None, "http://127.0.0.1:1", "https://localhost:2"),
        ("::", None, "http://[::1]:1", "https://[::1]:2"),
        ("10.1.2.3", None, "http://10.1.2.3:1", "https://10.1.2.3:2"),
    ],
)
def test_addresses_are_those_for_this_machine(
    bind: str, advertised: str | None, http: str, https: str
) -> None:
    settings = Settings(bind_address=bind, advertised_address=advertised)
    found = addresses.addresses_of(settings, PortNumbers(None, 3, 1, 2))
    assert (found.http, found.http_tls, found.clients) == (http, https, "")
