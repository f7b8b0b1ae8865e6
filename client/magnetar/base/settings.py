"""Settings of a client, and the service URL."""

from dataclasses import dataclass

from magnetar.clock import EVENT_LOOP, Clock

TLS_SCHEME = "pulsar+ssl"
PORTS = {"pulsar": 6650, TLS_SCHEME: 6651}
"""The default port of each scheme."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one client; most are timeouts, and every wait for the broker has one."""

    connect_timeout_s: float = 10.0
    """The time limit of opening the socket and of the handshake."""
    operation_timeout_s: float = 30.0
    """The seconds that a request, or opening a producer or consumer with all retries, may take."""
    keepalive_s: float = 30.0
    """The time without a frame after which a connection is probed by PING; after twice, closed."""
    discovery_s: float = 60.0
    """The interval of looking for new partitions of topics, and new topics of patterns."""
    memory_limit: int = 0
    """The limit of the bytes of messages that wait in the client: of producers for receipts, of
    consumers for the application; 0: no limit but those of each producer and consumer."""
    backoff_first_ms: int = 100
    backoff_max_ms: int = 10_000
    listener_name: str = ""
    """The name of the broker's `advertisedListeners` whose addresses lookups return."""
    clock: Clock = EVENT_LOOP
    """The clock of the timeouts, timers and pauses of the client."""

    def __post_init__(self) -> None:
        if self.memory_limit < 0:
            raise ValueError(f"memory_limit must not be negative, but is {self.memory_limit}")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A broker's socket address, and whether it uses TLS."""

    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_service_url(url: str) -> tuple[Address, ...]:
    """Parse `pulsar://host[:port][,host[:port]...]`, or with `pulsar+ssl`, into addresses.

    ValueError if the URL is malformed.
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
