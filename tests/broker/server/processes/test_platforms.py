"""The daemon on a system without Linux-specific features, and without uvloop.

The system is Linux with these features hidden; macOS itself is not tested here.
"""

import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import magnetar
from running_broker import RunningBroker

HIDE = """
import asyncio, fcntl, os, sys, urllib.request
for name in ("pwritev", "preadv", "fdatasync", "posix_fallocate", "posix_fadvise", "sendfile",
             "eventfd", "memfd_create", "pidfd_open", "sched_getaffinity", "O_DIRECT",
             "RWF_DSYNC", "RWF_SYNC", "RWF_APPEND"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):  # where it is there, it calls sched_getaffinity
    os.process_cpu_count = os.cpu_count
sys.modules["uvloop"] = None
"""
MACOS = """
F_FULLFSYNC = 51
linux = fcntl.fcntl
fcntl.fcntl = lambda fd, command, *more: (
    os.fsync(fd) if command == F_FULLFSYNC else linux(fd, command, *more)
)
sys.platform = "darwin"
"""


@pytest.fixture(params=["", MACOS], ids=["posix", "macos"])
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide these features from processes that are started from now on."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDE + request.param)
    paths = [str(hidden), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    if not request.param:
        monkeypatch.setenv("MAGNETAR_DISK_CALLS", "portable")


@pytest.mark.usefixtures("elsewhere")
async def test_a_broker_stores_delivers_and_recovers(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    assert "uvloop is not installed" in broker.log
    payloads = [b"small", b"x" * 3_000_000, b"last"]
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer("t")
        for payload in payloads:
            await producer.send(payload)
    broker.kill()
    broker.start()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe("t", "s", initial_position="earliest")
        assert [(await consumer.receive()).value for _ in payloads] == payloads
    with urllib.request.urlopen(f"{broker.http_url}/metrics/") as metrics:
        assert b"magnetar_" in metrics.read()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log
