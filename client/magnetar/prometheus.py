"""Statistics of a client for Prometheus."""

from magnetar.exporters.prometheus import ClientCollector

__all__ = ["ClientCollector"]
