"""A client's socket before it has a session."""

import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.server.clients.origin import Origin
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, encode

logger = logging.getLogger(__name__)

Take = Callable[[socket.socket, bytes, Origin], None]
"""A function that takes over a connected, non-blocking socket, the first frame, which was read from
it, and the origin of the client."""


def refuse(client: socket.socket, refusal: BrokerError) -> None:
    """Answer CONNECT with an ERROR, and close."""
    logger.info("closing a connection: a client was refused: %s", refusal)
    with client, suppress(OSError):  # the client has left
        client.send(refusal_frame(refusal))


def refusal_frame(refusal: BrokerError) -> bytes:
    """Return the ERROR frame that answers CONNECT."""
    error = pb.CommandError(request_id=NO_REQUEST, error=refusal.code, message=str(refusal))
    return encode(error)
