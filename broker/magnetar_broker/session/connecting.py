"""CONNECT, PING and PONG."""

from magnetar_broker.base.errors import BrokerError, NotReady
from magnetar_broker.base.version import SERVER_VERSION
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, PROTOCOL_VERSION
from magnetar_proto.errors import BadCommand


def on_connect(session: Session, command: pb.CommandConnect) -> None:
    """Accept or refuse the client; it is the first command, and the only CONNECT."""
    if session.connected:
        raise BadCommand("a second CONNECT on one connection")
    broker = session.broker
    refusal = _refusal(session)
    if refusal is not None:
        session.refuse(NO_REQUEST, refusal)
        session.disconnect(f"{session.address} was refused: {refusal}")
        return
    session.accept(command, PROTOCOL_VERSION)
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
    """Why one more client is refused; None if it is accepted."""
    broker = session.broker
    if not broker.ready:
        return NotReady("the broker is starting or stopping; try again")
    return session.refusal()


def on_ping(session: Session, command: pb.CommandPing) -> None:
    """Answer at once."""
    session.reply(pb.CommandPong())


def on_pong(session: Session, command: pb.CommandPong) -> None:
    """Does nothing: `Session.receive` has taken it as a sign of life, as any command."""
