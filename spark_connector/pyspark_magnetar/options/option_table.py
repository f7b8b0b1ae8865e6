"""All options of the source and the sink, each declared once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from magnetar.base.settings import parse_service_url
from pyspark_magnetar.options.declarations import (
    Option,
    Use,
    duration_ms,
    flag,
    names,
    one_of,
    size,
    text,
    whole,
)
from pyspark_magnetar.options.places import parse_offsets, parse_times

SERVICE_URL: Final = "service.url"
CLIENT: Final = "pulsar.client."
PRODUCER: Final = "pulsar.producer."
READER: Final = "pulsar.reader."


def _url(given: str) -> str:
    parse_service_url(given)
    return given


def _client(
    name: str, meaning: str, parse: Callable[[str], Any] = text, *more: Any, **others: Any
) -> Option:
    """Declare an option of the client by its name in Pulsar's Java client."""
    option = Option(f"{CLIENT}{name}", Use.BOTH, meaning, parse, *more, **others)
    return replace(option, aliases=(name,))


def _read(name: str, meaning: str, *more: Any, **others: Any) -> Option:
    """Declare an option of the source; the other arguments are those of `Option`."""
    return Option(name, Use.READ, meaning, *more, **others)


def _write(name: str, meaning: str, *more: Any, **others: Any) -> Option:
    """Declare an option of the sink; the other arguments are those of `Option`."""
    return Option(name, Use.WRITE, meaning, *more, **others)


def _producer(name: str, meaning: str, *more: Any, **others: Any) -> Option:
    """Declare an option of producers by its name in Pulsar's Java client."""
    return replace(_write(f"{PRODUCER}{name}", meaning, *more, **others), aliases=(name,))


CONNECTING: Final = (
    Option(
        SERVICE_URL,
        Use.BOTH,
        "pulsar://host:6650 or pulsar+ssl://host:6651 of the broker",
        _url,
        aliases=("serviceUrl", f"{CLIENT}serviceUrl"),
    ),
    Option(
        "admin.url",
        Use.BOTH,
        "everything is asked over the binary protocol",
        text,
        aliases=("adminUrl",),
        has_effect=False,
    ),
    _client("authPluginClassName", "token, basic, tls, oauth2, or the class of Pulsar's client"),
    _client("authParams", "the credentials: token:TEXT, file:///PATH or JSON", is_secret=True),
    _client("tlsTrustCertsFilePath", "PEM file of the authorities to trust, read on each machine"),
    _client("tlsCertificateFilePath", "PEM file of the client's certificate"),
    _client("tlsKeyFilePath", "PEM file of the key of the client's certificate"),
    _client("tlsAllowInsecureConnection", "accept any certificate", flag, False),
    _client(
        "tlsHostnameVerificationEnable",
        "whether the certificate must name the host of the URL",
        flag,
        True,
    ),
    _client("operationTimeoutMs", "how long a request may take", duration_ms, 30_000),
    _client("connectionTimeoutMs", "how long connecting may take", duration_ms, 10_000),
    _client("keepAliveIntervalSeconds", "when a silent connection is probed", whole(1), 30),
    _client("listenerName", "which of the broker's advertised listeners to use"),
    _client("useTls", "pulsar+ssl:// in the URL decides", flag, has_effect=False),
    _client("numIoThreads", "there is one thread", whole(1), has_effect=False),
    _client("numListenerThreads", "there is one thread", whole(1), has_effect=False),
    _client("connectionsPerBroker", "there is one connection", whole(), has_effect=False),
    _client("enableTransaction", "transactions need no setting", flag, has_effect=False),
    _client("statsIntervalSeconds", "progress reports have the figures", whole(), has_effect=False),
)

