"""The options of the sink, for its modules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from magnetar.producing.batching import UNBATCHED, BatchLimits
from magnetar.producing.routing import JAVA, MURMUR3, ROUND_ROBIN, SINGLE
from magnetar.transactions.transaction import MAX_TIMEOUT_S
from magnetar_proto.names import TopicName
from pyspark_magnetar.options.connecting import Connecting
from pyspark_magnetar.options.declarations import Use, parse_options
from pyspark_magnetar.options.option_table import OPTIONS, PRODUCER

NONE, DEDUP, TRANSACTION = "none", "dedup", "transaction"
"""The values of the option exactlyOnce."""

HASHING = {"JavaStringHash": JAVA, "Murmur3_32Hash": MURMUR3}
ROUTING = {"RoundRobinPartition": ROUND_ROBIN, "SinglePartition": SINGLE}


@dataclass(frozen=True, slots=True)
class Producing:
    """The options of the producers."""

    compression: str
    batching: BatchLimits
    is_by_key: bool
    """Whether an entry holds messages of only one key."""
    chunking: bool
    max_chunk_bytes: int | None
    max_pending_messages: int
    send_timeout_s: float
    initial_subscription: str | None
    hashing: str
    routing: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Create the options from all option values."""

        def producer(name: str) -> Any:
            return values[PRODUCER + name]

        limits = BatchLimits(producer("batchingMaxMessages"), producer("batchingMaxBytes"))
        return cls(
            producer("compressionType").lower(),
            limits if producer("batchingEnabled") else UNBATCHED,
            values["batchingByKey"],
            producer("chunkingEnabled"),
            producer("chunkMaxMessageSize"),
            producer("maxPendingMessages"),
            producer("sendTimeoutMs") / 1000,
            producer("initialSubscriptionName"),
            HASHING[producer("hashingScheme")],
            ROUTING[producer("messageRoutingMode")],
        )

    def options(self) -> dict[str, Any]:
        """Return the arguments for `Client.producer`."""
        return {
            "compression": self.compression,
            "batching": self.batching,
            "chunking": self.chunking,
            "max_chunk_bytes": self.max_chunk_bytes,
            "max_pending_messages": self.max_pending_messages,
            "send_timeout_s": self.send_timeout_s,
            "initial_subscription": self.initial_subscription,
        }


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options for writing."""

    connecting: Connecting
    topic: str | None
    """The topic; None: the column __topic has it."""
    form: str
    """The form of values: see `sink.values`."""
    exactly_once: str
    name_prefix: str
    name_timeout_s: float
    job_id: str | None
    txn_timeout_s: float
    log_topic: str | None
    """The topic in which the driver records its commits; None means that of `sink.committing`."""
    producing: Producing

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options; ValueError names an option that is missing, unknown or wrong."""
        values = parse_options(options, Use.WRITE, OPTIONS)
        topic, log = values["topic"], values["transactionLogTopic"]
        found = cls(
            Connecting.of(values),
            topic_to_write(topic) if topic is not None else None,
            values["valueFormat"],
            values["exactlyOnce"],
            values["producerNamePrefix"],
            values["producerNameTimeout"] / 1000,
            values["jobId"],
            values["transactionTimeout"] / 1000,
            topic_to_write(log) if log is not None else None,
            Producing.of(values),
        )
        found._require_consistent()
        return found

    def _require_consistent(self) -> None:
        if self.exactly_once == TRANSACTION and self.topic is None and self.log_topic is None:
            raise ValueError(
                "exactlyOnce=transaction with topics from a column needs the option "
                "'transactionLogTopic': a topic in which the driver notes what it commits"
            )
        if self.log_topic is not None and self.exactly_once != TRANSACTION:
            raise ValueError(
                "option 'transactionLogTopic' is for exactlyOnce=transaction: give both or none"
            )
        if self.txn_timeout_s > MAX_TIMEOUT_S:
            raise ValueError(
                f"option 'transactionTimeout' is {self.txn_timeout_s:g} s: at most "
                f"{MAX_TIMEOUT_S:g} s are allowed"
            )
        if self.exactly_once == DEDUP and self.producing.is_by_key:
            raise ValueError(
                "option 'batchingByKey' changes the order of rows, and exactlyOnce=dedup needs it "
                "unchanged: leave one of them out"
            )
        if self.exactly_once == DEDUP and self.producing.routing == SINGLE:
            raise ValueError(
                "option 'pulsar.producer.messageRoutingMode' is SinglePartition, which is another "
                "partition at each attempt: exactlyOnce=dedup needs RoundRobinPartition"
            )
        if self.job_id is not None and self.exactly_once == NONE:
            raise ValueError(
                "option 'jobId' is for exactlyOnce=dedup and transaction: give both or none"
            )


def topic_to_write(name: str) -> str:
    """Return the full name of the topic; ValueError if it is invalid."""
    topic = TopicName.parse(name)
    return str(topic)
