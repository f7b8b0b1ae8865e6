"""Limits that protect the broker from its clients."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Key


@section
class ClientLimits:
    """What clients may take of the broker before and after they have authenticated."""

    magnetar_handshake_timeout_seconds: Annotated[
        int,
        Key(
            "magnetarHandshakeTimeoutSeconds",
            COUNT,
            "Time that a client has from its connection until it is accepted, TLS and "
            "authentication included; 0 is no limit.",
            unit="s",
            dynamic=True,
        ),
    ] = 10
    magnetar_max_unauthenticated_connections: Annotated[
        int,
        Key(
            "magnetarMaxUnauthenticatedConnections",
            COUNT,
            "Most connections that are not accepted yet, of each worker if there are several; "
            "above it the oldest one of the address that has most is closed. 0 is no limit.",
            dynamic=True,
        ),
    ] = 1000
    magnetar_max_unauthenticated_connections_per_ip: Annotated[
        int,
        Key(
            "magnetarMaxUnauthenticatedConnectionsPerIp",
            COUNT,
            "Most connections from one address that are not accepted yet, to each worker if there "
            "are several; above it the oldest one is closed. 0 is no limit.",
            dynamic=True,
        ),
    ] = 200
