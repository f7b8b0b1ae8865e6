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
from typing import Any

from bench.dialect import Dialect, PulsarDialect
from bench.usage import MIB, family, memory

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 60
HEALTH_SECONDS = 60
LOOK_SECONDS = 0.002
RELOADED = b"all workers have the changed configuration"
POLL_SECONDS = 0.001
PROCESS = re.compile(r"(controller|worker-\d+) is process (\d+)")
LOG_SHOWN = 2000
"""How much of a server's log an error shows."""
HEALTH = "/admin/v2/brokers/health"


class Server(ABC):
    """One server on a data directory of its own; may be started again after a stop."""

    quick = True
    """Whether it is at full speed at once.  Else it is started once for many rows, warmed, and
    stands still while others are measured."""
    dialect: Dialect[Any] = PulsarDialect()
    """How clients speak to it."""
    has_topics = True
    """Whether topics are apart from each other."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self.port = self.http_port = self.pid = 0
        self.started_at = 0.0
        """When its process was started, in seconds of `time.perf_counter`."""
        self.healthy_ms = 0.0
        """From then until it reported that it was ready, and was healthy."""

    @classmethod  # noqa: B027 - most servers are there
    def install(cls) -> None:
        """Get what is missing to run it; may take minutes."""

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when it is healthy; RuntimeError if it ends instead."""
        self.started_at = time.perf_counter()
        self._start()
        self.healthy_ms = (time.perf_counter() - self.started_at) * 1000

    @abstractmethod
    def _start(self) -> None:
        """Start, wait for health, set port and pid."""

    @abstractmethod
    def stop(self) -> None:
        """Stop in good order; RuntimeError unless it ends well.  Nothing if it does not run."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL, and wait for the end."""

    def restart(self) -> None:
        """Stop in good order and start again on what it has stored."""
        self.stop()
        self.start()

    def renew(self) -> None:
        """Stop, and start with nothing stored."""
        self.stop()
        shutil.rmtree(self.data_dir)
        self.start()

    def forget(self, topic: str) -> None:
        """Have nothing of a topic in memory."""
        self.restart()

    def deduplicate(self, topic: str) -> None:
        """Have it drop what is sent again to an existing topic."""
        path = f"/admin/v2/{topic.replace('://', '/')}/deduplicationEnabled"
        status, _ = _request(self.http_port, "POST", path, "true")
        if status != http.HTTPStatus.NO_CONTENT:
            raise RuntimeError(f"deduplication was not switched on: {status}")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Have these settings from the next start on; RuntimeError if it has none."""
        raise RuntimeError(f"{type(self).__name__} has no setting {', '.join(settings)}")

    def stand_still(self) -> None:
        """It uses no CPU until `go_on`."""
        for process in family(self.pid):
            process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Return when it is itself again."""
        for process in family(self.pid):
            process.send_signal(signal.SIGCONT)

    def live_mib(self) -> float:
        """Memory in use, now."""
        return memory(self.pid).rss

    def stored_bytes(self) -> int:
        """On disk."""
        files = (path for path in self.data_dir.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)


class ChildServer(Server):
    """A child process of the bench; its errors go to a file beside its data."""

    ENDED_WELL: tuple[int, ...] = (0,)
    """Exit codes of a stop in good order."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What is started; it finds its configuration written."""

    @property
    def _log_path(self) -> Path:
        return self.data_dir.with_suffix(".log")

    def _spawn(self, stdout: int | None) -> "subprocess.Popen[str]":
        """Start the process; without `stdout` its output goes where its errors go."""
        with self._log_path.open("a") as log:
            self._process = process = subprocess.Popen(
                self.command(),
                stdout=log if stdout is None else stdout,
                stderr=log,
                text=True,
                env=os.environ | self.environment,
            )
        self.pid = process.pid
        return process

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
        if process.returncode not in self.ENDED_WELL:
            log = self._log_path.read_text()[-LOG_SHOWN:]
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {log}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class BannerServer(ChildServer):
    """A child process that prints its addresses on standard output."""

    SERVICE_URL = re.compile(r"^  clients +pulsar://[^:]+:(\d+)$", re.MULTILINE)
    HTTP_URL = re.compile(r"^  HTTP +http://[^:]+:(\d+)$", re.MULTILINE)
    LAST_LINE = "  durability"

    def _start(self) -> None:
        process = self._spawn(subprocess.PIPE)
        banner = self._read_banner(process)
        url, http_url = self.SERVICE_URL.search(banner), self.HTTP_URL.search(banner)
        if url is None:
            process.communicate(timeout=STOP_SECONDS)
            self._process = None
            log_text = self._log_path.read_text()
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


