"""The servers under measurement: processes on free loopback ports."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.usage import MIB, family, memory

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 60
HEALTH_SECONDS = 60
LOOK_SECONDS = 0.002
LOG_SHOWN = 2000
"""The characters of a server's log that an error shows."""
HEALTH = "/admin/v2/brokers/health"


class Server(ABC):
    """A server with its own data directory; it can be started again after a stop."""

    title: str
    """The name of the server in tables."""
    quick = True
    """Whether the server has full speed at once.  Else it is started once for many rows, warmed up,
    and suspended while others are measured."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self.port = self.http_port = self.pid = 0
        self.started_at = 0.0
        """The start time of the process, in seconds of `time.perf_counter`."""
        self.healthy_ms = 0.0
        """The milliseconds from the start until the server reported that it was ready."""

    def __enter__(self) -> "Server":
        try:
            self.start()
        except BaseException:  # such as SIGTERM: a half started server is not left behind
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, and wait until it is healthy; RuntimeError if it ends instead."""
        self.started_at = time.perf_counter()
        self._start()
        self.healthy_ms = (time.perf_counter() - self.started_at) * 1000

    @abstractmethod
    def _start(self) -> None:
        """Start the process, wait until it is healthy, and set port and pid."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server if it runs; RuntimeError if it ends with an error."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait for its end."""

    @property
    def url(self) -> str:
        """The service URL for clients."""
        return f"pulsar://127.0.0.1:{self.port}"

    def restart(self) -> None:
        """Stop the server, and start it again on the same data."""
        self.stop()
        self.start()

    def renew(self) -> None:
        """Stop the server, and start it on an empty directory."""
        self.stop()
        shutil.rmtree(self.data_dir)
        self.start()

    def forget(self, topic: str) -> None:
        """Remove a topic from the server's memory."""
        self.restart()

    def deduplicate(self, topic: str) -> None:
        """Switch on deduplication for an existing topic."""
        path = f"/admin/v2/{topic.replace('://', '/')}/deduplicationEnabled"
        status, _ = request(self.http_port, "POST", path, "true")
        if status != http.HTTPStatus.NO_CONTENT:
            raise RuntimeError(f"deduplication was not switched on: {status}")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Use these settings from the next start; RuntimeError if the server has no settings."""
        raise RuntimeError(f"{self.title} has no setting {', '.join(settings)}")

    def stand_still(self) -> None:
        """Suspend the server until `go_on`, so that it uses no CPU."""
        for process in family(self.pid):
            process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the server; returns when it works again."""
        for process in family(self.pid):
            process.send_signal(signal.SIGCONT)

    def live_mib(self) -> float:
        """Return the memory in use."""
        return memory(self.pid).rss

    def stored_bytes(self) -> int:
        """Return the bytes stored on disk."""
        files = (path for path in self.data_dir.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)


