"""The servers under measurement: processes on free loopback ports, and what they use."""

import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
MIB = 1 << 20
STOP_SECONDS = 60
SERVICE_URL = re.compile(r"^  clients +pulsar://[^:]+:(\d+)$", re.MULTILINE)
LAST_BANNER_LINE = "  durability"


def magnetar_command(data_dir: Path) -> list[str]:
    """The daemon as it is installed, with its defaults."""
    magnetar = str(Path(sys.executable).with_name("magnetar"))
    ports = ["--port", "0", "--http-port", "0"]
    return [magnetar, "standalone", *ports, "--data-dir", str(data_dir)]


def floor_command(data_dir: Path) -> list[str]:
    """See `bench.floor`."""
    return [sys.executable, "-m", "bench.floor", "--data-dir", str(data_dir)]


COMMANDS = {"magnetar": magnetar_command, "floor": floor_command}
"""What is measured side by side, in the order of the table."""


@dataclass(frozen=True)
class Usage:
    """Of a process and its children; CPU since their start."""

    cpu_s: float
    rss_mib: float
    uss_mib: float
    """What would be free if they ended."""


class Server:
    """One server on a data directory of its own; restart it to have it read its files."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir.absolute()
        self.port = 0
        self.start_ms = 0.0
        """From the start of the process to its saying that it is ready."""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _log_path(self) -> Path:
        return self.data_dir.with_suffix(".log")

    def start(self) -> None:
        """Return when clients can connect; RuntimeError if the server ends instead."""
        command = COMMANDS[self.name](self.data_dir)
        began = time.perf_counter()
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        banner = self._read_banner(self._process)
        self.start_ms = (time.perf_counter() - began) * 1000
        url = SERVICE_URL.search(banner)
        if url is None:
            self._process.communicate(timeout=STOP_SECONDS)
            self._process = None
            raise RuntimeError(f"{self.name} did not start: {banner}{self._log_path.read_text()}")
        self.port = int(url[1])

    def _read_banner(self, process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(LAST_BANNER_LINE):
                break
        return "".join(lines)

    def stop(self) -> None:
        """SIGTERM and wait; RuntimeError unless it ends well."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        if process.returncode != 0:
            log = self._log_path.read_text()
            raise RuntimeError(f"{self.name} ended with {process.returncode}: {log}")

    def restart(self) -> None:
        """Stop in good order and start again, on another port."""
        self.stop()
        self.start()

    def usage(self) -> Usage:
        """What the server has used until now."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        parent = psutil.Process(self._process.pid)
        cpu = rss = uss = 0.0
        for process in (parent, *parent.children(recursive=True)):
            times, memory = process.cpu_times(), process.memory_full_info()
            cpu += times.user + times.system
            rss += memory.rss
            uss += memory.uss
        return Usage(cpu, rss / MIB, uss / MIB)
