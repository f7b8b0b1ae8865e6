"""Runs the original, an Apache Pulsar standalone, on loopback: to record it, and to race it.

    pulsar.py install                    find its jars with Maven, once (about 240 MB)
    pulsar.py start [--port 6650] [--http-port 8080] [--data DIR] [--fsync] [--memory 700]
                    [--set KEY=VALUE]... [--java OPTION]...
    pulsar.py stop [--port 6650] [--kill]

`start` installs if need be, returns when the health check answers, and prints the pid; the
process goes on until `stop`.  --fsync makes the journal sync before a receipt, which a released
standalone does not; --memory is that of the heap and, once more, of direct buffers, in MiB;
--set are lines of its configuration.  `stop` sends SIGTERM (--kill: SIGKILL) and waits.

Needs Java 17 or later, and Maven to install.  Everything is kept in .cache/pulsar of the
repository, data in a folder for each port by default.  From Python:
`with RunningPulsar(port=...) as pulsar: pulsar.pid`.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "pulsar"
VERSION = (HERE / "pom.xml").read_text().split("<pulsar.version>")[1].split("<")[0]
MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
START_SECONDS = 180
LOOK_SECONDS = 0.2
OPENED = (
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Packages of Java's own that it looks into."""
METADATA = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
OWN_CREDENTIALS = "brokerClientAuthenticationParameters"
PROPERTIES = {
    "java.net.preferIPv4Stack": "true",
    "jute.maxbuffer": "10485760",
    "io.netty.tryReflectionSetAccessible": "true",
    "pulsar.allocator.exit_on_oom": "true",
    "bookkeeper.metadata.bookie.drivers": f"{METADATA}BookieDriver",
    "bookkeeper.metadata.client.drivers": f"{METADATA}ClientDriver",
    "log4j.shutdownHookEnabled": "false",
    "log4j2.configurationFile": str(HERE / "log4j2.properties"),
}


def install() -> str:
    """The class path; Maven fetches what is not on this machine."""
    path = CACHE / f"classpath-{VERSION}"
    if path.exists():
        class_path = path.read_text().strip()
        if all(os.path.exists(jar) for jar in class_path.split(os.pathsep)):
            return class_path
    CACHE.mkdir(parents=True, exist_ok=True)
    goal = ("dependency:build-classpath", "-DincludeScope=runtime")
    target = f"-Dmdep.outputFile={path}"
    command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), *goal, target]
    # Maven writes control codes to its output, even with -B; output here is the id of a process.
    subprocess.run(command, stdout=sys.stderr, check=True)
    return path.read_text().strip()


class RunningPulsar:
    """One standalone; of a port there is one at a time."""

    def __init__(
        self,
        port: int = 6650,
        http_port: int = 8080,
        data: Path | None = None,
        fsync: bool = False,
        memory_mb: int = 700,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.port = port
        self.http_port = http_port
        self.data = (data or CACHE / f"data-{port}").resolve()
        self.memory_mb = memory_mb
        self.java_options = java_options
        self.run_dir = CACHE / f"run-{port}"
        self.log_path = self.run_dir / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = {
            "brokerServicePort": str(port),
            "webServicePort": str(http_port),
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "journalSyncData": str(fsync).lower(),
        } | dict(settings or {})

    def __enter__(self) -> "RunningPulsar":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Of the process that was started on this port, if it is still there."""
        try:
            pid = int((self.run_dir / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None
        return pid if MAIN.encode() in command else None

    def start(self) -> int:
        """Start, wait until it is healthy, and return the pid."""
        if self.pid is not None:
            raise SystemExit(f"port {self.port} has one already: pid {self.pid}")
        self.data.mkdir(parents=True, exist_ok=True)
        self.run_dir.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"CLASSPATH": install()}
        with self.log_path.open("w") as log:
            self._process = process = subprocess.Popen(
                self._command(self._write_configuration()),
                cwd=self.run_dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.run_dir / "pid").write_text(str(process.pid))
        try:
            self._await_health(process)
        except BaseException:
            _end(process.pid, signal.SIGKILL)
            process.wait()
            raise
        return process.pid

    def stop(self, kill: bool = False) -> None:
        """End it, and return when it is gone."""
        pid = self.pid
        if pid is not None:
            _end(pid, signal.SIGKILL if kill else signal.SIGTERM)
            if self._process is not None:
                self._process.wait()
        (self.run_dir / "pid").unlink(missing_ok=True)

    def _write_configuration(self) -> Path:
        lines = (HERE / "standalone.conf").read_text().splitlines()
        pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
        values = dict(pairs) | self.settings
        path = self.run_dir / "standalone.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def _command(self, configuration: Path) -> list[str]:
        """Heap and collector are what the release's own script chooses, but for the size."""
        memory = f"{self.memory_mb}m"
        return [
            _java(),
            f"-Xms{memory}",
            f"-Xmx{memory}",
            f"-XX:MaxDirectMemorySize={memory}",
            "-XX:+UseZGC",
            "-XX:+AlwaysPreTouch",
            "-XX:+PerfDisableSharedMem",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
            *(f"-D{key}={value}" for key, value in PROPERTIES.items()),
            *self.java_options,
            MAIN,
            *("--config", str(configuration), "--advertised-address", "127.0.0.1"),
            *("--metadata-dir", str(self.data / "metadata")),
            *("--bookkeeper-dir", str(self.data / "bookkeeper"), "--num-bookies", "1"),
            *("--no-functions-worker", "--no-stream-storage"),
        ]

    def _await_health(self, process: "subprocess.Popen[bytes]") -> None:
        for _ in range(int(START_SECONDS / LOOK_SECONDS)):
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK_SECONDS)
                raise SystemExit(f"it ended with {code}; see {self.log_path}")
            if self._is_healthy():
                return
        raise SystemExit(f"it is not healthy after {START_SECONDS} s; see {self.log_path}")

    def _is_healthy(self) -> bool:
        url = f"http://127.0.0.1:{self.http_port}/admin/v2/brokers/health"
        try:
            with urllib.request.urlopen(self._asking(url), timeout=5) as answer:
                return bool(answer.read() == b"ok")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False  # not yet

    def _asking(self, url: str) -> urllib.request.Request:
        """A request with the token of the original's own client, if it has one."""
        asking = urllib.request.Request(url)
        kind, _, token = self.settings.get(OWN_CREDENTIALS, "").partition(":")
        if kind == "token":
            asking.add_header("Authorization", f"Bearer {token}")
            asking.add_header("X-Pulsar-Auth-Method-Name", "token")
        return asking


def _end(pid: int, number: signal.Signals) -> None:
    """Signal a process, be it a child or not, and wait for its end."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, number)
            select.select([process], [], [])
        finally:
            os.close(process)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("install", "start", "stop"))
    parser.add_argument("--port", type=int, default=6650)
    parser.add_argument("--http-port", type=int, default=8080)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--fsync", action="store_true")
    parser.add_argument("--memory", type=int, default=700)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--java", action="append", default=[], metavar="OPTION")
    parser.add_argument("--kill", action="store_true")
    return parser.parse_args()


def main() -> None:
    """The command line."""
    arguments = _arguments()
    if arguments.verb == "install":
        install()
        return
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    pulsar = RunningPulsar(
        arguments.port,
        arguments.http_port,
        arguments.data,
        arguments.fsync,
        arguments.memory,
        settings,
        arguments.java,
    )
    if arguments.verb == "stop":
        pulsar.stop(arguments.kill)
    else:
        print(pulsar.start())


if __name__ == "__main__":
    main()
