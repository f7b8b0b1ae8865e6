"""The ends of a pair of sockets, on asyncio's loop and on uvloop's."""

import asyncio
import gc
import os
import socket
from typing import cast

import pytest
import uvloop

from magnetar_broker.server.clients.socket_pair import attach


class Greeting(asyncio.Protocol):
    """Writes at once, as a protocol does that had to wait for its transport."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"early")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_end_whose_peer_has_ended_is_closed_once(
    factory: "type[asyncio.AbstractEventLoop]",
) -> None:
    """A second close would hit whatever has the number of its descriptor by then."""

    async def connect_to_no_one(greeting: Greeting) -> int:
        own, passed = socket.socketpair()
        passed.close()
        number = own.fileno()
        opened = asyncio.create_task(attach(lambda: greeting, own))
        del own
        await asyncio.gather(greeting.lost.wait(), opened, return_exceptions=True)
        return number

    async def go() -> None:
        number = await connect_to_no_one(Greeting())
        await asyncio.sleep(0)  # the loop closes its handle in the next turn
        reused = os.open(os.devnull, os.O_RDONLY)
        if reused != number:
            os.dup2(reused, number)
            os.close(reused)
        gc.collect()
        os.close(number)  # fails if it was closed by the collector

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(go())
