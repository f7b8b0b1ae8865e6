"""Limits that protect the broker from its clients."""

from typing import Literal

from magnetar_broker.config.domains import COUNT
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer, IntegerOrAuto


@section("Limits of clients")
class ClientLimits:
    """Limits of what clients use of the broker, before and after they have authenticated."""

    magnetar_handshake_timeout_seconds: int = setting(
        COUNT,
        "Time limit from a client's connection until it is accepted, including TLS and "
        "authentication; 0 means no limit.",
        default=10,
        unit="s",
        dynamic=True,
    )
    magnetar_max_unauthenticated_connections: int = setting(
        COUNT,
        "Maximum number of connections that are not accepted yet, for each worker if there "
        "are several. Above it, of the address with the most connections the oldest one is "
        "closed. 0 means no limit.",
        default=1000,
        dynamic=True,
    )
    magnetar_max_unauthenticated_connections_per_ip: int = setting(
        COUNT,
        "Maximum number of connections from one address that are not accepted yet, for each "
        "worker if there are several. Above it, the oldest one is closed. 0 means no limit.",
        default=200,
        dynamic=True,
    )
    magnetar_receive_buffer_size_in_mb: int | Literal["auto"] = setting(
        IntegerOrAuto(COUNT),
        "Maximum size of all incomplete frames and waiting commands, including those for "
        "another worker. Above it, the client whose frame began first is disconnected. "
        "Divided among several workers; auto is a sixteenth of the memory, from 64 to 1024. 0 "
        "means no limit.",
        default="auto",
        name="magnetarReceiveBufferSizeInMB",
        unit="MB",
    )
    magnetar_send_buffer_size_in_mb: int | Literal["auto"] = setting(
        IntegerOrAuto(COUNT),
        "Maximum size of the output for all clients whose sockets accept no more. Above it, "
        "the client that has not read for the longest time is disconnected. Divided among "
        "several workers; auto is a sixteenth of the memory, from 64 to 1024. 0 means no "
        "limit.",
        default="auto",
        name="magnetarSendBufferSizeInMB",
        unit="MB",
    )
    magnetar_slow_reader_timeout_seconds: int = setting(
        COUNT,
        "Time after which a client is disconnected if output waits for it and its socket has "
        "not accepted a byte. It may take up to twice this time. 0 means no limit.",
        default=60,
        unit="s",
    )
    magnetar_max_producers_per_connection: int = setting(
        COUNT,
        "Maximum number of producers of one connection; 0 means no limit.",
        default=100_000,
        dynamic=True,
    )
    magnetar_max_consumers_per_connection: int = setting(
        COUNT,
        "Maximum number of consumers of one connection; 0 means no limit.",
        default=100_000,
        dynamic=True,
    )
    magnetar_max_producer_metadata_size: int = setting(
        COUNT,
        "Maximum number of characters of a producer's properties; 0 means no limit.",
        default=65536,
        dynamic=True,
    )
    max_http_server_connections: int = setting(
        COUNT,
        "Maximum number of connections to the HTTP ports. Above it, of the address with the "
        "most connections the longest-idle one is closed. 0 means no limit.",
        default=2048,
    )
    magnetar_http_max_connections_per_ip: int = setting(
        COUNT,
        "Maximum number of connections to the HTTP ports from one address. Above it, the "
        "longest-idle connection from that address is closed. 0 means no limit.",
        default=0,
    )
    http_max_request_header_size: int = setting(
        Integer(1024, 1 << 20),
        "Largest request line with all headers.",
        default=8192,
        unit="bytes",
    )
    http_max_request_size: int = setting(
        Integer(-1),
        "Largest body of a request; -1 is 2 MB.",
        default=-1,
        unit="bytes",
    )
    magnetar_http_header_timeout_seconds: int = setting(
        COUNT,
        "Time from the first byte of a request to the end of its headers; 0 means no limit.",
        default=10,
        unit="s",
    )
    magnetar_http_body_timeout_seconds: int = setting(
        COUNT,
        "Time from the end of a request's headers to the end of its body; 0 means no limit.",
        default=30,
        unit="s",
    )
    http_server_idle_timeout: int = setting(
        COUNT,
        "Time that a connection waits for its first or next request; 0 means no limit.",
        default=30000,
        unit="ms",
    )
