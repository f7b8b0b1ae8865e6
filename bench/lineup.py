"""All servers that can be measured, and what each promises before it answers a publisher."""

from typing import NamedTuple

from bench.dialect import PulsarDialect
from bench.peers import Kafka, KafkaFlush, Nats
from bench.servers import (
    Floor,
    Magnetar,
    MagnetarBefore,
    MagnetarCompiled,
    Pulsar,
    PulsarFsync,
    Server,
)

GROUPED = "fsync, shared by all that came meanwhile"
CACHED = "page cache only"


class Named(NamedTuple):
    """How a server is shown."""

    title: str
    promise: str
    """What has been done when a publisher gets its receipt."""

    @property
    def heading(self) -> str:
        """Of a column."""
        return f"{self.title} ({self.promise})"


SERVERS: dict[str, type[Server]] = {
    "magnetar": Magnetar,
    "compiled": MagnetarCompiled,
    "before": MagnetarBefore,
    "floor": Floor,
    "pulsar-fsync": PulsarFsync,
    "pulsar": Pulsar,
    "nats": Nats,
    "kafka-flush": KafkaFlush,
    "kafka": Kafka,
}
"""By name, in the order of the table."""
NAMES: dict[str, Named] = {
    "magnetar": Named("Magnetar", GROUPED),
    "compiled": Named("Magnetar compiled", GROUPED),
    "before": Named("Magnetar before", GROUPED),
    "floor": Named("floor", GROUPED),
    "pulsar-fsync": Named("Pulsar, fsync", GROUPED),
    "pulsar": Named("Pulsar, no fsync", CACHED),
    "nats": Named("NATS JetStream", "fsync of every message"),
    "kafka-flush": Named("Kafka, flush", "fsync of every batch"),
    "kafka": Named("Kafka", CACHED),
}
PEERS = {
    "pulsar": ["pulsar-fsync", "pulsar"],
    "nats": ["nats"],
    "kafka": ["kafka-flush", "kafka"],
}
"""The servers of each peer that can be asked for."""


def speaks_pulsar(name: str) -> bool:
    """Whether the rows that need more than publishing and receiving are for it."""
    return isinstance(SERVERS[name].dialect, PulsarDialect)
