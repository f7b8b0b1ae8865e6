"""Processes; addresses, ports and limits of connections."""

from typing import Annotated, Literal

from magnetar_broker.config.domains import COUNT, FLAG, HOST, NAME, PATH, PORT, WORKERS
from magnetar_broker.config.listeners import AdvertisedListener, Listeners
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Blank, Integer, Key


@section
class Processes:
    """The processes of the broker."""

    magnetar_workers: Annotated[
        int | Literal["auto"],
        Key(
            "magnetarWorkers",
            WORKERS,
            "Number of processes that serve topics; auto is the number of cores that the broker "
            "may use. With 1 the broker is one process. With more, each process is a worker with "
            "a part of the topics, beside a controller for names and HTTP, and a supervisor that "
            "restarts them.",
        ),
    ] = 1
    metadata_store_session_timeout_millis: Annotated[
        int,
        Key(
            "metadataStoreSessionTimeoutMillis",
            Integer(1000),
            "How long a process among several may fail to report that its event loop runs. The "
            "supervisor then kills it and starts it again.",
            unit="ms",
        ),
    ] = 30_000


@section
class Audit:
    """The audit log: changes over HTTP, and requests that lack a permission."""

    magnetar_audit_log_file: Annotated[
        str | None,
        Key(
            "magnetarAuditLogFile",
            PATH,
            "File of the audit log, with one JSON object per line; it is opened again when it was "
            "moved away. If blank, the lines go to the broker's log, from the logger "
            "`magnetar.audit`.",
        ),
    ] = None
    magnetar_audit_refusals_per_second: Annotated[
        int,
        Key(
            "magnetarAuditRefusalsPerSecond",
            Integer(1),
            "Maximum number of refused requests in the audit log per second; of the others it "
            "only has the number. Changes that took place are always in it.",
        ),
    ] = 20


@section
class Network:
    """Listening, advertised addresses and connections."""

    broker_service_port: Annotated[
        int | None,
        Key(
            "brokerServicePort",
            PORT,
            "Port of the binary protocol; 0 takes any free port, blank opens none, which needs "
            "`brokerServicePortTls`.",
            blank=Blank.NONE,
        ),
    ] = 6650
    web_service_port: Annotated[
        int | None,
        Key(
            "webServicePort",
            PORT,
            "Port of the admin REST API, HTTP lookups and metrics; 0 takes any free port, blank "
            "opens none.",
            blank=Blank.NONE,
        ),
    ] = 8080
    bind_address: Annotated[
        str,
        Key(
            "bindAddress",
            HOST,
            "The address to listen on; 0.0.0.0 is every interface.",
            pulsar="0.0.0.0",  # shown in the documentation
        ),
    ] = "127.0.0.1"
    allow_unauthenticated_bind: Annotated[
        bool,
        Key(
            "magnetarAllowUnauthenticatedBind",
            FLAG,
            "Start without authentication although `bindAddress` is not loopback: everyone who "
            "reaches the broker may do everything.",
        ),
    ] = False
    advertised_address: Annotated[
        str | None,
        Key(
            "advertisedAddress",
            HOST,
            "The address that lookups return to clients; blank is bindAddress, or the host's name "
            "if that is every interface.",
        ),
    ] = None
    advertised_listeners: Annotated[
        tuple[AdvertisedListener, ...],
        Key(
            "advertisedListeners",
            Listeners(),
            "Addresses of this broker by listener name. A client that names a listener gets "
            "that listener's addresses from lookups; a name that is not here is refused.",
        ),
    ] = ()
    internal_listener_name: Annotated[
        str | None,
        Key(
            "internalListenerName",
            NAME,
            "The listener for clients that name none; blank is the first of "
            "`advertisedListeners`. Where it has no address of a scheme, such clients get the "
            "first address of that scheme. Without `advertisedListeners` clients get "
            "`advertisedAddress`.",
        ),
    ] = None
    cluster_name: Annotated[
        str,
        Key(
            "clusterName",
            NAME,
            "Name of the cluster in metrics and in generated names of producers.",
            pulsar="",
        ),
    ] = "standalone"
    broker_max_connections: Annotated[
        int,
        Key(
            "brokerMaxConnections",
            COUNT,
            "Maximum number of accepted connections of clients, for each worker if there are "
            "several; 0 means no limit.",
            pulsar="0",
            dynamic=True,
        ),
    ] = 10000
    broker_max_connections_per_ip: Annotated[
        int,
        Key(
            "brokerMaxConnectionsPerIp",
            COUNT,
            "Maximum number of accepted connections from one address, for each worker if there "
            "are several; 0 means no limit.",
            dynamic=True,
        ),
    ] = 0
    keep_alive_interval_seconds: Annotated[
        int,
        Key(
            "keepAliveIntervalSeconds",
            COUNT,
            "Interval after which an idle client is pinged; without an answer within another "
            "interval it is disconnected. 0 never pings.",
            unit="s",
            of_workers=True,
        ),
    ] = 30
    connection_liveness_check_timeout_millis: Annotated[
        int,
        Key(
            "connectionLivenessCheckTimeoutMillis",
            COUNT,
            "Time that the connection of an existing producer or consumer has to answer a ping "
            "when a competing one connects; 0 does not ping.",
            unit="ms",
            of_workers=True,
        ),
    ] = 5000
    broker_shutdown_timeout_ms: Annotated[
        int,
        Key(
            "brokerShutdownTimeoutMs",
            COUNT,
            "Time limit of a graceful stop, after which every process is ended.",
            unit="ms",
        ),
    ] = 60000
