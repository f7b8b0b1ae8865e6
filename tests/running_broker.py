"""The real daemon, in a process of its own, for tests to drive, kill and start again."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.request import urlopen

import psutil

from ports import free_ports

STOP_SECONDS = 300
"""What takes longer never ends: a broker kills its processes after a minute."""
CLIENTS = re.compile(r"^  clients +(\S+)$", re.MULTILINE)
HTTP = re.compile(r"^  HTTP +(\S+)$", re.MULTILINE)
DOWN = re.compile(r'^magnetar_workers{.*state="down".*} [1-9]', re.MULTILINE)
WITHOUT_TRIMMING = {"retentionCheckIntervalInSeconds": "86400"}
"""Unless a test sets another interval, no segment is deleted while it runs.

Readers hold no messages back: the check deletes those of a sealed segment, such as an unload or a
restart leaves, even if a connected reader has not received them yet.
"""


class Stores(Protocol):
    """Stores that brokers share (tests/remote_data.py)."""

    def settings_of(self, data_dir: Path) -> dict[str, str]:
        """Return the settings with which a broker has its data there."""


class RunningBroker:
    """Starts on free ports; a restart keeps them, so that clients find the broker again."""

    workers: ClassVar[int] = 1
    """`magnetarWorkers` where a test does not set it: `pytest --broker-workers`."""

    stores: ClassVar[Stores | None] = None
    """The stores in which the data is instead of the directory: `--broker-metadata`."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        defaults = WITHOUT_TRIMMING | {"magnetarWorkers": str(self.workers)}
        elsewhere = self.stores.settings_of(data_dir) if self.stores else {}
        self.settings = defaults | elsewhere | settings
        self.port, self.http_port = free_ports(2)
        self.conf: Path | None = None
        """A configuration file; `settings` take precedence over it."""
        self.banner = ""
        self.log_path = data_dir.parent / f"{data_dir.name}.log"
        self._log_before = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def service_url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def tls_url(self) -> str:
        """Of the binary protocol over TLS."""
        return self._url("clients", "pulsar+ssl")

    @property
    def https_url(self) -> str:
        return self._url("HTTP", "https")

    def _url(self, line: str, scheme: str) -> str:
        found = re.search(rf"^  {line} +({re.escape(scheme)}://\S+)$", self.banner, re.MULTILINE)
        assert found is not None, self.banner
        return found[1]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def memory_kib(self) -> int:
        """Memory that all processes of the daemon have at the moment."""
        main = psutil.Process(self.pid)
        return sum(one.memory_info().rss for one in (main, *main.children())) >> 10

    @property
    def metrics(self) -> str:
        """The page for Prometheus, once it has all processes: one that is slow is left out."""
        while True:
            with urlopen(f"{self.http_url}/metrics/", timeout=STOP_SECONDS) as answer:
                page = str(answer.read().decode())
            if not DOWN.search(page):
                return page

    @property
    def log(self) -> str:
        """What the daemon wrote to its log so far, over all starts."""
        return self.log_path.read_text()

    @property
    def log_of_start(self) -> str:
        """What was written since the last start began.

        Processes of the start before, which may still be ending, write to it as well.
        """
        return self.log[self._log_before :]

    def start(self) -> "RunningBroker":
        """Start and wait until the daemon reports that it is ready.

        If it cannot start, nothing is left of it that would fail another test.
        """
        try:
            assert self.try_start(), self.banner + self.log
        except BaseException:
            self.close()
            raise
        return self

    def try_start(self) -> bool:
        """Start and wait until the daemon is ready (True) or has ended, as its log explains."""
        self.begin()
        self.banner = self._read_banner()
        clients, http = CLIENTS.search(self.banner), HTTP.search(self.banner)
        if clients is None or http is None:
            return False
        self.port = int(clients[1].rsplit(":", 1)[1])
        self.http_port = int(http[1].rsplit(":", 1)[1])
        return True

    def begin(self) -> None:
        """Start without waiting; `kill` may follow before it has even recovered."""
        if self._process is not None:
            with self._process:  # it has ended by itself
                pass
        command = [
            str(Path(sys.executable).with_name("magnetar")), "standalone",
            "--data-dir", str(self.data_dir),
            "--http-port", str(self.http_port),
        ]  # fmt: skip
        if "brokerServicePort" not in self.settings:
            command += ["--port", str(self.port)]
        if self.conf is not None:
            command += ["--conf", str(self.conf)]
        prefixed = {f"PULSAR_PREFIX_{key}": value for key, value in self.settings.items()}
        self._log_before = len(self.log) if self.log_path.exists() else 0
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | prefixed,
                start_new_session=True,  # so that `kill` reaches all processes of a broker
            )

    def _read_banner(self) -> str:
        """Lines until the banner is complete; the process may end instead."""
        assert self._process is not None and self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith("  durability"):
                break
        return "".join(lines)

    def kill(self) -> None:
        """SIGKILL to all its processes: nothing is closed, nothing is written."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def reload(self) -> None:
        """Ask it to read its configuration again; what follows is in its log."""
        os.kill(self.pid, signal.SIGHUP)

    def stop(self) -> int:
        """SIGTERM, and wait for a graceful end; returns the exit code."""
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended by itself; returns the exit code."""
        process, self._process = self._process, None
        assert process is not None
        process.communicate(timeout=STOP_SECONDS)
        return process.returncode

    def restart(self) -> "RunningBroker":
        """Stop gracefully and start again on the same ports."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End the daemon if it still runs."""
        if self._process is not None:
            self.stop()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return process.returncode
