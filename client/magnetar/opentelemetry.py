"""Traces and metrics of a client for OpenTelemetry."""

from magnetar.exporters.opentelemetry import TracingConsumer, TracingProducer, observe

__all__ = ["TracingConsumer", "TracingProducer", "observe"]
