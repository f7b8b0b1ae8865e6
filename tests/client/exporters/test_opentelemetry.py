"""Traces that messages carry, and metrics, as OpenTelemetry's exporters get them."""

import uuid
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import magnetar
import magnetar.sync
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import ManualClock
from magnetar.opentelemetry import TracingConsumer, TracingProducer, observe
from running_broker import RunningBroker


def new_topic() -> str:
    return f"persistent://public/default/traced-{uuid.uuid4().hex[:10]}"


class Traces:
    """A tracer provider, and what it has exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        """Those that have ended, of one kind."""
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]


@pytest.mark.parametrize("batching", [None, magnetar.BatchLimits()], ids=["single", "batched"])
async def test_the_span_of_a_receiver_is_below_that_of_the_sender(
    broker: RunningBroker, batching: magnetar.BatchLimits | None
) -> None:
    traces, topic = Traces(), new_topic()
    consuming = TracingConsumer(traces.provider)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "sub", interceptors=[consuming])
        producer = await client.producer(
            topic, batching=batching, interceptors=[TracingProducer(traces.provider)]
        )
        with traces.provider.get_tracer("app").start_as_current_span("request") as request:
            message_id = await producer.send(b"value")
        message = await consumer.receive(TIMEOUT_S)
        [sent] = traces.of(SpanKind.PRODUCER)
        assert sent.parent is not None and sent.context is not None
        assert sent.parent.span_id == request.get_span_context().span_id
        assert sent.name == f"send {topic}"
        assert sent.attributes is not None
        assert sent.attributes["messaging.system"] == "pulsar"
        assert sent.attributes["messaging.destination.name"] == topic
        assert sent.attributes["messaging.message.body.size"] == 5
        assert sent.attributes["messaging.message.id"] == message_id.text()
        assert message.properties.keys() == {"traceparent"}
        assert traces.of(SpanKind.CONSUMER) == []  # it is being processed
        current = trace.get_current_span(consuming.context_of(message)).get_span_context()
        consumer.ack(message)
        await consumer.flush()
        [processed] = traces.of(SpanKind.CONSUMER)
        assert processed.parent is not None and processed.context is not None
        assert processed.parent.span_id == sent.context.span_id
        assert processed.context.trace_id == sent.context.trace_id
        assert processed.context.span_id == current.span_id
        assert processed.name == f"process {topic}"
        assert processed.status.status_code is StatusCode.UNSET
        # Behind its end, what follows is below the producer's span.
        after = trace.get_current_span(consuming.context_of(message)).get_span_context()
        assert after.span_id == sent.context.span_id


async def test_a_message_that_is_not_stored_is_a_failure(broker: RunningBroker) -> None:
    traces = Traces()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(
            new_topic(), interceptors=[TracingProducer(traces.provider)]
        )
        with pytest.raises(magnetar.MagnetarError) as caught:
            await producer.send(bytes(6 << 20))
    [sent] = traces.of(SpanKind.PRODUCER)
    assert (sent.status.status_code, sent.status.description) == (
        StatusCode.ERROR, str(caught.value),
    )  # fmt: skip


async def test_what_is_given_back_is_a_failure_and_received_again(
    broker: RunningBroker, clock: ManualClock
) -> None:
    traces, topic = Traces(), new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "sub", type="shared", nack_delay_s=0.01,
            interceptors=[TracingConsumer(traces.provider)],
        )  # fmt: skip
        await (await client.producer(topic)).send_batch([b"0", b"1", b"2"])
        messages = await take(consumer, 3)
        consumer.ack(messages[:2])
        consumer.nack(messages[2])
        clock.advance(0.02)
        again = await consumer.receive(TIMEOUT_S)
        assert again.data == b"2"
        await consumer.close()
        statuses = [span.status.description for span in traces.of(SpanKind.CONSUMER)]
        assert statuses == [None, None, "negatively acknowledged", "not acknowledged"]


async def test_a_cumulative_acknowledgement_ends_all_before_it(broker: RunningBroker) -> None:
    traces, topic = Traces(), new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "sub", interceptors=[TracingConsumer(traces.provider)]
        )
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        messages = await take(consumer, 3)
        consumer.ack_up_to(messages[1])
        attributes = [dict(span.attributes or {}) for span in traces.of(SpanKind.CONSUMER)]
        ids = [one["messaging.message.id"] for one in attributes]
        assert ids == [m.id.text() for m in messages[:2]]


async def test_an_id_of_an_entry_ends_all_of_its_messages(broker: RunningBroker) -> None:
    traces, topic = Traces(), new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "sub", interceptors=[TracingConsumer(traces.provider)]
        )
        await (await client.producer(topic)).send_batch([b"0", b"1", b"2"])
        ledger, entry, *_ = (await take(consumer, 3))[-1].id
        consumer.ack_up_to_id(magnetar.MessageId(ledger, entry))
        assert len(traces.of(SpanKind.CONSUMER)) == 3


async def test_the_trace_of_a_message_that_is_passed_on_is_not_added(broker: RunningBroker) -> None:
    traces, topic = Traces(), new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "sub")
        producer = await client.producer(topic, interceptors=[TracingProducer(traces.provider)])
        former = {"traceparent": f"00-{1:032x}-{1:016x}-01", "tracestate": "a=b", "own": "c"}
        await producer.send(b"value", properties=former)
        found = (await consumer.receive(TIMEOUT_S)).properties
        assert found.keys() == {"traceparent", "own"}
        assert found["traceparent"] != former["traceparent"]


async def test_spans_that_are_never_acknowledged_are_bounded(broker: RunningBroker) -> None:
    traces, topic = Traces(), new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consuming = TracingConsumer(traces.provider, max_open=2)
        consumer = await client.subscribe(topic, "sub", interceptors=[consuming])
        await (await client.producer(topic)).send_batch([b"%d" % number for number in range(5)])
        await take(consumer, 5)
        assert len(traces.of(SpanKind.CONSUMER)) == 3


def figures(reader: InMemoryMetricReader) -> dict[str, tuple[float, dict[str, Any]]]:
    """By name: value and attributes, of the only series."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        [point] = metric.data.data_points
        found[metric.name] = getattr(point, "value", 0), dict(point.attributes or {})
    return found


def test_the_statistics_of_a_client_are_metrics(broker: RunningBroker) -> None:
    reader, topic = InMemoryMetricReader(), new_topic()
    with magnetar.sync.connect(broker.service_url) as client:
        observe(client, MeterProvider([reader]).get_meter("test"))
        consumer = client.subscribe(topic, "sub")
        producer = client.producer(topic)
        for number in range(3):
            producer.send(b"%d" % number)
        for _ in range(3):
            consumer.ack(consumer.receive(TIMEOUT_S))
        consumer.flush()
        found = figures(reader)
    assert found["pulsar.client.producer.message.send.count"] == (3, {"pulsar.topic": topic})
    assert found["pulsar.client.producer.message.pending.count"][0] == 0
    where = {"pulsar.topic": topic, "pulsar.subscription": "sub"}
    assert found["pulsar.client.consumer.message.received.count"] == (3, where)
    assert found["pulsar.client.consumer.message.ack"] == (3, where)
    assert found["pulsar.client.consumer.receive_queue.count"] == (0, where)
