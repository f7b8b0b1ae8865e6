"""Processes; addresses, ports and limits of connections."""

from typing import Literal

from magnetar_broker.config.domains import COUNT, FLAG, HOST, NAME, PATH, PORT, WORKERS
from magnetar_broker.config.listeners import AdvertisedListener, Listeners
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Blank, Integer


@section("Processes")
class Processes:
    """The processes of the broker."""

    magnetar_workers: int | Literal["auto"] = setting(
        WORKERS,
        "Number of processes that serve topics; auto is the number of cores that the broker "
        "may use. With 1 the broker is one process. With more, each process is a worker with "
        "a part of the topics, beside a controller for names and HTTP, and a supervisor that "
        "restarts them.",
        default=1,
    )
    metadata_store_session_timeout_millis: int = setting(
        Integer(1000),
        "How long a process among several may fail to report that its event loop runs. The "
        "supervisor then kills it and starts it again.",
        default=30_000,
        unit="ms",
    )


@section("Audit log")
class Audit:
    """The audit log: changes over HTTP, and requests that lack a permission."""

    magnetar_audit_log_file: str | None = setting(
        PATH,
        "File of the audit log, with one JSON object per line; it is opened again when it was "
        "moved away. If blank, the lines go to the broker's log, from the logger "
        "`magnetar.audit`.",
        default=None,
    )
    magnetar_audit_refusals_per_second: int = setting(
        Integer(1),
        "Maximum number of refused requests in the audit log per second; of the others it "
        "only has the number. Changes that took place are always in it.",
        default=20,
    )


@section("Network")
class Network:
    """Listening, advertised addresses and connections."""

    broker_service_port: int | None = setting(
        PORT,
        "Port of the binary protocol; 0 takes any free port, blank opens none, which needs "
        "`brokerServicePortTls`.",
        default=6650,
        blank=Blank.NONE,
    )
    web_service_port: int | None = setting(
        PORT,
        "Port of the admin REST API, HTTP lookups and metrics; 0 takes any free port, blank "
        "opens none.",
        default=8080,
        blank=Blank.NONE,
    )
    bind_address: str = setting(
        HOST,
        "The address to listen on; 0.0.0.0 is every interface.",
        default="127.0.0.1",
        pulsar="0.0.0.0",  # shown in the documentation
    )
    allow_unauthenticated_bind: bool = setting(
        FLAG,
        "Start without authentication although `bindAddress` is not loopback: everyone who "
        "reaches the broker may do everything.",
        default=False,
        name="magnetarAllowUnauthenticatedBind",
    )
    advertised_address: str | None = setting(
        HOST,
        "The address that lookups return to clients; blank is bindAddress, or the host's name "
        "if that is every interface.",
        default=None,
    )
    advertised_listeners: tuple[AdvertisedListener, ...] = setting(
        Listeners(),
        "Addresses of this broker by listener name. A client that names a listener gets "
        "that listener's addresses from lookups; a name that is not here is refused.",
        default=(),
    )
    internal_listener_name: str | None = setting(
        NAME,
        "The listener for clients that name none; blank is the first of "
        "`advertisedListeners`. Where it has no address of a scheme, such clients get the "
        "first address of that scheme. Without `advertisedListeners` clients get "
        "`advertisedAddress`.",
        default=None,
    )
    cluster_name: str = setting(
        NAME,
        "Name of the cluster in metrics and in generated names of producers.",
        default="standalone",
        pulsar="",
    )
    broker_max_connections: int = setting(
        COUNT,
        "Maximum number of accepted connections of clients, for each worker if there are "
        "several; 0 means no limit.",
        default=10000,
        pulsar="0",
        dynamic=True,
    )
    broker_max_connections_per_ip: int = setting(
        COUNT,
        "Maximum number of accepted connections from one address, for each worker if there "
        "are several; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    keep_alive_interval_seconds: int = setting(
        COUNT,
        "Interval after which an idle client is pinged; without an answer within another "
        "interval it is disconnected. 0 never pings.",
        default=30,
        unit="s",
        of_workers=True,
    )
    connection_liveness_check_timeout_millis: int = setting(
        COUNT,
        "Time that the connection of an existing producer or consumer has to answer a ping "
        "when a competing one connects; 0 does not ping.",
        default=5000,
        unit="ms",
        of_workers=True,
    )
    broker_shutdown_timeout_ms: int = setting(
        COUNT,
        "Time limit of a graceful stop, after which every process is ended.",
        default=60000,
        unit="ms",
    )
