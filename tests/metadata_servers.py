"""Servers of metadata for tests: etcd, which is built with Go, and an installed PostgreSQL."""

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import psutil

from fakes.waiting import LOOK_SECONDS
from ports import free_ports

ETCD_MODULE: Final = "go.etcd.io/etcd/server/v3"
ETCD_VERSION: Final = "v3.7.3"
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "etcd"
TOOLS: Final = f"""//go:build tools

package tools

import _ "{ETCD_MODULE}"
"""
POSTGRES_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/bin")
POSTGRES_USER: Final = "postgres"


class MetadataServer(Protocol):
    """A server that keeps its port and its data when it is started again."""

    def place(self, number: int) -> str:
        """Return the `metadataStoreUrl` of a place that no other number has."""

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""

    def kill(self) -> None:
        """End it with SIGKILL, if it runs."""

    def suspend(self) -> None:
        """Let it accept connections, and answer nothing until `go_on`."""

    def go_on(self) -> None:
        """Let it answer again."""

    def compact(self, number: int) -> None:
        """Let it forget all changes; they are those of a place, if it can tell."""

    def remove(self) -> None:
        """End it, and delete what the test would not delete."""


class _Process:
    """The process of a server, with its children."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, environment: dict[str, str]
    ) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self._process.pid)
            for process in (*parent.children(recursive=True), parent):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def kill(self) -> None:
        self.signal_all(signal.SIGKILL)
        self._process.wait()

    def has_ended(self) -> bool:
        """Wait a moment; return whether the process has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOOK_SECONDS)
        return self._process.returncode is not None


# etcd --------------------------------------------------------------------------------------------


def why_no_etcd() -> str:
    """Return why etcd cannot be built, or "" if it can."""
    return "" if shutil.which("go") else "etcd is built with Go, which is not installed"


def built_etcd() -> Path:
    """Build the server unless it was built before: it takes a minute or two."""
    folder = CACHE / ETCD_VERSION
    program = folder / "etcd"
    module = folder / "module"
    module.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if program.exists():
            return program
        # As a dependency, since `go install` refuses modules with replacements.
        (module / "tools.go").write_text(TOOLS)
        (module / "go.mod").write_text("module tools\n\ngo 1.24\n")
        for command in (
            ["go", "get", f"{ETCD_MODULE}@{ETCD_VERSION}"],
            ["go", "build", "-o", str(program), ETCD_MODULE],
        ):
            built = subprocess.run(
                command,
                check=False,
                cwd=module,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if built.returncode:
                raise RuntimeError(f"building etcd failed:\n{built.stdout}")
    return program


class Etcd:
    """A member of etcd over a directory, the only one unless it is put into an `EtcdCluster`."""

    def __init__(
        self,
        directory: Path,
        client: str = "http",
        options: Sequence[str] = (),
        name: str = "default",
    ) -> None:
        """`client` is the scheme for clients; `options` has the files of TLS."""
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._port, peers = free_ports(2)
        self._scheme = client
        self._options = options
        self._name = name
        self._peers = f"http://127.0.0.1:{peers}"
        self.members = self.address
        """The addresses of all members, as the option `--initial-cluster` wants them."""
        self._process: _Process | None = None

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._port}"

    @property
    def address(self) -> str:
        """The address for the other members."""
        return f"{self._name}={self._peers}"

    def place(self, number: int) -> str:
        return f"etcd:{self.endpoint}/test/{number}"

    def start(self) -> None:
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start it unless it runs."""
        if self._process is None:
            self._process = _Process(
                [
                    built_etcd(), "--name", self._name, "--data-dir", self._directory / "data",
                    "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                    "--listen-peer-urls", self._peers, "--log-level", "warn",
                    "--initial-advertise-peer-urls", self._peers,
                    "--initial-cluster", self.members, *self._options,
                ],
                self._directory / "log",
                dict(os.environ),
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it answers, which it does when most members run."""
        while not self._answers():
            if self._process is None or self._process.has_ended():
                raise RuntimeError((self._directory / "log").read_text())

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def suspend(self) -> None:
        if self._process is not None:
            self._process.signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.signal_all(signal.SIGCONT)

    def compact(self, number: int) -> None:
        revision = json.loads(self.ask("/v3/kv/range", b'{"key": "AA=="}'))["header"]["revision"]
        self.ask("/v3/kv/compaction", json.dumps({"revision": revision}).encode())

    def remove(self) -> None:
        self.kill()

    def ask(self, path: str, body: bytes) -> bytes:
        """Make a call over its gateway; only without TLS."""
        request = urllib.request.Request(f"{self.endpoint}{path}", body)
        with urllib.request.urlopen(request) as answer:
            found: bytes = answer.read()
        return found

    def _answers(self) -> bool:
        if self._scheme == "https":
            return _listens(self._port)
        try:
            # Needs no user, and is refused without a leader.
            self.ask("/v3/auth/status", b"{}")
        except OSError:
            return False
        return True


