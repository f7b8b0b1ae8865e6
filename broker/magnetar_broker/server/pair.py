"""Pairs of sockets, of which one end is passed to another worker in the place of a client."""

import logging
import socket

from magnetar_broker.server.descriptors import Descriptors

logger = logging.getLogger(__name__)


def connected_pair(descriptors: Descriptors) -> tuple[socket.socket, socket.socket] | None:
    """Return the end that stays, and the end to pass on; None if there are too many descriptors."""
    try:
        own, passed = socket.socketpair()
    except OSError as error:
        logger.error("a client cannot be connected to another process: %s", error)
        return None
    # promise: upstreams leave the reserved descriptors
    if not descriptors.admits(max(own.fileno(), passed.fileno())):
        own.close()
        passed.close()
        return None
    own.setblocking(False)
    passed.setblocking(False)
    return own, passed
