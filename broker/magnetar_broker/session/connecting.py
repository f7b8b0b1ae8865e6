"""CONNECT, AUTH_RESPONSE, PING and PONG."""

from collections.abc import Coroutine
from typing import Any

from magnetar_broker.authentication.authenticator import Authenticator, Proof
from magnetar_broker.base.errors import (
    BrokerError,
    CredentialsRefused,
    NotAuthenticated,
    NotAuthorized,
    NotReady,
    RoleChanged,
)
from magnetar_broker.base.version import SERVER_VERSION
from magnetar_broker.session.renewal import CHALLENGE, Renewal
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, PROTOCOL_VERSION
from magnetar_proto.errors import BadCommand


def on_connect(session: Session, command: pb.CommandConnect) -> Coroutine[Any, Any, None] | None:
    """Accept or refuse the client; it is the first command, and the only CONNECT."""
    if session.connected:
        raise BadCommand("received a second CONNECT on the connection")
    refusal = _refusal(session)
    if refusal is not None:
        _refuse(session, refusal)
        return None
    authenticator = session.broker.authenticator
    if authenticator is None or session.roles is not None or session.is_internal:
        _accept(session, command)
        return None
    session.authenticating = True
    return _authenticate(session, command, authenticator)


async def _authenticate(
    session: Session, command: pb.CommandConnect, authenticator: Authenticator
) -> None:
    """Determine the client's roles, then accept or refuse the client."""
    try:
        proof = await authenticator.of_connect(command, session.certificate)
    except (NotAuthenticated, NotAuthorized) as refusal:
        _refuse(session, refusal)
        return
    if session.is_over:
        return  # the client has left while its credentials were checked
    session.roles = proof.roles
    session.renewal = Renewal(
        session.clock,
        authenticator.rules.refresh_seconds,
        proof,
        command.feature_flags.supports_auth_refresh,
        lambda: session.reply(_challenge(proof, session.protocol_version)),
        lambda why: session.disconnect(f"{session.address}: {why}"),
    )
    session.authenticating = False
    _accept(session, command)


def _challenge(proof: Proof, protocol_version: int) -> pb.CommandAuthChallenge:
    return pb.CommandAuthChallenge(
        challenge=pb.AuthData(auth_method_name=proof.method, auth_data=CHALLENGE),
        protocol_version=protocol_version,
    )


def on_auth_response(
    session: Session, command: pb.CommandAuthResponse
) -> Coroutine[Any, Any, None]:
    """Replace a client's credentials, whether or not it was asked for new ones."""
    if session.renewal is None or session.broker.authenticator is None:
        raise BadCommand("received AUTH_RESPONSE from a client that has not authenticated")
    return _renew(
        session, session.renewal, session.broker.authenticator, command.response.auth_data
    )


async def _renew(
    session: Session, renewal: Renewal, authenticator: Authenticator, data: bytes
) -> None:
    renewal.answered()
    try:
        renewal.renewed(await authenticator.renewed(renewal.proof, data, session.certificate))
    except RoleChanged as refusal:  # as the original: without an ERROR
        session.disconnect(f"{session.address}: {refusal}")
    except NotAuthenticated as refusal:
        _refuse(session, refusal)


def _refuse(session: Session, refusal: BrokerError) -> None:
    if not session.is_over:
        # The process that accepted an upstream's client counts that; a client whose renewal is
        # refused was accepted before.
        # promise: clients that are refused are counted
        session.broker.connections_refused += not (session.is_upstream or session.connected)
        session.refuse(NO_REQUEST, refusal)
        why = (refusal.why if isinstance(refusal, CredentialsRefused) else "") or refusal
        session.disconnect(f"{session.address} was refused: {why}")


def _accept(session: Session, command: pb.CommandConnect) -> None:
    broker = session.broker
    broker.connections_accepted += not session.is_upstream
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
    """Return why no further client is accepted at present; None if one is."""
    broker = session.broker
    if not broker.ready:
        return NotReady("the broker is starting or stopping; try again")
    return session.refusal()


def on_ping(session: Session, command: pb.CommandPing) -> None:
    """Answer a PING at once."""
    session.reply(pb.CommandPong())


def on_pong(session: Session, command: pb.CommandPong) -> None:
    """Do nothing: `Session.receive` has taken it as a sign of life, as any command."""
