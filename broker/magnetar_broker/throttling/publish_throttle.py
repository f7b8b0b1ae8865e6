"""Limits publishing: a connection above a limit is not read from until it has a turn."""

from collections.abc import Sequence

from magnetar_broker.base.connection import Connection
from magnetar_broker.throttling.rate_limit import RateLimit


def throttle(connection: Connection, messages: int, size: int, limits: Sequence[RateLimit]) -> None:
    """Count a run; while a limit is exceeded, nothing more is read from its connection.

    The run itself is never refused: it was received already, and its client waits for receipts.
    """
    for limit in limits:
        limit.take(messages, size)
        if limit.wait_ms > 0 and not limit.has_waiter(connection):
            limit.wait(connection, connection.hold_reading())
