"""Limits publishing: a connection above a limit is not read from until it has a turn."""

from collections.abc import Sequence

from magnetar_broker.producers.producer import PublishRun
from magnetar_broker.rates.rate_limit import RateLimit


def throttle(run: PublishRun, limits: Sequence[RateLimit]) -> None:
    """Count a run; while a limit is exceeded, nothing more is read from its connection.

    The run itself is never refused: it was received already, and its client waits for receipts.
    """
    messages, connection = sum(run.counts), run.producer.connection
    for limit in limits:
        limit.take(messages, run.size)
        if limit.wait_ms > 0 and not limit.has_waiter(connection):
            limit.wait(connection, connection.hold_reading())
