"""Settings of a client, and the service URL."""

from dataclasses import dataclass

from magnetar.clock import EVENT_LOOP, Clock

TLS_SCHEME = "pulsar+ssl"
PORTS = {"pulsar": 6650, TLS_SCHEME: 6651}
"""The default port of each scheme."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one client, mostly timeouts: every wait for the broker ends by one of them."""

    connect_timeout_s: float = 10.0
    """Opening the socket and the handshake."""
    operation_timeout_s: float = 30.0
    """One request, and opening a producer, consumer or reader with all its retries."""
    keepalive_s: float = 30.0
    """After this long without a frame a connection is probed by a PING; after twice, closed."""
    discovery_s: float = 60.0
    """How often topics are looked at for new partitions, and patterns for new topics."""
    memory_limit: int = 0
    """Bytes of messages that may wait in the client: of producers for receipts, of consumers for
    the application; 0: no limit but those of each producer and consumer."""
    backoff_first_ms: int = 100
    backoff_max_ms: int = 10_000
    listener_name: str = ""
    """Of the broker's `advertisedListeners` the one whose addresses lookups answer."""
    clock: Clock = EVENT_LOOP
    """What the timeouts, timers and pauses of the client are measured with."""

    def __post_init__(self) -> None:
        if self.memory_limit < 0:
            raise ValueError(f"memory_limit must not be negative, but is {self.memory_limit}")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A broker's socket address, and whether it speaks TLS."""

    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_service_url(url: str) -> tuple[Address, ...]:
    """`pulsar://host[:port][,host[:port]...]`, or with `pulsar+ssl`, as addresses.

    ValueError if it is malformed.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in PORTS or not separator:
        raise ValueError(
            f"{url!r} is not a service URL: it must look like pulsar://host:6650 or "
            "pulsar+ssl://host:6651"
        )
    return tuple(_parse_address(part, url, scheme) for part in rest.rstrip("/").split(","))


def _parse_address(text: str, url: str, scheme: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, str(PORTS[scheme])
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{url!r}: {text!r} is not host:port")
    return Address(host, int(port), scheme == TLS_SCHEME)
