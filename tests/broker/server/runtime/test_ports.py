"""Ports are bound on every address of a host, and an error names the address."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from magnetar_broker.server.runtime.ports import bound, named_in_errors, port_of


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_free_port_is_taken(opened: ExitStack) -> None:
    sockets = bound("127.0.0.1", 0)
    for one in sockets:
        opened.enter_context(one)
    assert len(sockets) == 1 and port_of(sockets) > 0
    with pytest.raises(ConnectionRefusedError):  # it does not listen yet
        socket.create_connection(("127.0.0.1", port_of(sockets)))
    sockets[0].listen()
    opened.enter_context(socket.create_connection(("127.0.0.1", port_of(sockets))))


def test_all_addresses_of_a_host_have_one_port(
    monkeypatch: pytest.MonkeyPatch, opened: ExitStack
) -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    found = [(*address, ("127.0.0.1", 0)), (*address, ("127.0.0.2", 0)), (99, *address[1:], ())]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    sockets = bound("host", 0)
    for one in sockets:
        opened.enter_context(one)
    assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1", "127.0.0.2"]
    assert len({one.getsockname()[1] for one in sockets}) == 1


def test_a_port_that_is_taken_is_named(opened: ExitStack) -> None:
    other = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = other.getsockname()[1]
    message = f"cannot listen on 127.0.0.1 port {port}: address already in use; .*--http-port"
    with pytest.raises(OSError, match=message):
        bound("127.0.0.1", port)


def test_a_port_that_another_process_listens_on_first_is_named(opened: ExitStack) -> None:
    mine, other = bound("127.0.0.1", 0)[0], socket.socket()
    opened.enter_context(mine)
    opened.enter_context(other).setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(mine.getsockname())
    other.listen()
    message = f"cannot listen on 127.0.0.1 port {port_of([mine])}: address already in use"
    with pytest.raises(OSError, match=message), named_in_errors(mine.getsockname()):
        mine.listen()


def test_a_host_without_an_address_that_can_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(99, 1, 0, "", ())])
    with pytest.raises(OSError, match="no address of host"):
        bound("host", 0)
