"""The number of workers that a broker starts, and the imports of its processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.server.processes.start import (
    usable_cores,
    warning_of_few_bundles,
    warning_of_offload_place,
    worker_count,
)


def test_a_broker_is_one_process_unless_told_otherwise() -> None:
    assert worker_count(Settings()) == 1
    assert worker_count(Settings(magnetar_workers=3)) == 3


def test_auto_is_as_many_as_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert worker_count(Settings(magnetar_workers="auto")) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(200)))
    assert worker_count(Settings(magnetar_workers="auto")) == 64


def test_where_the_system_does_not_tell_all_cores_are_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_fewer_bundles_than_workers_are_warned_of() -> None:
    assert warning_of_few_bundles(Settings(), 8) is None
    assert warning_of_few_bundles(Settings(default_number_of_namespace_bundles=4), 4) is None
    warning = warning_of_few_bundles(Settings(default_number_of_namespace_bundles=4), 5)
    assert warning is not None
    assert warning.startswith("defaultNumberOfNamespaceBundles=4: at most 4 of the 5 workers")


def test_a_place_that_cannot_be_used_is_warned_of(tmp_path: Path) -> None:
    assert warning_of_offload_place(Settings()) == ""
    settings = Settings(
        managed_ledger_offload_driver=OffloadDriver.FILES, file_system_uri=f"file://{tmp_path}/x"
    )
    warning = warning_of_offload_place(settings)
    assert warning.startswith("ledgers cannot be offloaded: file:///")
    (tmp_path / "x").mkdir()
    assert warning_of_offload_place(settings) == ""


@pytest.mark.parametrize(
    ("module", "are_loaded"), [("processes.daemon", False), ("processes.controller", True)]
)
def test_what_only_requests_need_is_loaded_before_a_fork_else_with_the_first_request(
    module: str, are_loaded: bool
) -> None:
    program = (
        f"import sys, magnetar_broker.server.{module}; print(*("
        "f'magnetar_broker.{name}' in sys.modules "
        "for name in ('metrics.prometheus', 'server.admin.routes')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert ran.stdout.decode().split() == [str(are_loaded)] * 2


def test_a_request_of_the_admin_api_loads_the_module_that_answers_it_and_no_other() -> None:
    modules = ("brokers.clusters", "topics", "openapi")
    program = (
        "import sys\n"
        "from magnetar_broker.server.admin.routes import NamedHandler\n"
        "def loaded(): return [f'magnetar_broker.server.admin.{name}' in sys.modules "
        f"for name in {modules}]\n"
        "before = loaded()\n"
        "NamedHandler('brokers.clusters.clusters').load()\n"
        "print(*before, *loaded())"
    )
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert ran.stdout.decode().split() == [*["False"] * 3, "True", "False", "False"]


def test_the_first_requests_load_no_libraries_that_they_do_not_use() -> None:
    program = (
        "import sys, magnetar_broker.server.processes.daemon, magnetar_broker.server.admin.routes, "
        "magnetar_broker.metrics.prometheus\n"
        "from magnetar_broker.metrics.process import process_part\n"
        "from magnetar_broker.server.runtime.ports import bound\n"
        "assert process_part('c') and bound('localhost', 0)\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    libraries = {
        "prometheus_client", "urllib.request", "http.server", "snappy", "cramjam", "lz4",
        "zstandard", "re2", "difflib", "logging.handlers", "encodings.idna",
    }  # fmt: skip
    assert not libraries & set(ran.stdout.decode().split())


@pytest.mark.parametrize(
    "module",
    ["processes.daemon", "processes.controller", "processes.worker", "clients.authentication"],
)
def test_libraries_of_authentication_are_loaded_where_it_is_on_only(module: str) -> None:
    program = (
        f"import sys, magnetar_broker.server.{module}; print(*("
        "name for name in ('jwt', 'cryptography', 'passlib') if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert not ran.stdout.split()
