"""The options of the source, for its modules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from magnetar_proto.ids import EARLIEST, LATEST
from magnetar_proto.names import TopicName
from pyspark_magnetar.options.connecting import Connecting
from pyspark_magnetar.options.declarations import Use, parse_options
from pyspark_magnetar.options.option_table import OPTIONS, READER
from pyspark_magnetar.options.places import Place, Places
from pyspark_magnetar.rows.source_schema import SCHEMA_VERSION, metadata_columns
from pyspark_magnetar.rows.value_schema import ValueSchema
from pyspark_magnetar.source.range_division import Limits, Sizes

NOT_PERSISTENT = "non-persistent"


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that a query reads."""

    names: tuple[str, ...] = ()
    """The full names of topics or partitions."""
    pattern: str | None = None
    may_be_missing: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the topics; ValueError unless exactly one of the three options is given."""
        given = [name for name in ("topic", "topics", "topicsPattern") if values[name]]
        if len(given) != 1:
            raise ValueError(
                "one of the options 'topic', 'topics' and 'topicsPattern' is needed"
                + (f", and {' and '.join(map(repr, given))} are given" if given else "")
            )
        names = values["topics"] or ((values["topic"],) if values["topic"] else ())
        full = tuple(dict.fromkeys(str(TopicName.parse(name)) for name in names))
        pattern = values["topicsPattern"]
        for name in (*full, pattern or ""):
            if name.startswith(NOT_PERSISTENT):
                raise ValueError(
                    f"{name} cannot be read by Spark: a topic that is not persistent keeps no "
                    "messages, so a task that fails could not read them again"
                )
        return cls(full, pattern, values["waitingForNonExistedTopic"])


@dataclass(frozen=True, slots=True)
class Bounds:
    """The start and the end of reading."""

    start: Places
    default_start: Place
    end: Places | None = None
    since: Places | None = None
    """Times before which messages are skipped."""
    until: Places | None = None
    """Times from which on messages are skipped."""


@dataclass(frozen=True, slots=True)
class Polling:
    """The polling interval, and the data to wait for."""

    poll_s: float = 0.2
    discovery_s: float = 10.0
    min_messages: int | None = None
    max_delay_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Values:
    """The handling of message values."""

    mode: str = "bytes"
    may_differ: bool = False
    on_corrupt: str = "FAILFAST"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options for reading, with the start of a new query."""

    connecting: Connecting
    topics: Topics
    bounds: Bounds
    columns: tuple[str, ...] = ()
    """The metadata columns."""
    limits: Limits = field(default_factory=Limits)
    sizes: Sizes = field(default_factory=Sizes)
    polling: Polling = field(default_factory=Polling)
    fails_on_loss: bool = True
    skips_unreadable: bool = False
    subscription: str | None = None
    queue_size: int = 20_000
    keys: str | None = None
    """The path of the private keys at the executors."""
    values: Values = field(default_factory=Values)
    value_schema: ValueSchema | None = None
    """The requested schema of the topics; None means that values are bytes."""
    pushes_filters: bool = False
    reads_compacted: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_streaming: bool | None) -> Self:
        """Parse the options; ValueError names an option that is missing, unknown or wrong.

        `is_streaming` is None if it is not known yet how the source is read.
        """
        values = parse_options(options, Use.READ, OPTIONS)
        return cls(
            Connecting.of(values),
            Topics.of(values),
            _bounds(values, is_streaming),
            _columns(values),
            Limits(values["maxOffsetsPerTrigger"], values["maxBytesPerTrigger"]),
            Sizes(
                values["targetSplitBytes"],
                values["minPartitions"] or 0,
                values["maxRecordsPerPartition"],
            ),
            Polling(
                values["pollIntervalMs"] / 1000,
                values["partitionDiscoveryInterval"] / 1000,
                values["minOffsetsPerTrigger"],
                values["maxTriggerDelay"] / 1000,
            ),
            values["failOnDataLoss"],
            values["onUnreadable"] == "skip",
            values["subscription"],
            values[f"{READER}receiverQueueSize"],
            values["decryptionKeys"],
            Values(values["schemaMode"], values["allowDifferentTopicSchemas"], values["mode"]),
            pushes_filters=values["filterPushdown"],
            reads_compacted=values[f"{READER}readCompacted"],
        )


def _columns(values: Mapping[str, Any]) -> tuple[str, ...]:
    chosen = metadata_columns(values["metadata"])
    if values["schemaMode"] == "column" and SCHEMA_VERSION not in chosen:
        chosen = (*chosen, SCHEMA_VERSION)
    return chosen


def _bounds(values: Mapping[str, Any], is_streaming: bool | None) -> Bounds:
    start, end = values["startingOffsets"], values["endingOffsets"]
    since, until = values["startingTime"], values["endingTime"]
    for offsets, time, kind in ((start, since, "starting"), (end, until, "ending")):
        if offsets is not None and time is not None:
            raise ValueError(f"give one of the options '{kind}Offsets' and '{kind}Time'")
    if is_streaming and (end or until):
        raise ValueError(
            "a streaming query has no end: leave out 'endingOffsets' and 'endingTime', and use "
            "trigger(availableNow=True) to read what there is"
        )
    default = Place(LATEST if is_streaming else EARLIEST)
    if is_streaming is False and start is not None and start.default == Place(LATEST):
        raise ValueError("option 'startingOffsets': a batch read from latest on would read nothing")
    return Bounds(start or since or Places(), default, end or until, since, until)
