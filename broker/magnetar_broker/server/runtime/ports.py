"""Binding of ports, before anything is accepted from them."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from magnetar_broker.config import Settings


class PortNumbers(NamedTuple):
    """The numbers of the ports that were bound; None for a port that is off."""

    clients: int | None
    clients_tls: int | None
    http: int | None
    http_tls: int | None

    @property
    def for_clients(self) -> int:
        """A port of the binary protocol, without TLS if possible: there is always one."""
        port = self.clients_tls if self.clients is None else self.clients
        assert port is not None
        return port


class Ports(NamedTuple):
    """The bound sockets of each port; empty for a port that is off."""

    clients: list[socket.socket]
    clients_tls: list[socket.socket]
    http: list[socket.socket]
    http_tls: list[socket.socket]

    @property
    def numbers(self) -> PortNumbers:
        """The numbers of the bound ports; the settings may have 0 for any free port."""
        return PortNumbers(*(port_of(sockets) if sockets else None for sockets in self))


def open_ports(settings: Settings) -> Ports:
    """Bind all ports; on an error none stays bound."""
    with ExitStack() as until_complete:
        made = Ports([], [], [], [])
        for sockets, port in zip(
            made,
            (
                settings.broker_service_port,
                settings.broker_service_port_tls,
                settings.web_service_port,
                settings.web_service_port_tls,
            ),
            strict=True,
        ):
            for one in [] if port is None else bound(settings.bind_address, port):
                sockets.append(until_complete.enter_context(one))
        until_complete.pop_all()
        return made


def of_port(sockets: Sequence[socket.socket], port: int | None) -> list[socket.socket]:
    """Return the sockets that are bound to a port."""
    return [one for one in sockets if port_of([one]) == port]


def bound(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of the host, all on one port; port 0 is any free port.

    The sockets do not listen yet.  Raises OSError with the address that cannot be bound.
    """
    with ExitStack() as until_complete:
        sockets: list[socket.socket] = []
        # For text, Python would import the tables of internationalized names.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
    with named_in_errors(address):
        one.bind(address)


@contextmanager
def named_in_errors(address: tuple[object, ...]) -> Iterator[None]:
    """Add to an `OSError` the address on which the system does not let this process listen.

    Two processes can bind one port as long as neither listens; the second one to listen fails.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise OSError(
            f"cannot listen on {address[0]} port {address[1]}: {reason}; end what uses the port, "
            "or set another port (--port, --http-port) or address (--bind)"
        ) from None


def port_of(sockets: Sequence[socket.socket]) -> int:
    """Return the number of the port that sockets of `bound` share."""
    return int(sockets[0].getsockname()[1])
