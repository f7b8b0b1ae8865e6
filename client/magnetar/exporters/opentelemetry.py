"""Traces and metrics of a client for OpenTelemetry; needs `magnetar[opentelemetry]`.

producer = await client.producer(topic, interceptors=[TracingProducer()])
consumer = await client.subscribe(topic, "sub", interceptors=[TracingConsumer()])
observe(client)

Names of spans and attributes follow OpenTelemetry's semantic conventions for messaging, names of
metrics follow PIP-342.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

import magnetar.sync
from magnetar.base.statistics import ConsumerStatistics, ProducerStatistics
from magnetar.client import Client
from magnetar.consuming.interceptors import ConsumerInterceptor
from magnetar.exporters.statistics_reader import StatisticsReader
from magnetar.messages import Message, Outgoing
from magnetar.producing.interceptors import ProducerInterceptor
from magnetar_proto.ids import MessageId

SCOPE = "magnetar"
"""The name of the instrumentation scope."""
MAX_OPEN = 10_000
"""The limit of open spans of messages not acknowledged; beyond it, the oldest span ends."""

PRODUCED = {
    "messages": ("pulsar.client.producer.message.send.count", "{message}"),
    "bytes": ("pulsar.client.producer.message.send.size", "By"),
    "failed_messages": ("pulsar.client.producer.message.send.failures", "{message}"),
    "latency_s": ("pulsar.client.producer.message.send.duration.total", "s"),
}
PENDING = {
    "pending_messages": ("pulsar.client.producer.message.pending.count", "{message}"),
    "pending_bytes": ("pulsar.client.producer.message.pending.size", "By"),
}
CONSUMED = {
    "messages": ("pulsar.client.consumer.message.received.count", "{message}"),
    "bytes": ("pulsar.client.consumer.message.received.size", "By"),
    "acked_entries": ("pulsar.client.consumer.message.ack", "{entry}"),
    "nacked_entries": ("pulsar.client.consumer.message.nack", "{entry}"),
    "timed_out_entries": ("pulsar.client.consumer.message.ack.timeout", "{entry}"),
    "redelivered_entries": ("pulsar.client.consumer.message.redelivered", "{entry}"),
    "unreadable_entries": ("pulsar.client.consumer.message.unreadable", "{entry}"),
}
QUEUED = {"queued_messages": ("pulsar.client.consumer.receive_queue.count", "{message}")}
"""The name and unit of the metric, by attribute of the statistics."""


class TracingProducer(ProducerInterceptor):
    """Records a span for each message, from `send` to receipt; the message carries its context.

    The context is in the message's properties, as the global propagator writes it: `traceparent`.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Create an interceptor; without a provider it uses the global one."""
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)
        self._open: dict[int, Span] = {}

    def before_send(self, topic: str, message: Outgoing) -> Outgoing:
        """Start the span, as a child of the application's current span."""
        attributes: dict[str, Any] = _attributes(topic, "send", "send", len(message.value))
        span = self._tracer.start_span(f"send {topic}", None, SpanKind.PRODUCER, attributes)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        self._open[span.get_span_context().span_id] = span
        # Properties copied from a received message would add its trace to this one.
        former = propagate.get_global_textmap().fields
        own = {name: text for name, text in message.properties.items() if name not in former}
        return replace(message, properties=own | carrier)

    def on_receipt(
        self,
        topic: str,
        message: Outgoing,
        message_id: MessageId | None,
        error: BaseException | None,
    ) -> None:
        """End the span of the message, with its id or with the error that prevented the receipt."""
        carried = trace.get_current_span(propagate.extract(message.properties, Context()))
        span = self._open.pop(carried.get_span_context().span_id, None)
        if span is None:
            return
        if message_id is not None:
            span.set_attribute("messaging.message.id", message_id.text())
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def close(self) -> None:
        """End the spans of messages without receipt."""
        for span in self._open.values():
            span.set_status(Status(StatusCode.ERROR, "the producer was closed before the receipt"))
            span.end()
        self._open.clear()