READING: Final = (
    _read("topics", "topics, separated by commas", names),
    _read("topicsPattern", "tenant/namespace/EXPRESSION of topics", text),
    _read("startingOffsets", "where a new query begins", parse_offsets),
    _read("endingOffsets", "where a batch read ends: its last message", parse_offsets),
    _read(
        "startingTime",
        "begin with what was published since: ms since 1970, a time in ISO 8601, or JSON by topic",
        parse_times,
        aliases=("startingTimestamp", "startingOffsetsByTimestamp"),
    ),
    _read(
        "endingTime",
        "end a batch read before what was published then or later",
        parse_times,
        aliases=("endingTimestamp", "endingOffsetsByTimestamp"),
    ),
    _read(
        "waitingForNonExistedTopic",
        "whether to wait for topics that do not exist",
        flag,
        False,
    ),
    _read("failOnDataLoss", "whether lost messages end the query", flag, True),
    _read("maxOffsetsPerTrigger", "messages of a micro-batch, at most", whole(1)),
    _read("maxBytesPerTrigger", "bytes of a micro-batch, at most", size),
    _read("minOffsetsPerTrigger", "messages to wait for", whole(1)),
    _read("maxTriggerDelay", "how long to wait for them", duration_ms, 900_000),
    _read("minPartitions", "tasks of a micro-batch, at least", whole(1)),
    _read("maxRecordsPerPartition", "messages of a task, at most", whole(1)),
    _read("targetSplitBytes", "bytes of a task, about", size, 64 << 20),
    _read(
        "subscription",
        "subscription to acknowledge finished batches on",
        text,
        aliases=("predefinedSubscription", "kafka.group.id"),
    ),
    _read("metadata", "metadata columns, separated by commas; all or none", names),
    _read(
        "schemaMode",
        "bytes: column value; column: also __schemaVersion; auto: columns of the topic's schema",
        one_of("bytes", "column", "auto"),
        "bytes",
    ),
    _read(
        "allowDifferentTopicSchemas",
        "with schemaMode auto: read topics of different schemas as bytes",
        flag,
        False,
    ),
    _read(
        "mode",
        "of a value that does not fit the schema: FAILFAST, PERMISSIVE (nulls, and its bytes in "
        "the column _corrupt) or DROP",
        one_of("FAILFAST", "PERMISSIVE", "DROP"),
        "FAILFAST",
    ),
    _read(
        "onUnreadable",
        "fail: an entry that cannot be decoded ends the task; skip: it is left out and counted",
        one_of("fail", "skip"),
        "fail",
    ),
    _read(
        "decryptionKeys",
        "directory with a private key NAME.pem for each name of a key, or one file for all names, "
        "read on each machine",
        text,
    ),
    _read(
        "filterPushdown",
        "have a batch read leave out tasks by filters on __topic, __partition and __ledger; needs "
        "spark.sql.python.filterPushdown.enabled=true",
        flag,
        False,
    ),
    _read("pollIntervalMs", "how often to look for messages", duration_ms, 200),
    _read(
        "partitionDiscoveryInterval",
        "how often to look for topics and partitions",
        duration_ms,
        10_000,
    ),
    _read(
        f"{READER}receiverQueueSize",
        "messages received ahead of a task",
        whole(1),
        20_000,
        aliases=("receiverQueueSize",),
    ),
    _read(
        f"{READER}readCompacted",
        "leave out what a later message of its key has replaced, as far as the topic is compacted",
        flag,
        False,
        aliases=("readCompacted",),
    ),
)
"""The options for reading; `topic` is in `PLACE`."""

PLACE: Final = (Option("topic", Use.BOTH, "the topic to read or to write", text),)


WRITING: Final = (
    _write(
        "valueFormat",
        "how values are encoded: auto, avro, json or bytes",
        one_of("auto", "avro", "json", "bytes"),
        "auto",
    ),
    _write(
        "exactlyOnce",
        "none, dedup or transaction",
        one_of("none", "dedup", "transaction"),
        "none",
    ),
    _write(
        "producerNamePrefix",
        "what the names of producers, and that of the transaction log, begin with",
        text,
        "spark",
    ),
    _write(
        "producerNameTimeout",
        "how long to wait for an earlier attempt of a task to leave its producer's name, or for an "
        "earlier driver to leave the transaction log",
        duration_ms,
        120_000,
    ),
    _write(
        "jobId",
        "with exactlyOnce=dedup or transaction in a batch job: its name, the same when it is run "
        "again",
        text,
    ),
    _write(
        "transactionTimeout",
        "with exactlyOnce=transaction: a micro-batch that takes longer fails, and readers wait so "
        "long for what a killed task has left",
        duration_ms,
        300_000,
    ),
    _write(
        "transactionLogTopic",
        "with exactlyOnce=transaction: topic in which the driver notes what it commits; by default "
        "PREFIX-QUERY-commits beside the topic, with producerNamePrefix and the id of the query",
        text,
    ),
    _write(
        "batchingByKey",
        "whether a batch holds messages of one key only, as Key_Shared subscriptions need it",
        flag,
        False,
    ),
    _producer(
        "compressionType",
        "NONE, LZ4, ZLIB, ZSTD or SNAPPY",
        one_of("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"),
        "NONE",
    ),
    _producer("batchingEnabled", "whether messages are sent in batches", flag, True),
    _producer("batchingMaxMessages", "messages in a batch, at most", whole(1), 1000),
    _producer("batchingMaxBytes", "bytes in a batch, at most", size, 128 << 10),
    _producer("sendTimeoutMs", "how long to wait for a receipt", duration_ms, 30_000),
    _producer("maxPendingMessages", "messages without receipt, at most", whole(1), 10_000),
    _producer(
        "chunkingEnabled",
        "whether a message too large for the broker is sent in parts; else it is an error",
        flag,
        False,
    ),
    _producer("chunkMaxMessageSize", "bytes of such a part, at most", size),
    _producer(
        "hashingScheme",
        "of keys to partitions: JavaStringHash or Murmur3_32Hash",
        one_of("JavaStringHash", "Murmur3_32Hash"),
        "JavaStringHash",
    ),
    _producer(
        "messageRoutingMode",
        "of rows without key: RoundRobinPartition or SinglePartition",
        one_of("RoundRobinPartition", "SinglePartition"),
        "RoundRobinPartition",
    ),
    _producer(
        "initialSubscriptionName",
        "a subscription to create with the topic: it keeps what is written until it is read",
        text,
    ),
    _producer("blockIfQueueFull", "the sink always waits for room", flag, has_effect=False),
    _producer(
        "batchingMaxPublishDelayMicros",
        "a batch is sent as soon as its rows are there",
        whole(),
        has_effect=False,
    ),
)
"""The options for writing."""

OPTIONS: Final = (*CONNECTING, *PLACE, *READING, *WRITING)