class EtcdCluster:
    """Three members of etcd."""

    def __init__(self, directory: Path) -> None:
        self.members = [Etcd(directory / name, name=name) for name in ("one", "two", "three")]
        for member in self.members:
            member.members = ",".join(other.address for other in self.members)

    def place(self, number: int) -> str:
        """Return the `metadataStoreUrl` of a place that no other number has."""
        return f"etcd:{','.join(one.endpoint for one in self.members)}/test/{number}"

    def start(self) -> None:
        """Start all members that do not run, and wait until they answer."""
        for member in self.members:
            member.begin()
        for member in self.members:
            member.wait()

    def kill(self) -> None:
        """End all members with SIGKILL."""
        for member in self.members:
            member.kill()


# PostgreSQL --------------------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    """Return the folder of the newest installed server."""
    found = [
        path
        for pattern in POSTGRES_FOLDERS
        for path in Path("/").glob(pattern.lstrip("/"))
        if (path / "initdb").exists()
    ]
    return max(found, default=None)


def why_no_postgres() -> str:
    """Return why PostgreSQL cannot be run, or "" if it can."""
    if find_spec("asyncpg") is None:
        return "asyncpg is not installed"
    if postgres_programs() is None:
        return "no initdb is installed: install PostgreSQL"
    if os.geteuid() != 0:
        return ""
    if shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is not installed"
    try:
        pwd.getpwnam(POSTGRES_USER)
    except KeyError:
        return f"PostgreSQL does not run as root, and there is no user {POSTGRES_USER}"
    return ""


class Postgres:
    """A server of PostgreSQL in a new directory, which has to be deleted by `remove`."""

    def __init__(self) -> None:
        # Not in the directory of a test, which another user must not enter.
        self._directory = Path(tempfile.mkdtemp(prefix="magnetar-postgres-"))
        (self._port,) = free_ports(1)
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam(POSTGRES_USER)
            os.chown(self._directory, user.pw_uid, user.pw_gid)
            self._as_user = [
                "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
            ]  # fmt: skip
        self._data = self._directory / "data"
        self._process: _Process | None = None
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PG")
        } | {"LC_ALL": "C"}
        self._run(
            "initdb", "--username=postgres", "--auth=trust", "--no-sync", "-D", str(self._data)
        )

    @property
    def port(self) -> int:
        return self._port

    @property
    def data(self) -> Path:
        """The directory with the files of its configuration."""
        return self._data

    def place(self, number: int) -> str:
        return f"postgres://postgres@127.0.0.1:{self._port}/postgres?schema=test_{number}"

    def start(self) -> None:
        while self._process is None or self._process.has_ended():
            # The processes of a killed server may live for a moment, and hold its memory.
            self._process = _Process(
                [
                    *self._as_user, self._program("postgres"), "-D", self._data,
                    "-p", str(self._port), "-c", "listen_addresses=127.0.0.1",
                    "-c", "unix_socket_directories=", "-c", "shared_buffers=16MB",
                ],
                self._directory / "log",
                self._environment,
            )  # fmt: skip
            while not self._is_ready() and not self._process.has_ended():
                pass

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def suspend(self) -> None:
        if self._process is not None:
            self._process.signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.signal_all(signal.SIGCONT)

    def compact(self, number: int) -> None:
        schema = f"test_{number}"
        self.ask(
            f"UPDATE {schema}.state SET trimmed = last; "
            f"DELETE FROM {schema}.changes c USING {schema}.state s WHERE c.revision <= s.trimmed"
        )

    def write(self, name: str, text: str) -> None:
        """Write a file of its configuration, which only its user may read."""
        path = self._data / name
        path.write_text(text)
        path.chmod(0o600)
        owner = self._data.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def reload(self) -> None:
        """Let it read the files of its configuration again."""
        self._run("pg_ctl", "reload", "-D", str(self._data))

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._directory)

    def ask(self, statement: str) -> str:
        """Run a statement; return its output without alignment."""
        return self._run(
            "psql", "-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres", "-A", "-t",
            "-c", statement,
        ).strip()  # fmt: skip

    def _is_ready(self) -> bool:
        command = [self._program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        return not subprocess.run(command, check=False, env=self._environment).returncode

    def _program(self, name: str) -> str:
        folder = postgres_programs()
        assert folder is not None, why_no_postgres()
        return str(folder / name)

    def _run(self, program: str, *arguments: str) -> str:
        return subprocess.run(
            [*self._as_user, self._program(program), *arguments],
            check=True,
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
