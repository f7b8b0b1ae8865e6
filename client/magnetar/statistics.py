"""What producers and consumers count, for monitoring."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

LATENCY_BOUNDS_S: tuple[float, ...] = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30,
)  # fmt: skip
"""The upper ends of the buckets of latencies; what took longer is in one more."""

S = TypeVar("S", "ProducerStatistics", "ConsumerStatistics")


@dataclass(slots=True)
class ProducerStatistics:
    """Of one producer, or of the producer of one partition, since it was opened."""

    topic: str
    messages: int = 0
    """That the broker has stored."""
    bytes: int = 0
    """Of those, as the memory limit counts them."""
    entries: int = 0
    """Messages and batches that the broker has stored."""
    failed_messages: int = 0
    pending_messages: int = 0
    """That have no receipt, at the moment."""
    pending_bytes: int = 0
    latency_s: float = 0.0
    """Of all entries together, from sending them until the receipt."""
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    """How many entries took up to each of `LATENCY_BOUNDS_S` and longer than the one before."""

    def stored(self, messages: int, size: int, latency_s: float) -> None:
        """Count an entry."""
        self.messages += messages
        self.bytes += size
        self.entries += 1
        self.latency_s += latency_s
        self.latencies[bisect_left(LATENCY_BOUNDS_S, latency_s)] += 1


@dataclass(slots=True)
class ConsumerStatistics:
    """Of one consumer or reader, or of one partition of it, since it was opened."""

    topic: str
    subscription: str
    messages: int = 0
    """That were received, those that come again included."""
    bytes: int = 0
    """Of the entries, as they are stored."""
    entries: int = 0
    redelivered_entries: int = 0
    """That the broker had delivered to some consumer before."""
    unreadable_entries: int = 0
    acked_entries: int = 0
    """Acknowledgements of entries, or of parts of them, that the broker has confirmed; a
    cumulative one counts as one."""
    nacked_entries: int = 0
    """That were asked for again because of `nack`."""
    timed_out_entries: int = 0
    """That were asked for again because of the ack timeout."""
    queued_messages: int = 0
    """That the application has not taken, at the moment."""


def total(topic: str, parts: Sequence[S]) -> S:
    """The sum over partitions, under the name of their topic; there is at least one."""
    summed = replace(parts[0], topic=topic)
    for field_of in fields(summed):
        values = [getattr(part, field_of.name) for part in parts]
        if field_of.name == "latencies":
            setattr(summed, field_of.name, [sum(bucket) for bucket in zip(*values, strict=True)])
        elif not isinstance(values[0], str):
            setattr(summed, field_of.name, sum(values))
    return summed


def by_topic(parts: Iterable[S]) -> list[S]:
    """The sums of those that have the topic, and the subscription, in common."""
    groups: dict[tuple[str, str], list[S]] = {}
    for part in parts:
        subscription = part.subscription if isinstance(part, ConsumerStatistics) else ""
        groups.setdefault((part.topic, subscription), []).append(part)
    return [total(key[0], group) for key, group in sorted(groups.items())]
