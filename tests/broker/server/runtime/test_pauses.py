"""Long work on the loop: others have their turn in its pauses, and threads get the lock sooner."""

import asyncio
import socket
import sys
from collections.abc import Iterator

import pytest

from fakes.loops import on_both_loops
from magnetar_broker.base.pace import LEAST_SECONDS
from magnetar_broker.server.runtime.pauses import Sharing

USUAL_SECONDS = 0.004


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Set an interval for the test."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL_SECONDS)
    yield
    sys.setswitchinterval(before)


def test_threads_get_the_lock_within_a_slice_of_long_work() -> None:
    sharing = Sharing()
    with sharing.slices():
        assert sys.getswitchinterval() < LEAST_SECONDS
        with sharing.slices():
            assert sys.getswitchinterval() < LEAST_SECONDS
        assert sys.getswitchinterval() < LEAST_SECONDS, "the other work still goes on"
    assert sys.getswitchinterval() == pytest.approx(USUAL_SECONDS)


def test_work_that_fails_leaves_the_usual_interval() -> None:
    with pytest.raises(OSError, match="failed"), Sharing().slices():
        raise OSError("failed")
    assert sys.getswitchinterval() == pytest.approx(USUAL_SECONDS)


@on_both_loops
async def test_in_a_pause_input_is_received_and_what_it_schedules_is_called() -> None:
    loop = asyncio.get_running_loop()
    handled: list[bytes] = []

    class Peer(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            loop.call_soon(handled.append, data)

    ours, theirs = socket.socketpair()
    transport, _ = await loop.create_connection(Peer, sock=ours)
    sharing = Sharing()
    await sharing.pause()  # the loop begins to read
    theirs.send(b"a message")
    await sharing.pause()
    assert handled == [b"a message"]
    transport.close()
    theirs.close()
