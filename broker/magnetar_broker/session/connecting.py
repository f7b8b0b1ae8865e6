"""CONNECT, PING and PONG."""

from magnetar_broker.errors import BrokerError, NotAllowed, NotReady
from magnetar_broker.session.session import Session
from magnetar_broker.version import SERVER_VERSION
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, PROTOCOL_VERSION
from magnetar_proto.errors import BadCommand


def on_connect(session: Session, command: pb.CommandConnect) -> None:
    """The first command, and only once."""
    if session.connected:
        raise BadCommand("a second CONNECT")
    broker = session.broker
    refusal = _refusal(session)
    if refusal is not None:
        session.refuse(NO_REQUEST, refusal)
        session.disconnect(f"{session.address} was refused: {refusal}")
        return
    session.welcome(command, PROTOCOL_VERSION)
    watches = broker.settings.enable_broker_topic_list_watcher
    session.reply(
        pb.CommandConnected(
            server_version=SERVER_VERSION,
            protocol_version=session.protocol_version,
            max_message_size=broker.settings.max_message_size,
            feature_flags=pb.FeatureFlags(
                supports_get_partitioned_metadata_without_auto_creation=True,
                supports_topic_watchers=watches,
                supports_topic_watcher_reconcile=watches,
            ),
        )
    )


def _refusal(session: Session) -> BrokerError | None:
    """Why one more client cannot be served."""
    broker, settings = session.broker, session.broker.settings
    if not broker.ready:
        return NotReady("the broker is starting or stopping; try again")
    limit = settings.broker_max_connections
    if 0 < limit < broker.connections:
        return NotAllowed(f"the broker has its {limit} connections (brokerMaxConnections)")
    limit = settings.broker_max_connections_per_ip
    host = session.address.rpartition(":")[0]
    if 0 < limit < broker.connections_from(host):
        return NotAllowed(
            f"{host} has its {limit} connections to this broker (brokerMaxConnectionsPerIp)"
        )
    return None


def on_ping(session: Session, command: pb.CommandPing) -> None:
    """Answered at once."""
    session.reply(pb.CommandPong())


def on_pong(session: Session, command: pb.CommandPong) -> None:
    """That anything came at all is what counts, and `receive` has noted it."""
