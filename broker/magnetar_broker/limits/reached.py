"""Counts of how often clients have reached a limit of this process, for metrics and the log."""

import logging
from enum import StrEnum

from magnetar_broker.base.rare_log import RareLog
from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger(__name__)


class ClientLimit(StrEnum):
    """A limit that protects the broker from its clients; the value is a label of the metric."""

    HANDSHAKE = "handshake_time", "a client did not complete its handshake in time"
    HALF_OPEN = "unauthenticated_connections", "the oldest unauthenticated connection made room"
    HALF_OPEN_OF_ADDRESS = (
        "unauthenticated_connections_per_ip",
        "the oldest unauthenticated connection of its address made room",
    )
    CONNECTIONS = "connections", "a connection was refused"
    CONNECTIONS_OF_ADDRESS = "connections_per_ip", "a connection was refused"
    RECEIVE_BUFFER = "receive_buffer", "a client was disconnected whose frame was not complete"
    SEND_BUFFER = "send_buffer", "a client was disconnected that did not read what it was sent"
    SLOW_READER = "slow_reader", "a client was disconnected that read nothing for too long"
    FRAME = "frame_size", "a client was disconnected that sent too large a frame"
    HTTP_CONNECTIONS = "http_connections", "the HTTP connection that was idle for longest made room"
    HTTP_CONNECTIONS_OF_ADDRESS = (
        "http_connections_per_ip",
        "the HTTP connection of its address that was idle for longest made room",
    )
    HTTP_TIME = "http_request_time", "an HTTP request was not complete in time"
    HTTP_SIZE = "http_request_size", "an HTTP request was refused"
    HTTP_BUFFER = "http_receive_buffer", "an HTTP connection was closed whose body was not complete"

    text: str

    def __new__(cls, value: str, text: str) -> "ClientLimit":
        made = str.__new__(cls, value)
        made._value_ = value
        made.text = text
        return made


class ReachedLimits:
    """Counts the limits that clients reach, and logs the first of each kind in an interval."""

    def __init__(self, clock: Clock) -> None:
        self.counts: dict[str, int] = {limit.value: 0 for limit in ClientLimit}
        self._log = RareLog(logger, logging.WARNING, clock)

    def count(self, limit: ClientLimit, setting: str, address: str) -> None:
        """Count a client at this address that has reached a limit, which this setting sets."""
        self.counts[limit] += 1
        what = f"{limit.text} ({setting})"
        self._log.write(limit, f"{address or 'a client'}: {what}", what)
