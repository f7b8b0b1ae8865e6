"""The statistics of clients, as metrics for Prometheus.

REGISTRY.register(ClientCollector(client))
"""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import magnetar.sync
from magnetar.base.statistics import LATENCY_BOUNDS_S, ConsumerStatistics, ProducerStatistics
from magnetar.client import Client
from magnetar.exporters.statistics_reader import StatisticsReader

PRODUCED: dict[str, tuple[str, str]] = {
    "messages": ("magnetar_client_sent_messages", "Messages that the broker has stored."),
    "bytes": ("magnetar_client_sent_bytes", "Bytes of messages that the broker has stored."),
    "entries": ("magnetar_client_sent_entries", "Messages and batches that the broker stored."),
    "failed_messages": ("magnetar_client_send_failures", "Messages that were not stored."),
}
WAITING: dict[str, tuple[str, str]] = {
    "pending_messages": ("magnetar_client_pending_messages", "Messages without receipt."),
    "pending_bytes": ("magnetar_client_pending_bytes", "Bytes of messages without receipt."),
}
LATENCY = ("magnetar_client_send_seconds", "From sending an entry until its receipt.")
CONSUMED: dict[str, tuple[str, str]] = {
    "messages": ("magnetar_client_received_messages", "Messages that were received."),
    "bytes": ("magnetar_client_received_bytes", "Bytes of entries that were received."),
    "entries": ("magnetar_client_received_entries", "Entries that were received."),
    "redelivered_entries": ("magnetar_client_redelivered_entries", "Entries that came again."),
    "unreadable_entries": ("magnetar_client_unreadable_entries", "Entries not decoded."),
    "acked_entries": ("magnetar_client_acked_entries", "Acknowledgements that are confirmed."),
    "nacked_entries": ("magnetar_client_nacked_entries", "Asked for again because of nack."),
    "timed_out_entries": ("magnetar_client_ack_timeouts", "Asked for again: not acknowledged."),
}
QUEUED: dict[str, tuple[str, str]] = {
    "queued_messages": ("magnetar_client_queued_messages", "Messages not taken yet."),
}


class ClientCollector(Collector):
    """The metrics of a client, with the labels `topic` and, for consumers, `subscription`.

    Create it where the client is used: in its event loop, or for one of `magnetar.sync` anywhere.
    Any thread may collect.
    """

    def __init__(self, client: Client | magnetar.sync.Client) -> None:
        self._reader = StatisticsReader(client)

    def describe(self) -> Iterator[Metric]:
        """Return no metrics: registering does not read the client."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Return the present metrics."""
        read = self._reader.read()
        sent = [one for one in read if isinstance(one, ProducerStatistics)]
        received = [one for one in read if isinstance(one, ConsumerStatistics)]
        labels, values_of = ["topic"], _topic
        yield from _families(CounterMetricFamily, PRODUCED, sent, labels, values_of)
        yield from _families(GaugeMetricFamily, WAITING, sent, labels, values_of)
        yield _latencies(sent)
        labels, values_of = ["topic", "subscription"], _subscription
        yield from _families(CounterMetricFamily, CONSUMED, received, labels, values_of)
        yield from _families(GaugeMetricFamily, QUEUED, received, labels, values_of)


def _topic(one: Any) -> list[str]:
    return [one.topic]


def _subscription(one: Any) -> list[str]:
    return [one.topic, one.subscription]


def _families(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    described: dict[str, tuple[str, str]],
    read: list[Any],
    labels: list[str],
    values_of: Callable[[Any], list[str]],
) -> Iterator[Metric]:
    for attribute, (name, text) in described.items():
        family = kind(name, text, labels=labels)
        for one in read:
            family.add_metric(values_of(one), getattr(one, attribute))
        yield family


def _latencies(sent: list[ProducerStatistics]) -> Metric:
    family = HistogramMetricFamily(*LATENCY, labels=["topic"])
    for one in sent:
        so_far = 0
        buckets = []
        for bound, count in zip([*map(str, LATENCY_BOUNDS_S), "+Inf"], one.latencies, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        family.add_metric([one.topic], buckets, sum_value=one.latency_s)
    return family
