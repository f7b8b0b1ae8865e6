"""Pairs of Unix stream sockets: one end stays here, the other one goes to another process."""

import asyncio
import logging
import socket
from collections.abc import Callable

from magnetar_broker.server.runtime.descriptors import Descriptors

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


async def attach(make: Callable[[], asyncio.BaseProtocol], end: socket.socket) -> None:
    """Connect a protocol to an end of a pair, which then belongs to the protocol's transport."""
    # Not by `create_unix_connection`: uvloop's gives the socket to the transport only after
    # `connection_made`.  If that writes to a peer that has ended, the transport closes the
    # descriptor, and later the socket object closes the number once more, which by then may be
    # another client's.
    await asyncio.get_running_loop().connect_accepted_socket(make, end)
