"""Limits that protect the broker from its clients."""

from typing import Annotated, Literal

from magnetar_broker.config.domains import COUNT
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, IntegerOrAuto, Key


@section
class ClientLimits:
    """Limits of what clients use of the broker, before and after they have authenticated."""

    magnetar_handshake_timeout_seconds: Annotated[
        int,
        Key(
            "magnetarHandshakeTimeoutSeconds",
            COUNT,
            "Time limit from a client's connection until it is accepted, including TLS and "
            "authentication; 0 means no limit.",
            unit="s",
            dynamic=True,
        ),
    ] = 10
    magnetar_max_unauthenticated_connections: Annotated[
        int,
        Key(
            "magnetarMaxUnauthenticatedConnections",
            COUNT,
            "Maximum number of connections that are not accepted yet, for each worker if there "
            "are several. Above it, of the address with the most connections the oldest one is "
            "closed. 0 means no limit.",
            dynamic=True,
        ),
    ] = 1000
    magnetar_max_unauthenticated_connections_per_ip: Annotated[
        int,
        Key(
            "magnetarMaxUnauthenticatedConnectionsPerIp",
            COUNT,
            "Maximum number of connections from one address that are not accepted yet, for each "
            "worker if there are several. Above it, the oldest one is closed. 0 means no limit.",
            dynamic=True,
        ),
    ] = 200
    magnetar_receive_buffer_size_in_mb: Annotated[
        int | Literal["auto"],
        Key(
            "magnetarReceiveBufferSizeInMB",
            IntegerOrAuto(COUNT),
            "Maximum size of all incomplete frames and waiting commands, including those for "
            "another worker. Above it, the client whose frame began first is disconnected. "
            "Divided among several workers; auto is a sixteenth of the memory, from 64 to 1024. 0 "
            "means no limit.",
            unit="MB",
        ),
    ] = "auto"
    magnetar_send_buffer_size_in_mb: Annotated[
        int | Literal["auto"],
        Key(
            "magnetarSendBufferSizeInMB",
            IntegerOrAuto(COUNT),
            "Maximum size of the output for all clients whose sockets accept no more. Above it, "
            "the client that has not read for the longest time is disconnected. Divided among "
            "several workers; auto is a sixteenth of the memory, from 64 to 1024. 0 means no "
            "limit.",
            unit="MB",
        ),
    ] = "auto"
    magnetar_slow_reader_timeout_seconds: Annotated[
        int,
        Key(
            "magnetarSlowReaderTimeoutSeconds",
            COUNT,
            "Time after which a client is disconnected if output waits for it and its socket has "
            "not accepted a byte. It may take up to twice this time. 0 means no limit.",
            unit="s",
        ),
    ] = 60
    magnetar_max_producers_per_connection: Annotated[
        int,
        Key(
            "magnetarMaxProducersPerConnection",
            COUNT,
            "Maximum number of producers of one connection; 0 means no limit.",
            dynamic=True,
        ),
    ] = 100_000
    magnetar_max_consumers_per_connection: Annotated[
        int,
        Key(
            "magnetarMaxConsumersPerConnection",
            COUNT,
            "Maximum number of consumers of one connection; 0 means no limit.",
            dynamic=True,
        ),
    ] = 100_000
    magnetar_max_producer_metadata_size: Annotated[
        int,
        Key(
            "magnetarMaxProducerMetadataSize",
            COUNT,
            "Maximum number of characters of a producer's properties; 0 means no limit.",
            dynamic=True,
        ),
    ] = 65536
    max_http_server_connections: Annotated[
        int,
        Key(
            "maxHttpServerConnections",
            COUNT,
            "Maximum number of connections to the HTTP ports. Above it, of the address with the "
            "most connections the longest-idle one is closed. 0 means no limit.",
        ),
    ] = 2048
    magnetar_http_max_connections_per_ip: Annotated[
        int,
        Key(
            "magnetarHttpMaxConnectionsPerIp",
            COUNT,
            "Maximum number of connections to the HTTP ports from one address. Above it, the "
            "longest-idle connection from that address is closed. 0 means no limit.",
        ),
    ] = 0
    http_max_request_header_size: Annotated[
        int,
        Key(
            "httpMaxRequestHeaderSize",
            Integer(1024, 1 << 20),
            "Largest request line with all headers.",
            unit="bytes",
        ),
    ] = 8192
    http_max_request_size: Annotated[
        int,
        Key(
            "httpMaxRequestSize",
            Integer(-1),
            "Largest body of a request; -1 is 2 MB.",
            unit="bytes",
        ),
    ] = -1
    magnetar_http_header_timeout_seconds: Annotated[
        int,
        Key(
            "magnetarHttpHeaderTimeoutSeconds",
            COUNT,
            "Time from the first byte of a request to the end of its headers; 0 means no limit.",
            unit="s",
        ),
    ] = 10
    magnetar_http_body_timeout_seconds: Annotated[
        int,
        Key(
            "magnetarHttpBodyTimeoutSeconds",
            COUNT,
            "Time from the end of a request's headers to the end of its body; 0 means no limit.",
            unit="s",
        ),
    ] = 30
    http_server_idle_timeout: Annotated[
        int,
        Key(
            "httpServerIdleTimeout",
            COUNT,
            "Time that a connection waits for its first or next request; 0 means no limit.",
            unit="ms",
        ),
    ] = 30000
