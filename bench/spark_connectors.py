"""The connectors whose sources and sinks Spark jobs of the bench measure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

VALUE: Final = "CAST(lpad(CAST(id AS STRING), {size}, 'x') AS BINARY) AS value"
RUN: Final = "{run}"
"""In an option: a name of each run's own."""


@dataclass(frozen=True)
class Write:
    """One kind of write."""

    columns: tuple[str, ...]
    """Expressions of `id`, a row's number, and of `{size}`."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """One kind of read."""

    columns: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_of_one_batch: bool = False
    """Whether `spark_one_batch` takes the place of the source."""


@dataclass(frozen=True)
class Connector:
    """How jobs name brokers, topics and columns; kinds that mean the same have the same name."""

    format: str
    broker: Mapping[str, str]
    """The option for a broker, of `{port}`."""
    source_topic: str
    """The option for the topic to read; the sink's is `topic`."""
    reads: Mapping[str, Read]
    writes: Mapping[str, Write]

    def source(self, port: int, topic: str) -> dict[str, str]:
        """Options that read a topic from its beginning."""
        return {**self._broker(port), self.source_topic: topic, "startingOffsets": "earliest"}

    def sink(self, port: int, topic: str) -> dict[str, str]:
        """Options that write to a topic."""
        return {**self._broker(port), "topic": topic}

    def _broker(self, port: int) -> dict[str, str]:
        return {name: value.format(port=port) for name, value in self.broker.items()}


MAGNETAR: Final = Connector(
    format="pulsar",
    broker={"service.url": "pulsar://127.0.0.1:{port}"},
    source_topic="topic",
    reads={
        "value": Read(("value",), {"metadata": "none"}),
        "all": Read(("*",), {"metadata": "all"}),
        "one_batch": Read(("value",), {"metadata": "none"}, is_of_one_batch=True),
        "one_batch_all": Read(("*",), {"metadata": "all"}, is_of_one_batch=True),
    },
    writes={
        "value": Write((VALUE,)),
        "all": Write(
            (
                VALUE,
                "concat('key ', id % 1000) AS __key",
                "timestamp_millis(1767225600000 + id) AS __eventTime",
                "map('number', CAST(id % 100 AS STRING)) AS __messageProperties",
            )
        ),
        "dedup": Write((VALUE,), {"exactlyOnce": "dedup", "jobId": RUN}),
        "txn": Write((VALUE,), {"exactlyOnce": "transaction", "jobId": RUN}),
    },
)
KAFKA: Final = Connector(
    format="kafka",
    broker={"kafka.bootstrap.servers": "127.0.0.1:{port}"},
    source_topic="subscribe",
    reads={
        "value": Read(("value",)),
        "all": Read(("*",), {"includeHeaders": "true"}),
    },
    writes={
        "value": Write((VALUE,)),
        "all": Write(
            (
                VALUE,
                "concat('key ', id % 1000) AS key",
                "array(struct('number' AS key, CAST(CAST(id % 100 AS STRING) AS BINARY) AS value))"
                " AS headers",
            )
        ),
    },
)
CONNECTORS: Final = {connector.format: connector for connector in (MAGNETAR, KAFKA)}
"""By the name that jobs take."""


def topic_of_kind(topic: str, kind: str) -> str:
    """Where a kind of write goes: each has a topic of its own."""
    return f"{topic}-{kind}"
