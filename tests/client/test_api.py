"""What `import magnetar` offers, and what it costs those who do not use it."""

import subprocess
import sys

import pytest

import magnetar
from magnetar import api


def test_every_public_name() -> None:
    for name in api.__all__:
        assert getattr(magnetar, name) is getattr(api, name)
    assert set(api.__all__) <= set(dir(magnetar))
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = magnetar.nothing_of_this_name


def test_all_names_at_once() -> None:
    names: dict[str, object] = {}
    exec("from magnetar import *", names)
    assert set(api.__all__) <= set(names)


@pytest.mark.parametrize(
    ("entry", "spared"),
    [
        ("magnetar.cli", {"asyncio", "magnetar.client", "google.protobuf"}),
        ("magnetar_broker.cli", {"magnetar", "magnetar_broker.server"}),
        (
            "magnetar_broker.server.processes.daemon",
            {"magnetar", "aiohttp", "prometheus_client", "snappy", "lz4", "zstandard"},
        ),
    ],
)
def test_a_start_imports_only_what_it_needs(entry: str, spared: set[str]) -> None:
    script = f"import sys, {entry}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert spared & set(found.stdout.split()) == set()


@pytest.mark.parametrize("command", ["tokens", "certs", "init"])
def test_help_needs_no_cryptography(command: str) -> None:
    script = (
        "import sys; from magnetar.cli import main\n"
        f"try: main(['{command}', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(found.stdout.splitlines()[-1].split())
    heavy = {"cryptography", "jwt", "asyncio", "ssl", "magnetar.client", "google.protobuf"}
    assert not heavy & loaded
