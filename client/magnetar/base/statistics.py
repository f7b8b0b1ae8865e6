"""The statistics of producers and consumers, for monitoring."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

LATENCY_BOUNDS_S: tuple[float, ...] = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30,
)  # fmt: skip
"""The upper bounds of the latency buckets, in seconds; one more bucket is unbounded."""

S = TypeVar("S", "ProducerStatistics", "ConsumerStatistics")


@dataclass(slots=True)
class ProducerStatistics:
    """The counts of a producer, or of one of its partitions, since it was opened."""

    topic: str
    messages: int = 0
    """The number of messages that the broker has stored."""
    bytes: int = 0
    """The size of the sent messages, as the memory limit counts it."""
    entries: int = 0
    """The number of entries, messages and batches, that the broker has stored."""
    failed_messages: int = 0
    pending_messages: int = 0
    """The number of messages without receipt, at the moment."""
    pending_bytes: int = 0
    latency_s: float = 0.0
    """The sum, in seconds, of the times from sending to receipt of all entries."""
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    """The number of entries in each bucket of `LATENCY_BOUNDS_S`."""

    def stored(self, messages: int, size: int, latency_s: float) -> None:
        """Count a stored entry."""
        self.messages += messages
        self.bytes += size
        self.entries += 1
        self.latency_s += latency_s
        self.latencies[bisect_left(LATENCY_BOUNDS_S, latency_s)] += 1


@dataclass(slots=True)
class ConsumerStatistics:
    """The counts of a consumer or reader, or of one of its partitions, since it was opened."""

    topic: str
    subscription: str
    messages: int = 0
    """The number of received messages, redeliveries included."""
    bytes: int = 0
    """The size of the received entries, as they are stored."""
    entries: int = 0
    redelivered_entries: int = 0
    """The number of entries that the broker had delivered to some consumer before."""
    unreadable_entries: int = 0
    acked_entries: int = 0
    """The number of confirmed acknowledgements of entries or parts of entries; a cumulative
    acknowledgement counts as one.
    """
    nacked_entries: int = 0
    """The number of entries whose redelivery was requested because of `nack`."""
    timed_out_entries: int = 0
    """The number of entries whose redelivery was requested because of the ack timeout."""
    queued_messages: int = 0
    """The number of messages that the application has not taken, at the moment."""

    def received(self, entries: int, messages: int, size: int, is_redelivered: bool) -> None:
        """Count entries of `size` bytes in total."""
        self.entries += entries
        self.messages += messages
        self.bytes += size
        if is_redelivered:
            self.redelivered_entries += entries


def total(topic: str, parts: Sequence[S]) -> S:
    """Return the sum over partitions, with the name of their topic; at least one is required."""
    summed = replace(parts[0], topic=topic)
    for field_of in fields(summed):
        values = [getattr(part, field_of.name) for part in parts]
        if field_of.name == "latencies":
            setattr(summed, field_of.name, [sum(bucket) for bucket in zip(*values, strict=True)])
        elif not isinstance(values[0], str):
            setattr(summed, field_of.name, sum(values))
    return summed


def by_topic(parts: Iterable[S]) -> list[S]:
    """Return the sums for each topic, and for consumers each subscription."""
    groups: dict[tuple[str, str], list[S]] = {}
    for part in parts:
        subscription = part.subscription if isinstance(part, ConsumerStatistics) else ""
        groups.setdefault((part.topic, subscription), []).append(part)
    return [total(key[0], group) for key, group in sorted(groups.items())]
