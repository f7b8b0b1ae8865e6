"""Messages over a control socket arrive complete and in order, with their sockets."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from magnetar_broker.server.supervision.control import (
    Alive,
    Control,
    Failed,
    Message,
    Peer,
    Ready,
    Stop,
    control_pair,
)


@pytest.fixture
def ends() -> Iterator[tuple[Control, Control]]:
    ours, theirs = control_pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def received(control: Control, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        messages += control.receive()
    return messages


def test_messages_arrive_in_order(ends: tuple[Control, Control]) -> None:
    ours, theirs = ends
    sent: list[Message] = [Ready(), Failed('two\nlines, "quoted", ü'), Stop("x" * 100_000), Ready()]
    for message in sent:
        theirs.send(message)
    assert received(ours, len(sent)) == sent


def test_sockets_arrive_with_their_peers(ends: tuple[Control, Control]) -> None:
    ours, theirs = ends
    count = 40  # several reads
    with ExitStack() as kept:

        def pair() -> tuple[socket.socket, socket.socket]:
            near, far = socket.socketpair()
            return kept.enter_context(near), kept.enter_context(far)

        pairs = [[pair() for _ in range(1 if n % 2 else 3)] for n in range(count)]
        for n, made in enumerate(pairs):
            ours.send(Stop("between"))
            ours.send(Peer(None if n == 0 else n, n + 1, *(far for _, far in made)))
        peers = [m for m in received(theirs, 2 * count) if isinstance(m, Peer)]
        assert [peer.worker for peer in peers] == [None, *range(1, count)]
        for made, peer in zip(pairs, peers, strict=True):
            assert len(peer.sockets) == len(made)
            for (near, _), arrived in zip(made, peer.sockets, strict=True):
                near.sendall(b"to %d" % peer.generation)
                assert kept.enter_context(arrived).recv(100) == b"to %d" % peer.generation


def test_what_arrives_in_pieces_is_put_together(ends: tuple[Control, Control]) -> None:
    ours, theirs = ends
    for byte in b'["Stop", {"reason": "slow"}]\n':
        assert theirs.end.send(bytes([byte])) == 1
        messages = ours.receive()
    assert messages == [Stop("slow")]


def test_the_end_of_the_socket_is_a_stop(ends: tuple[Control, Control]) -> None:
    ours, theirs = ends
    ours.send(Ready())
    ours.close()
    assert received(theirs, 1) == [Ready()]
    for _ in range(2):
        assert isinstance(theirs.receive()[0], Stop)
    with pytest.raises(ConnectionError):
        theirs.send(Ready())


def test_a_supervisor_that_does_not_read_does_not_block_a_child(
    ends: tuple[Control, Control],
) -> None:
    ours, theirs = ends
    for _ in range(10_000):  # the buffer has room for some hundred
        theirs.report_alive()
    alive = ours.receive()
    assert 0 < len(alive) < 10_000 and set(alive) == {Alive()}
    while ours.receive():
        pass
    theirs.send(Ready())
    assert ours.receive() == [Ready()]
    ours.close()
    theirs.report_alive()


def test_a_child_that_does_not_read_does_not_block_the_supervisor(
    ends: tuple[Control, Control],
) -> None:
    ours, _ = ends
    assert ours.receive() == []
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(Ready())
