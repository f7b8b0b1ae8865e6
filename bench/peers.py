"""Other brokers, for people who choose: NATS JetStream and Kafka, one process each on loopback.

`install` has Go build `nats-server`, and Maven fetch Kafka, into the bench's own cache.
"""

import os
import signal
import socket
import subprocess
from abc import abstractmethod
from pathlib import Path

from bench.kafka import CONTROL, HEAD, KafkaDialect, brokers_in, metadata
from bench.maven import class_path, version_in
from bench.nats import NatsDialect
from bench.servers import LOG_SHOWN, ROOT, ChildServer, await_health, await_true, free_port

CACHE = ROOT / ".cache"
GO_FOLDER = "/usr/local/go/bin"
NATS_VERSION = "v2.12.1"
NATS_FOLDER = CACHE / f"nats-{NATS_VERSION}"
NATS_PACKAGE = "github.com/nats-io/nats-server/v2"
KAFKA_POM = Path(__file__).parent / "kafka.pom.xml"
KAFKA_VERSION = version_in(KAFKA_POM, "kafka")
KAFKA_CLASS_PATH = CACHE / "kafka" / f"classpath-{KAFKA_VERSION}"
KAFKA_JAVA = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""What its own start script chooses."""
KAFKA_CLUSTER = "bWFnbmV0YXItYmVuY2gtMQ"


class PeerServer(ChildServer):
    """A child process that prints nothing when it is ready."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.port, self.http_port = free_port(), free_port()

    @abstractmethod
    def await_ready(self) -> None:
        """Return when clients are served; RuntimeError if that takes too long."""

    def _start(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._spawn(stdout=None)
        try:
            self.await_ready()
        except RuntimeError as error:
            self.kill()
            log = self._log_path.read_text()[-LOG_SHOWN:]
            raise RuntimeError(f"{error}: {log}") from error


class Nats(PeerServer):
    """JetStream; it syncs after every message it stores."""

    dialect = NatsDialect()

    @classmethod
    def install(cls) -> None:
        """Built once a version."""
        if (NATS_FOLDER / "nats-server").exists():
            return
        path = os.pathsep.join((os.environ.get("PATH", ""), GO_FOLDER))
        environment = os.environ | {"GOBIN": str(NATS_FOLDER), "PATH": path}
        command = ["go", "install", f"{NATS_PACKAGE}@{NATS_VERSION}"]
        subprocess.run(command, check=True, env=environment)

    def command(self) -> list[str]:
        configuration = self.data_dir / "nats.conf"
        configuration.write_text(
            f"listen: 127.0.0.1:{self.port}\nhttp: 127.0.0.1:{self.http_port}\n"
            f'jetstream {{ store_dir: "{self.data_dir}", sync_interval: always }}\n'
        )
        return [str(NATS_FOLDER / "nats-server"), "--config", str(configuration)]

    def await_ready(self) -> None:
        await_health(self.http_port, "/healthz")


class Kafka(PeerServer):
    """One node that is broker and controller; it leaves writing to the kernel."""

    quick = False
    dialect = KafkaDialect()
    ENDED_WELL = (0, 128 + signal.SIGTERM)
    SETTINGS: tuple[str, ...] = ()

    @classmethod
    def install(cls) -> None:
        """Fetched once a version; Maven fetches what is not on this machine."""
        class_path(KAFKA_POM, KAFKA_CLASS_PATH)

    def start(self) -> None:
        """The storage is formatted before the clock starts."""
        self.environment["CLASSPATH"] = class_path(KAFKA_POM, KAFKA_CLASS_PATH)
        logs = self.data_dir / "logs"
        if not logs.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._configuration.write_text("\n".join(self._settings(logs)))
            options = ["-t", KAFKA_CLUSTER, "-c", str(self._configuration)]
            command = ["java", "kafka.tools.StorageTool", "format", *options]
            done = subprocess.run(
                command, env=os.environ | self.environment, capture_output=True, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(f"the storage was not formatted: {done.stdout + done.stderr!r}")
        super().start()

    def command(self) -> list[str]:
        return ["java", *KAFKA_JAVA, "kafka.Kafka", str(self._configuration)]

    def await_ready(self) -> None:
        await_true(self._serves, "ready")

    def forget(self, topic: str) -> None:
        """It keeps nothing of what it stores but in the kernel's cache."""

    @property
    def _configuration(self) -> Path:
        return self.data_dir / "server.properties"

    def _settings(self, logs: Path) -> list[str]:
        broker, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.http_port}"
        return [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{controller}",
            f"listeners=PLAINTEXT://{broker},CONTROLLER://{controller}",
            f"advertised.listeners=PLAINTEXT://{broker}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={logs}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            *self.SETTINGS,
        ]

    def _serves(self) -> bool:
        """Whether it names itself as a broker."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(metadata(CONTROL))
                head = connection.recv(HEAD.size, socket.MSG_WAITALL)
                if len(head) < HEAD.size:
                    return False
                size, _ = HEAD.unpack(head)
                rest = connection.recv(size - 4, socket.MSG_WAITALL)
                return brokers_in(head[4:] + rest) > 0
        except OSError:
            return False  # not yet


class KafkaFlush(Kafka):
    """It syncs after every batch it stores."""

    SETTINGS = ("log.flush.interval.messages=1",)