class TracingConsumer(ConsumerInterceptor):
    """Records a span for each message, from its reception until it is acknowledged or returned.

    It is a child of the producer's span.  Attach `context_of` while a message is processed: spans
    that the application starts then, also by sending messages, are its children.
    """

    def __init__(self, provider: TracerProvider | None = None, max_open: int = MAX_OPEN) -> None:
        """Create an interceptor; without a provider it uses the global one."""
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)
        self._max_open = max_open
        self._open: OrderedDict[tuple[str, MessageId], Span] = OrderedDict()

    def context_of(self, message: Message[Any]) -> Context:
        """Return the context of the message's span; that of its producer if the span has ended."""
        span = self._open.get((message.topic, message.id))
        if span is None:
            return propagate.extract(message.properties, Context())
        return trace.set_span_in_context(span)

    def before_consume(self, message: Message[Any]) -> Message[Any]:
        """Start the span of a message."""
        attributes = _attributes(message.topic, "process", "process", len(message.data))
        attributes["messaging.message.id"] = message.id.text()
        parent = propagate.extract(message.properties, Context())
        span = self._tracer.start_span(
            f"process {message.topic}", parent, SpanKind.CONSUMER, attributes
        )
        key = message.topic, message.id
        self._end([key], "delivered again")
        self._open[key] = span
        if len(self._open) > self._max_open:
            self._end([next(iter(self._open))], "not acknowledged")
        return message

    def on_ack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """End the spans of the acknowledged messages."""
        self._end([(topic, message_id) for message_id in ids])

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """End the spans of all messages up to and including this one."""
        # The id of an entry stands for all messages in it.
        end = message_id[: 3 if message_id.batch_index >= 0 else 2]
        self._end([key for key in self._open if key[0] == topic and key[1][: len(end)] <= end])

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """End the spans of the messages in these entries as failed."""
        self._end(self._of_entries(topic, ids), "negatively acknowledged")

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """End the spans of the messages in these entries as failed."""
        self._end(self._of_entries(topic, ids), "not acknowledged in time")

    def close(self) -> None:
        """End the spans of messages that were not acknowledged."""
        self._end(list(self._open), "not acknowledged")

    def _of_entries(self, topic: str, ids: Sequence[MessageId]) -> list[tuple[str, MessageId]]:
        entries = {(one.ledger, one.entry) for one in ids}
        return [
            key
            for key in self._open
            if key[0] == topic and (key[1].ledger, key[1].entry) in entries
        ]

    def _end(self, keys: Iterable[tuple[str, MessageId]], failure: str = "") -> None:
        for key in keys:
            span = self._open.pop(key, None)
            if span is not None:
                if failure:
                    span.set_status(Status(StatusCode.ERROR, failure))
                span.end()


def observe(client: Client | magnetar.sync.Client, meter: Meter | None = None) -> None:
    """Export a client's statistics as metrics of a meter, by default of the global provider.

    Call it where the client is used: in its event loop, or for one of `magnetar.sync` anywhere.
    Attributes are `pulsar.topic` and, for consumers, `pulsar.subscription`.
    """
    reader = StatisticsReader(client)
    meter = meter or metrics.get_meter(SCOPE)
    for kind, described in ((ProducerStatistics, PRODUCED), (ConsumerStatistics, CONSUMED)):
        for attribute, (name, unit) in described.items():
            meter.create_observable_counter(name, [_reading(reader, kind, attribute)], unit)
    for kind, described in ((ProducerStatistics, PENDING), (ConsumerStatistics, QUEUED)):
        for attribute, (name, unit) in described.items():
            meter.create_observable_up_down_counter(name, [_reading(reader, kind, attribute)], unit)


def _reading(
    reader: StatisticsReader,
    kind: type[ProducerStatistics] | type[ConsumerStatistics],
    attribute: str,
) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def read(options: CallbackOptions) -> Iterator[Observation]:
        for one in reader.read():
            if isinstance(one, kind):
                labels = {"pulsar.topic": one.topic}
                if isinstance(one, ConsumerStatistics):
                    labels["pulsar.subscription"] = one.subscription
                yield Observation(getattr(one, attribute), labels)

    return read


def _attributes(topic: str, name: str, kind: str, size: int) -> dict[str, Any]:
    return {
        "messaging.system": "pulsar",
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.message.body.size": size,
    }
