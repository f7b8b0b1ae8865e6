"""Large answers over HTTP: written in turns of the loop, and only as long as there is a client."""

import asyncio
from collections import defaultdict
from typing import Any

from fakes.loop_world import LoopClock
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.server.http.connection import TURN_BYTES, HttpConnection
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.runtime.loop_timer import LoopTimer

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that notes what is written in each turn, and whose socket is full at a size."""

    def __init__(self, full_at: int, ends_at: int = 1 << 30, stops_at: int = 1 << 30) -> None:
        super().__init__()
        self.turn = 0
        self.written: defaultdict[int, int] = defaultdict(int)
        """The bytes that were written, by turn."""
        self.protocol: asyncio.Protocol
        self._full_at, self._ends_at, self._stops_at = full_at, ends_at, stops_at
        self._closed = False

    @property
    def total(self) -> int:
        """Return the number of all bytes written."""
        return sum(self.written.values())

    def write(self, data: Any) -> None:
        self.written[self.turn] += len(data)
        if self.total >= self._full_at:
            self.protocol.pause_writing()
        if self.total >= self._stops_at:
            assert isinstance(self.protocol, HttpConnection)
            self.protocol.stop()
        if self.is_closing():
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._closed or self.total >= self._ends_at

    def close(self) -> None:
        self._closed = True
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 8080) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Accept the call."""

    def resume_reading(self) -> None:
        """Accept the call."""

    async def answered(self, pieces: int, size: int) -> bool:
        """Receive a request, whose response has pieces of this size; return whether the connection
        is kept.
        """

        async def answer(request: Request) -> Response:
            return Response(rest=[bytes(size)] * pieces)

        clock = LoopClock()
        connections = set[HttpConnection]()
        guard = HttpGuard(HttpLimits(), clock, ReachedLimits(clock))
        self.protocol = connection = HttpConnection(answer, LoopTimer(), connections, guard)
        connection.connection_made(self)
        connection.data_received(GET)
        while connection.task is not None:
            self.turn += 1
            await asyncio.sleep(0)
        is_kept = connection in connections and not self.is_closing()
        assert is_kept or connection._timer is None, "nothing is awaited"
        connection._cancel_timer()
        return is_kept


async def test_a_large_answer_is_written_in_turns_of_the_loop() -> None:
    wire = Wire(full_at=1 << 30)
    assert await wire.answered(20, TURN_BYTES // 2)
    assert wire.total > 10 * TURN_BYTES
    assert max(wire.written.values()) <= TURN_BYTES * 3 // 2, "with the head"


async def test_when_the_socket_is_full_the_rest_of_an_answer_is_buffered_at_once() -> None:
    wire = Wire(full_at=2 * TURN_BYTES)
    assert await wire.answered(20, TURN_BYTES // 2)
    assert wire.total > 10 * TURN_BYTES
    assert wire.written[max(wire.written)] > 7 * TURN_BYTES


async def test_nothing_more_is_written_to_a_client_that_has_left() -> None:
    wire = Wire(full_at=1 << 30, ends_at=2 * TURN_BYTES)
    assert not await wire.answered(20, TURN_BYTES // 2)
    assert wire.total < 4 * TURN_BYTES


async def test_a_stop_while_an_answer_is_written_closes_the_connection_behind_it() -> None:
    wire = Wire(full_at=1 << 30, stops_at=2 * TURN_BYTES)
    assert not await wire.answered(20, TURN_BYTES // 2)
    assert wire.total > 10 * TURN_BYTES
    assert wire.is_closing()
