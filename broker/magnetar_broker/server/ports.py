"""Binding of ports, before anything is accepted from them."""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from magnetar_broker.config import Settings


def client_sockets(settings: Settings) -> list[socket.socket]:
    """Bound sockets for clients."""
    return bound(settings.bind_address, settings.broker_service_port)


def http_sockets(settings: Settings) -> list[socket.socket]:
    """Bound sockets for HTTP; none if it is off."""
    port = settings.web_service_port
    return [] if port is None else bound(settings.bind_address, port)


def bound(host: str, port: int) -> list[socket.socket]:
    """A bound socket for each address of the host, all on one port; 0 takes any free one.

    They do not listen yet.  Raises OSError with the address that cannot be bound.
    """
    with ExitStack() as until_complete:
        sockets: list[socket.socket] = []
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = until_complete.enter_context(socket.socket(family, kind, protocol))
            except OSError:  # the system does not have this family
                continue
            _bind(one, (address[0], port_of(sockets) if sockets else port, *address[2:]))
            sockets.append(one)
        if not sockets:
            raise OSError(f"no address of {host} is of a kind that this system has")
        until_complete.pop_all()
        return sockets


def _bind(one: socket.socket, address: tuple[object, ...]) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        one.bind(address)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise OSError(
            f"cannot listen on {address[0]} port {address[1]}: {reason}; end what uses the port, "
            "or set another port (--port, --http-port) or address (--bind)"
        ) from None


def port_of(sockets: Sequence[socket.socket]) -> int:
    """The number of the port that sockets of `bound` share."""
    return int(sockets[0].getsockname()[1])
