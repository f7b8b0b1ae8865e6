"""The rows: all measurements of the benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bench.beside import beside
from bench.clients import receives, round_trips, sends
from bench.frames import Shape
from bench.holes import holes
from bench.idle import connections
from bench.many_topics import many_topics
from bench.offloaded import offloaded
from bench.remote import remote
from bench.scenarios import Trial, catch_up, crash, fan_out, latency, publish, start, tail
from bench.servers import SERVERS, Magnetar, Pulsar, Server
from bench.sharing import share
from bench.spark import reads, writes
from bench.takeover import takeover
from bench.transactions import transact
from bench.usage import Measures
from bench.workers import publish_spread

SMALL, KIB, LARGE = Shape(100), Shape(1 << 10), Shape(64 << 10)
SMALL_BATCH, KIB_BATCH = Shape(100, batch=100), Shape(1 << 10, batch=100)
MANY_TOPICS = Shape(100, topics=1000)
KEYED = Shape(100, keys=100_000)
TRANSACTIONS = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true"}
"""Settings that enable transactions in Pulsar, where they are off by default."""
BROKERS: tuple[type[Server], ...] = (Magnetar, Pulsar)
"""All servers except the floor."""
OURS: tuple[type[Server], ...] = (Magnetar,)


@dataclass(frozen=True)
class Row:
    """A load of messages of one shape, with the way in which it is measured."""

    title: str
    """The title, with `{}` for the shape."""
    work: Callable[[Trial, Shape, int], Measures]
    shape: Shape
    count: int
    """The entries of a full load; transactions or topics where the title names those."""
    servers: tuple[type[Server], ...] = (Server,)
    """The servers on which the row can be measured."""
    asked: bool = False
    """Whether the row is measured only if named: it takes long, or needs more than a broker."""
    fresh: bool = False
    """Whether every server is restarted for the row, even one that starts slowly."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers that differ from the defaults; brokers are restarted with them."""

    def __str__(self) -> str:
        return self.title.format(self.shape)

    def measure(self, trial: Trial) -> Measures:
        """Run the row once, and return its measures."""
        return self.work(trial, self.shape, self.count)

    def is_for(self, server: str) -> bool:
        """Return whether the row can be measured on the server of this name."""
        return issubclass(SERVERS[server], self.servers)


ROWS: dict[str, Row] = {
    "publish-100": Row("publish {}", publish, SMALL, 600_000),
    "publish-1k": Row("publish {}", publish, KIB, 300_000),
    "publish-64k": Row("publish {}", publish, LARGE, 12_000),
    "publish-100x100": Row("publish {}", publish, SMALL_BATCH, 60_000),
    "publish-100x1k": Row("publish {}", publish, KIB_BATCH, 10_000),
    "topics-1000": Row("publish {}", publish, MANY_TOPICS, 300_000),
    "dedup-100": Row(
        "publish {} with deduplication",
        publish, SMALL, 300_000, BROKERS, settings={"brokerDeduplicationEnabled": "true"},
    ),
    "tail-100": Row("publish and consume {}", tail, SMALL, 300_000),
    "tail-100x100": Row("publish and consume {}", tail, SMALL_BATCH, 40_000),
    "catch-up-100": Row("catch up {}", catch_up, SMALL, 300_000),
    "catch-up-100x100": Row("catch up {}", catch_up, SMALL_BATCH, 40_000),
    "catch-up-100x1k": Row("catch up {}", catch_up, KIB_BATCH, 10_000),
    "fan-out": Row("{} to 10 subscriptions, deliveries", fan_out, SMALL, 60_000),
    "latency": Row("publish to deliver {} at 1,000 msg/s", latency, SMALL, 8000),
    "shared": Row("{}, Shared by 10 consumers", share, SMALL, 200_000, BROKERS),
    "key_shared": Row("{}, Key_Shared by 10 consumers", share, KEYED, 200_000, BROKERS),
    "holes": Row(
        "every other of two million messages acknowledged, in random order",
        holes, SMALL, 2_000_000, BROKERS, fresh=True,
    ),
    "topics-10k": Row(
        "open a producer on each of 10,000 topics; again after a restart; use each",
        many_topics, SMALL, 10_000, BROKERS, fresh=True,
    ),
    "txn-1": Row(
        "transactions that acknowledge {} and publish as much",
        transact, SMALL, 20_000, BROKERS, settings=TRANSACTIONS,
    ),
    "txn-100": Row(
        "transactions that acknowledge {} and publish as much",
        transact, SMALL_BATCH, 1000, BROKERS, settings=TRANSACTIONS,
    ),
    "client-send": Row("asyncio client: send {}", sends, SMALL, 100_000, OURS),
    "client-send-batched": Row("asyncio client: send {}", sends, SMALL_BATCH, 500_000, OURS),
    "client-receive": Row("asyncio client: receive {}", receives, SMALL, 100_000, OURS),
    "client-receive-batched": Row(
        "asyncio client: receive {}", receives, SMALL_BATCH, 1_000_000, OURS
    ),
    "client-latency": Row(
        "asyncio client: wait for each receipt, {}", round_trips, SMALL, 5000, OURS
    ),
    "workers-1": Row(
        "publish {} on 1 worker",
        publish_spread, MANY_TOPICS, 300_000, OURS, settings={"magnetarWorkers": "1"},
    ),
    "workers-2": Row(
        "publish {} on 2 workers",
        publish_spread, MANY_TOPICS, 300_000, OURS, settings={"magnetarWorkers": "2"},
    ),
    "takeover": Row(
        "kill -9 of the controller at 1,000 msg/s on 2 workers",
        takeover, SMALL, 8000, OURS, fresh=True, settings={"magnetarWorkers": "2"},
    ),
    "connections": Row(
        "2,000 connections with a producer each", connections, SMALL, 2000, OURS, fresh=True
    ),
    "beside-scrapes": Row(
        "receipts at 400 msg/s, 10,000 topics, scraped every 0.7 s",
        partial(beside, "scrapes"), SMALL, 10_000, OURS, fresh=True,
    ),
    "beside-attack": Row(
        "receipts at 400 msg/s under attack",
        partial(beside, "attack"), SMALL, 20, OURS, fresh=True,
    ),
    "beside-spin": Row(
        "receipts at 400 msg/s beside a process that keeps a core busy",
        partial(beside, "spin"), SMALL, 20, OURS, fresh=True,
    ),
    "start": Row("start, empty, and idle", start, SMALL, 1, fresh=True),
    "crash": Row(
        "start after kill -9 on a backlog of {}",
        crash, KIB_BATCH, 20_000, asked=True, fresh=True,
    ),
    "offloaded": Row(
        "catch up {} of ledgers that are only in a local server of S3",
        offloaded, KIB_BATCH, 10_000, OURS, asked=True, fresh=True,
    ),
    "remote": Row(
        "publish {} to a local server of S3, with etcd",
        remote, KIB, 40_000, OURS, asked=True, fresh=True,
    ),
    "spark-read": Row("Spark: read {}", reads, SMALL_BATCH, 2_000_000, OURS, asked=True),
    "spark-write": Row("Spark: write {}", writes, SMALL, 1_000_000, OURS, asked=True),
}  # fmt: skip
"""The rows by the name that `--rows` takes."""
