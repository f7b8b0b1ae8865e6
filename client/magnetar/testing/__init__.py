"""A real broker for tests: a separate process, on free ports, with temporary data.

async with Broker() as broker:
    async with magnetar.connect(broker.service_url) as client:
        ...

pytest has the fixtures `pulsar_broker` and `pulsar_url` without further configuration.
"""

import asyncio
import os
import re
import subprocess  # nosec B404
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

STOP_S = 30.0
COMMAND = (sys.executable, "-c", "from magnetar.cli import main; main()")
LAST_LINE = "  durability"
"""The beginning of the last line that a broker prints when it is ready."""
ADDRESS = re.compile(r"^  (clients|HTTP) +\S+?:(?://)?\S*?(\d+)$", re.MULTILINE)


class BrokerNotStarted(Exception):
    """The broker ended, or was not ready in time; the text has its output."""


class Broker:
    """Starts a broker with `with`, `async with` or `start`, and waits until clients can connect.

    `data_dir` is kept if it is given, so that another Broker finds its data; else it is a
    temporary directory.  `settings` are keys of the broker's configuration.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._settings = dict(settings or {})
        self._start_timeout_s = start_timeout_s
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._log_path: Path | None = None
        self.port = 0
        """The port of the binary protocol; chosen at the first start, and kept."""
        self.http_port = 0

    @property
    def service_url(self) -> str:
        """The URL at which clients connect."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        """The URL of the admin API."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        """The process id of the broker; ValueError if it does not run."""
        if self._process is None:
            raise ValueError("the broker does not run: start it first")
        return self._process.pid

    @property
    def log(self) -> str:
        """The log of the broker so far."""
        if self._log_path is None or not self._log_path.exists():
            return ""
        return self._log_path.read_text(errors="replace")

    def start(self) -> Self:
        """Start the broker, and wait until it is ready; BrokerNotStarted has the reason if not."""
        if self._process is not None:
            return self
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="magnetar-test-")
        folder = Path(self._temporary.name)
        self._log_path = folder / "broker.log"
        arguments = [
            *COMMAND, "standalone",
            "--data-dir", str(self._data_dir or folder / "data"),
            "--port", str(self.port), "--http-port", str(self.http_port),
        ]  # fmt: skip
        prefixed = {f"PULSAR_PREFIX_{key}": value for key, value in self._settings.items()}
        with self._log_path.open("a") as log:
            # The command of this installation, without a shell.
            self._process = subprocess.Popen(  # nosec B603
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | prefixed,
            )
        banner = self._banner(self._process)
        ports = {name: int(port) for name, port in ADDRESS.findall(banner)}
        if LAST_LINE not in banner or len(ports) != 2:
            self.kill()
            raise BrokerNotStarted(
                f"the broker was not ready within {self._start_timeout_s:g} s, or ended:\n"
                f"{banner}{self.log}"
            )
        self.port, self.http_port = ports["clients"], ports["HTTP"]
        return self

    def _banner(self, process: "subprocess.Popen[str]") -> str:
        # A broker that hangs is killed, which ends the reading.
        watchdog = threading.Timer(self._start_timeout_s, process.kill)
        watchdog.start()
        lines: list[str] = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line.startswith(LAST_LINE):
                    break
        finally:
            watchdog.cancel()
        return "".join(lines)

    def stop(self) -> None:
        """Stop the broker gracefully; `start` starts it again with the same data and ports."""
        self._end(kill=False)

    def kill(self) -> None:
        """Kill the broker, as in a crash; `start` starts it again with the same data and ports."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def close(self) -> None:
        """Stop the broker, and delete temporary data."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *about: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *about: object) -> None:
        await asyncio.to_thread(self.close)