class ChildServer(Server):
    """A child process of the benchmark that prints its addresses on standard output.

    Its errors go to a file beside its data.
    """

    SERVICE_URL = re.compile(r"^  clients +pulsar://[^:]+:(\d+)$", re.MULTILINE)
    HTTP_URL = re.compile(r"^  HTTP +http://[^:]+:(\d+)$", re.MULTILINE)
    LAST_LINE = "  durability"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that starts the server, with its options."""

    @property
    def _log_path(self) -> Path:
        return self.data_dir.with_suffix(".log")

    def _start(self) -> None:
        with self._log_path.open("a") as log:
            self._process = process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | self.environment,
            )
        self.pid = process.pid
        banner = self._read_banner(process)
        url, http_url = self.SERVICE_URL.search(banner), self.HTTP_URL.search(banner)
        if url is None:
            process.communicate(timeout=STOP_SECONDS)
            self._process = None
            log_text = self._log_path.read_text()[-LOG_SHOWN:]
            raise RuntimeError(f"{self.command()[0]} did not start: {banner}{log_text}")
        self.port = int(url[1])
        if http_url is not None:
            self.http_port = int(http_url[1])
            await_health(self.http_port)

    def _read_banner(self, process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(self.LAST_LINE):
                break
        return "".join(lines)

    def stop(self) -> None:
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
            log = self._log_path.read_text()[-LOG_SHOWN:]
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {log}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Magnetar(ChildServer):
    """The installed broker with its default settings."""

    title = "Magnetar"

    def command(self) -> list[str]:
        magnetar = str(Path(sys.executable).with_name("magnetar"))
        ports = ["--port", "0", "--http-port", "0"]
        return [magnetar, "standalone", *ports, "--data-dir", str(self.data_dir)]

    def configure(self, settings: Mapping[str, str]) -> None:
        self.environment |= {f"PULSAR_PREFIX_{key}": value for key, value in settings.items()}


class MagnetarBefore(Magnetar):
    """Magnetar from another working tree, with the same installed libraries."""

    title = "Magnetar before"
    tree = ROOT

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        roots = ("proto", "storage", "broker", "client")
        self.environment["PYTHONPATH"] = os.pathsep.join(str(self.tree / root) for root in roots)


class MagnetarCompiled(MagnetarBefore):
    """This working tree in the form of wheels: `compile_copy` has compiled a copy of it."""

    title = "Magnetar compiled"


def compile_copy(target: Path) -> None:
    """Compile a copy of this working tree's sources in `target`, for `MagnetarCompiled` to run.

    CalledProcessError if there is no C compiler, or compiling fails; takes some minutes.
    """
    for root in ("proto", "storage", "broker", "client", "scripts"):
        pure = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / root, target / root, ignore=pure)
    shutil.copy(ROOT / "pyproject.toml", target)
    subprocess.run([sys.executable, "scripts/compile.py"], cwd=target, check=True)
    MagnetarCompiled.tree = target


class Floor(ChildServer):
    """The server of `bench.floor`."""

    title = "floor"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.floor", "--data-dir", str(self.data_dir)]


class Pulsar(Server):
    """Apache Pulsar, a standalone with the memory of a released one."""

    title = "Pulsar, no fsync"
    quick = False
    STARTER = ROOT / "tests" / "conformance" / "original" / "pulsar.py"
    HEAP_MB = 2048
    DIRECT_MB = 4096
    fsync = False
    """Whether the journal is synced before a receipt; it is not in a released standalone."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._settings: dict[str, str] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        self._settings |= settings

    def _run(self, verb: str, *options: str) -> str:
        command = [sys.executable, str(self.STARTER), verb, "--port", str(self.port), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Pulsar did not {verb}: {done.stdout}")
        return done.stdout

    def _start(self) -> None:
        self.port, self.http_port = free_port(), free_port()
        options = [
            *("--http-port", str(self.http_port)),
            *("--data", str(self.data_dir)),
            *("--memory", str(self.HEAP_MB)),
            f"--java=-XX:MaxDirectMemorySize={self.DIRECT_MB}m",
            *(f"--set={key}={value}" for key, value in self._settings.items()),
        ]
        self.pid = int(self._run("start", *options, *(["--fsync"] if self.fsync else [])))

    def stop(self) -> None:
        if self.pid:
            self._run("stop")
            self.pid = 0

    def kill(self) -> None:
        self._run("stop", "--kill")
        self.pid = 0

    def go_on(self) -> None:
        super().go_on()
        await_health(self.http_port)

    def live_mib(self) -> float:
        """Return the heap in use after a collection: resident memory was claimed at the start."""
        listed = subprocess.run(
            ["jcmd", str(self.pid), "GC.class_histogram"], stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
        return int(listed.stdout.split()[-1]) / MIB

    def forget(self, topic: str) -> None:
        path = f"/admin/v2/{topic.replace('://', '/')}/unload"
        status, _ = request(self.http_port, "PUT", path)
        if status != http.HTTPStatus.NO_CONTENT:
            raise RuntimeError(f"Pulsar did not unload {topic}: {status}")

    def deduplicate(self, topic: str) -> None:
        super().deduplicate(topic)
        path = f"/admin/v2/{topic.replace('://', '/')}/stats"
        on = b'"deduplicationStatus":"Enabled"'
        await_true(lambda: on in request(self.http_port, "GET", path)[1], "deduplicating")


class PulsarFsync(Pulsar):
    """Apache Pulsar with a journal that syncs before each receipt, as Magnetar does."""

    title = "Pulsar, fsync"
    fsync = True


SERVERS: dict[str, type[Server]] = {
    "compiled": MagnetarCompiled,
    "magnetar": Magnetar,
    "before": MagnetarBefore,
    "floor": Floor,
    "pulsar-fsync": PulsarFsync,
    "pulsar": Pulsar,
}
"""The servers by the name that `--servers` takes, in the order of the tables."""


def await_health(http_port: int) -> None:
    """Wait until the health check succeeds; RuntimeError after a minute."""
    await_true(lambda: _is_healthy(http_port), "healthy")


def await_true(holds: Callable[[], bool], what: str) -> None:
    """Poll a server until `holds` is true; RuntimeError after `HEALTH_SECONDS`."""
    give_up = time.perf_counter() + HEALTH_SECONDS
    while not holds():
        if time.perf_counter() > give_up:
            raise RuntimeError(f"not {what} after {HEALTH_SECONDS} s")
        time.sleep(LOOK_SECONDS)


def _is_healthy(http_port: int) -> bool:
    try:
        return request(http_port, "GET", HEALTH)[0] == http.HTTPStatus.OK
    except ConnectionError:
        return False  # not yet


def request(http_port: int, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    """Send a request, with a JSON body if any; returns status and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=HEALTH_SECONDS)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def free_port() -> int:
    """Return a port that is free at present."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
