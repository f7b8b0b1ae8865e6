"""Sockets under the links between the processes of one broker."""

import socket

from magnetar_broker.ipc.link import Link
from magnetar_broker.server.clients.socket_pair import attach
from magnetar_broker.server.runtime.link_socket import LinkSocket
from magnetar_broker.server.runtime.loop_timer import LoopTimer


async def connect(link: Link, end: socket.socket, loop_timer: LoopTimer | None = None) -> None:
    """Connect a link to its end of a pair of Unix stream sockets, which the link then owns."""
    await attach(lambda: LinkSocket(link, loop_timer or LoopTimer()), end)
