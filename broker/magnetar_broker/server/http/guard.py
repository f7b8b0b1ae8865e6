"""Limits of HTTP connections: their number, the time and the memory that each may take."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from magnetar_broker.base.networks import network_of
from magnetar_broker.config import Settings
from magnetar_broker.limits.held_bytes import HeldBytes, Holder, buffer_bytes
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_storage.runtime.execution import Clock

AUTO_BUFFER_MB = 64
"""The limit of bodies and of answers, in MB each, if the memory of the machine is not known."""


MAX_BODY = 2 << 20
"""The most bytes of a body, unless the settings say otherwise."""


@dataclass(frozen=True)
class HttpLimits:
    """The limits of an HTTP port.  0 means no limit, except for the sizes."""

    connections: int = 2048
    connections_of_address: int = 0
    head_bytes: int = 8192
    body_bytes: int = MAX_BODY
    head_seconds: float = 10.0
    """The seconds from the first byte of a request to the end of its headers."""
    body_seconds: float = 30.0
    """The time from the end of the headers to the end of the body."""
    idle_seconds: float = 30.0
    """The time from the connection, or the end of an answer, to the first byte of a request."""
    slow_reader_seconds: int = 60
    receive_mb: int | Literal["auto"] = "auto"
    send_mb: int | Literal["auto"] = "auto"

    @classmethod
    def of(cls, settings: Settings) -> "HttpLimits":
        """Return the limits that the settings declare."""
        return cls(
            settings.max_http_server_connections,
            settings.magnetar_http_max_connections_per_ip,
            settings.http_max_request_header_size,
            MAX_BODY if settings.http_max_request_size < 0 else settings.http_max_request_size,
            settings.magnetar_http_header_timeout_seconds,
            settings.magnetar_http_body_timeout_seconds,
            settings.http_server_idle_timeout / 1000,
            settings.magnetar_slow_reader_timeout_seconds,
            settings.magnetar_receive_buffer_size_in_mb,
            settings.magnetar_send_buffer_size_in_mb,
        )


class HttpGuard:
    """The connections of one HTTP port: each enters, waits between requests, and leaves."""

    def __init__(
        self,
        limits: HttpLimits,
        clock: Clock,
        reached: ReachedLimits,
    ) -> None:
        self.limits = limits
        self.reached = reached
        self.bodies = HeldBytes(
            buffer_bytes(limits.receive_mb, AUTO_BUFFER_MB),
            reached,
            ClientLimit.HTTP_BUFFER,
            "magnetarReceiveBufferSizeInMB",
        )
        answers = HeldBytes(
            buffer_bytes(limits.send_mb, AUTO_BUFFER_MB),
            reached,
            ClientLimit.SEND_BUFFER,
            "magnetarSendBufferSizeInMB",
        )
        self.readers = SlowReaders(clock, limits.slow_reader_seconds, answers, reached)
        self._hosts: dict[Holder, str] = {}
        self._connections_from: Counter[str] = Counter()
        self._waiting: dict[str, dict[Holder, None]] = {}
        """Connections without a complete request, by address, the longest wait first."""

    def enter(self, connection: Holder, host: str) -> bool:
        """Admit a connection, closing a waiting one if need be; False if the new one must close."""
        host = network_of(host)  # promise: an IPv6 network counts as one address for HTTP
        limit, name = self.limits.connections_of_address, "magnetarHttpMaxConnectionsPerIp"
        if 0 < limit <= self._connections_from[host]:
            self.reached.count(ClientLimit.HTTP_CONNECTIONS_OF_ADDRESS, name, host)
            if not self._end_oldest(host):
                return False
        limit, name = self.limits.connections, "maxHttpServerConnections"
        if 0 < limit <= len(self._hosts):
            self.reached.count(ClientLimit.HTTP_CONNECTIONS, name, host)
            most = max(self._waiting, key=lambda one: len(self._waiting[one]), default="")
            # promise[always]: one HTTP connection too many ends an idle one
            if not self._end_oldest(most):
                return False
        self._hosts[connection] = host
        self._connections_from[host] += 1
        self.waits(connection)
        return True

    def waits(self, connection: Holder) -> None:
        """Note that a connection waits for a request."""
        host = self._hosts.get(connection)
        if host is not None:
            self._waiting.setdefault(host, {})[connection] = None

    def works(self, connection: Holder) -> None:
        """Note that a connection's request is complete, and is being answered."""
        host = self._hosts.get(connection)
        if host is not None:
            self._remove(connection, host)

    def leave(self, connection: Holder) -> None:
        """Note that a connection is closed."""
        self.bodies.hold(connection, 0)
        host = self._hosts.pop(connection, None)
        if host is None:
            return
        self._remove(connection, host)
        self._connections_from[host] -= 1
        if not self._connections_from[host]:
            del self._connections_from[host]

    def _remove(self, connection: Holder, host: str) -> None:
        of_host = self._waiting.get(host, {})
        of_host.pop(connection, None)
        if not of_host:
            self._waiting.pop(host, None)

    def _end_oldest(self, host: str) -> bool:
        of_host = self._waiting.get(host)
        if not of_host:
            return False
        oldest = next(iter(of_host))
        self.leave(oldest)
        oldest.give_up()
        return True
