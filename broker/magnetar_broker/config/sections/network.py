"""Where the broker listens, and whom it lets in."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, HOST, NAME, PORT
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Blank, Key


@section
class Network:
    """The broker among its clients."""

    broker_service_port: Annotated[
        int,
        Key(
            "brokerServicePort",
            PORT,
            "Where clients connect; 0 takes any free port.",
            blank=Blank.REFUSED,
        ),
    ] = 6650
    web_service_port: Annotated[
        int | None,
        Key(
            "webServicePort",
            PORT,
            "Admin REST, lookups and metrics over HTTP; 0 takes any free port, blank opens none.",
            blank=Blank.NONE,
        ),
    ] = 8080
    bind_address: Annotated[
        str,
        Key(
            "bindAddress",
            HOST,
            "The address to listen on; 0.0.0.0 is every interface.",
            pulsar="0.0.0.0",
        ),
    ] = "127.0.0.1"
    advertised_address: Annotated[
        str | None,
        Key(
            "advertisedAddress",
            HOST,
            "What lookups tell clients to connect to; blank is the bind address, or the host's "
            "name when bound to every interface.",
        ),
    ] = None
    cluster_name: Annotated[
        str,
        Key(
            "clusterName",
            NAME,
            "The cluster's name in metrics and in the names of producers that bring none.",
            pulsar="",
        ),
    ] = "standalone"
    broker_max_connections: Annotated[
        int,
        Key("brokerMaxConnections", COUNT, "Connections in all; 0 is no limit.", pulsar="0"),
    ] = 10000
    broker_max_connections_per_ip: Annotated[
        int,
        Key("brokerMaxConnectionsPerIp", COUNT, "Connections from one address; 0 is no limit."),
    ] = 0
    keep_alive_interval_seconds: Annotated[
        int,
        Key(
            "keepAliveIntervalSeconds",
            COUNT,
            "How often an idle client is pinged; one that stays silent for a second interval is "
            "disconnected. 0 never pings.",
            unit="s",
        ),
    ] = 30
    connection_liveness_check_timeout_millis: Annotated[
        int,
        Key(
            "connectionLivenessCheckTimeoutMillis",
            COUNT,
            "How long a connection that holds a contested name has to answer a ping; 0 does not "
            "ask.",
            unit="ms",
        ),
    ] = 5000
    broker_shutdown_timeout_ms: Annotated[
        int,
        Key(
            "brokerShutdownTimeoutMs",
            COUNT,
            "How long a stop may take before the process ends anyway.",
            unit="ms",
        ),
    ] = 60000