class Magnetar(BannerServer):
    """The daemon as it is installed, with its defaults."""

    def command(self) -> list[str]:
        magnetar = str(Path(sys.executable).with_name("magnetar"))
        ports = ["--port", "0", "--http-port", "0"]
        command = [magnetar, "standalone", *ports, "--data-dir", str(self.data_dir)]
        return [*command, "--conf", str(self._conf)] if self._conf.exists() else command

    def processes(self) -> dict[str, int]:
        """The present processes of several by name, as the log has them."""
        started = PROCESS.findall(self._log_path.read_text())
        return {name: int(pid) for name, pid in started}

    @property
    def _conf(self) -> Path:
        return self.data_dir.with_suffix(".conf")

    def write_conf(self, **settings: object) -> None:
        """Write the configuration file, which is read from the next start on."""
        self._conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def reload(self) -> None:
        """Have it read its configuration file again; returns when all workers have that."""
        begin = self._log_path.stat().st_size
        os.kill(self.pid, signal.SIGHUP)
        while RELOADED not in self._log_path.read_bytes()[begin:]:
            time.sleep(POLL_SECONDS)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Have these settings from the next start on, whatever the configuration file has."""
        self.environment |= {f"PULSAR_PREFIX_{key}": value for key, value in settings.items()}

    def run_script(self, module: str, *options: str) -> None:
        """Run a module of the bench with the sources this server runs with."""
        command = [sys.executable, "-m", module, *options]
        environment = os.environ | self.environment
        subprocess.run(command, cwd=ROOT, env=environment, check=True)


class MagnetarBefore(Magnetar):
    """Magnetar from another working tree, with the same installed libraries."""

    tree = ROOT

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        roots = ("proto", "storage", "broker", "client")
        self.environment["PYTHONPATH"] = os.pathsep.join(str(self.tree / root) for root in roots)


class MagnetarCompiled(MagnetarBefore):
    """This working tree in the form of wheels: `compile_copy` has compiled a copy of it."""


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


class Floor(BannerServer):
    """See `bench.floor`."""

    has_topics = False

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.floor", "--data-dir", str(self.data_dir)]


class Pulsar(Server):
    """The original, a standalone with the memory a released one takes."""

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
        """Have these settings from the next start on."""
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
        """Of the heap, after a collection: what is resident was claimed at the start."""
        listed = subprocess.run(
            ["jcmd", str(self.pid), "GC.class_histogram"], stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
        return int(listed.stdout.split()[-1]) / MIB

    def forget(self, topic: str) -> None:
        path = f"/admin/v2/{topic.replace('://', '/')}/unload"
        status, _ = _request(self.http_port, "PUT", path)
        if status != http.HTTPStatus.NO_CONTENT:
            raise RuntimeError(f"Pulsar did not unload {topic}: {status}")

    def deduplicate(self, topic: str) -> None:
        super().deduplicate(topic)
        path = f"/admin/v2/{topic.replace('://', '/')}/stats"
        on = b'"deduplicationStatus":"Enabled"'
        await_true(lambda: on in _request(self.http_port, "GET", path)[1], "deduplicating")


class PulsarFsync(Pulsar):
    """The original, with the promise that Magnetar makes."""

    fsync = True


def await_health(http_port: int, path: str = HEALTH) -> None:
    """Return when the health check succeeds; RuntimeError after a minute."""
    await_true(lambda: _is_healthy(http_port, path), "healthy")


def await_true(holds: Callable[[], bool], what: str) -> None:
    """Poll a server until `holds` is true; RuntimeError after `HEALTH_SECONDS`."""
    give_up = time.perf_counter() + HEALTH_SECONDS
    while not holds():
        if time.perf_counter() > give_up:
            raise RuntimeError(f"not {what} after {HEALTH_SECONDS} s")
        time.sleep(LOOK_SECONDS)


def _is_healthy(http_port: int, path: str) -> bool:
    try:
        return _request(http_port, "GET", path)[0] == http.HTTPStatus.OK
    except ConnectionError:
        return False  # not yet


def _request(http_port: int, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    """Status and body of the answer; a body that is sent is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=HEALTH_SECONDS)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
