"""Servers of objects for tests: moto in a thread, and versitygw, which is built with Go."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fakes.waiting import LOOK_SECONDS
from ports import free_ports

VERSITYGW: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
"""A server that keeps the conditions of writes; v1.7 and earlier let several creators win."""
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "versitygw"

BUCKET: Final = "bucket"
KEY, SECRET = "test-key", "test-secret"


def use_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the credentials of both servers, and none of those that the machine may have."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def place_at(endpoint: str, prefix: str) -> str:
    """Return the place for objects under a prefix of the bucket."""
    return f"s3://{BUCKET}/{prefix}?endpoint={endpoint}&region=us-east-1"


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """Run moto's server in a thread of this process, with a bucket; yields its endpoint."""
    from moto.server import ThreadedMotoServer  # it takes a second

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()
        yield endpoint
    finally:
        server.stop()


def why_no_versitygw() -> str:
    """Return why versitygw cannot be built, or "" if it can."""
    return "" if shutil.which("go") else "versitygw is built with Go, which is not installed"


def built_versitygw() -> Path:
    """Build the server unless it was built before: it takes a minute or two."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / VERSITYGW.rpartition("@")[2]
    program = folder / "versitygw"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if not program.exists():
            built = subprocess.run(
                ["go", "install", VERSITYGW],
                check=False,
                env=os.environ | {"GOBIN": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if built.returncode:
                raise RuntimeError(f"building versitygw failed:\n{built.stdout}")
    return program


class Versitygw:
    """versitygw over a directory, on a port that it keeps when it is started again."""

    def __init__(self, directory: Path) -> None:
        (directory / BUCKET).mkdir(parents=True, exist_ok=True)
        (self._port,) = free_ports(1)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        process = self._process = subprocess.Popen(
            [built_versitygw(), "--quiet", "--port", f"127.0.0.1:{self._port}", "posix",
             self._directory],
            env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not _answers(self.endpoint):
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise RuntimeError(f"versitygw has ended with {process.wait(LOOK_SECONDS)}")

    def kill(self) -> None:
        """End it with SIGKILL, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def suspend(self) -> None:
        """Let it accept connections, and answer nothing until `go_on`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def versitygw(directory: Path) -> Iterator[str]:
    """Run versitygw over a directory, with a bucket; yields its endpoint."""
    server = Versitygw(directory)
    try:
        server.start()
        yield server.endpoint
    finally:
        server.kill()


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint).close()
    except urllib.error.HTTPError:
        return True  # it wants credentials
    except OSError:
        return False
    return True
