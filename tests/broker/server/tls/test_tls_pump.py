"""The pump: all input arrives on the other side, for any sizes and with slow readers."""

import asyncio
import socket
from contextlib import suppress
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from fakes.loop_world import LoopClock
from fakes.loops import on_both_loops
from fakes.waiting import HANGS_SECONDS, until
from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.tls.pump import WRITE_BUFFER, Pump, Side

PIECES = st.lists(st.binary(min_size=1, max_size=200), max_size=20)


class Ends:
    """A pump between two pairs of sockets; a socket replaces the TLS connection."""

    def __init__(self, limit: int = 0) -> None:
        """Create a pump; `limit` bytes may wait for either side, 0 means no limit."""
        clock = LoopClock()
        self.reached = ReachedLimits(clock)
        self.receiving = HeldBytes(limit, self.reached, ClientLimit.RECEIVE_BUFFER, "receive")
        sending = HeldBytes(limit, self.reached, ClientLimit.SEND_BUFFER, "send")
        self.readers = SlowReaders(clock, 0, sending, self.reached)
        self.pumps: set[Pump] = set()
        self.pump = Pump(LoopTimer().run, self.pumps, "client:1", self.receiving, self.readers)
        self.client, self._tls = socket.socketpair()
        self.worker, self._own = socket.socketpair()
        for one in (self.client, self.worker, self._tls, self._own):
            one.setblocking(False)

    async def connect_client(self) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        return (await loop.create_unix_connection(lambda: self.pump.client, sock=self._tls))[0]

    async def connect_worker(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.pump.worker, sock=self._own)

    async def open(self) -> "Ends":
        await self.connect_client()
        await self.connect_worker()
        return self

    async def over(self) -> None:
        """Wait until the pump is forgotten."""
        self.client.close()
        self.worker.close()
        await until(lambda: not self.pumps, "the pump has ended")
        assert (self.receiving.used, self.readers.held.used) == (0, 0)

    def held(self, side: str) -> HeldBytes:
        """Return the count of the bytes that wait for a side."""
        return self.receiving if side == "worker" else self.readers.held


async def send(end: socket.socket, pieces: list[bytes]) -> None:
    for piece in pieces:
        await asyncio.get_running_loop().sock_sendall(end, piece)


async def receive(end: socket.socket, size: int) -> bytes:
    data, loop = b"", asyncio.get_running_loop()
    while len(data) < size:
        piece = await asyncio.wait_for(loop.sock_recv(end, 1 << 16), HANGS_SECONDS)
        assert piece, "the end came too early"
        data += piece
    return data


async def at_end(end: socket.socket) -> bool:
    recv = asyncio.get_running_loop().sock_recv(end, 1)
    return await asyncio.wait_for(recv, HANGS_SECONDS) == b""


def _is_stopped(side: Side) -> bool:
    return not side.reads


def _is_held(held: HeldBytes) -> bool:
    return held.used > WRITE_BUFFER


@given(PIECES, PIECES, st.binary(max_size=50))
def test_every_byte_arrives_in_order(out: list[bytes], back: list[bytes], early: bytes) -> None:
    async def main() -> None:
        ends = Ends()
        ends.pump.worker.write(early)
        await ends.open()
        await asyncio.gather(send(ends.client, out), send(ends.worker, back))
        expected, returned = early + b"".join(out), b"".join(back)
        assert await receive(ends.worker, len(expected)) == expected
        assert await receive(ends.client, len(returned)) == returned
        await ends.over()

    asyncio.run(main())


@on_both_loops
async def test_a_side_that_does_not_read_stops_the_other_and_loses_nothing() -> None:
    for slow, fast in (("client", "worker"), ("worker", "client")):
        ends = await Ends().open()
        data = bytes(range(256)) * (40 << 10)  # 10 MB: more than all buffers take
        sending = asyncio.create_task(send(getattr(ends, fast), [data]))
        side = getattr(ends.pump, fast)
        await until(partial(_is_stopped, side), f"{fast} is not read from")
        await until(partial(_is_held, ends.held(slow)), "what waits is counted")
        assert ends.held(fast).used == 0
        assert not sending.done()
        assert await receive(getattr(ends, slow), len(data)) == data
        await sending
        await ends.over()


@on_both_loops
async def test_a_client_for_which_too_much_waits_is_disconnected_on_both_sides() -> None:
    for slow, fast in (("client", "worker"), ("worker", "client")):
        ends = await Ends(limit=WRITE_BUFFER).open()
        sending = asyncio.create_task(send(getattr(ends, fast), [bytes(10 << 20)]))
        await until(lambda: not ends.pumps, "the pump has ended")  # noqa: B023
        with suppress(ConnectionError):
            await sending
        assert ends.reached.counts[ends.held(slow)._counted] == 1
        await ends.over()


@on_both_loops
async def test_a_client_that_reads_nothing_for_too_long_is_disconnected() -> None:
    ends = Ends()
    ends.readers._seconds = 0.01  # type: ignore[assignment]
    await ends.open()
    sending = asyncio.create_task(send(ends.worker, [bytes(10 << 20)]))
    await until(lambda: not ends.pumps, "the pump has ended")
    with suppress(ConnectionError):
        await sending
    assert ends.reached.counts[ClientLimit.SLOW_READER] == 1
    await ends.over()


@on_both_loops
async def test_the_end_of_either_side_ends_the_other_when_all_is_written() -> None:
    for first, second in (("client", "worker"), ("worker", "client")):
        ends = await Ends().open()
        await send(getattr(ends, first), [b"last words"])
        getattr(ends, first).close()
        assert await receive(getattr(ends, second), 10) == b"last words"
        assert await at_end(getattr(ends, second))
        await ends.over()


@on_both_loops
async def test_a_stop_takes_no_more_from_the_client_and_waits_for_the_worker() -> None:
    ends = await Ends().open()
    ends.pump.stop()
    assert await at_end(ends.worker)
    await send(ends.worker, [b"answer"])
    assert await receive(ends.client, 6) == b"answer"
    await ends.over()


@on_both_loops
async def test_a_client_that_leaves_before_the_pair_is_connected_is_forgotten() -> None:
    ends = Ends()
    transport = await ends.connect_client()
    transport.abort()
    await until(lambda: ends.pump.worker.is_finishing, "the end is known")
    await ends.connect_worker()
    assert await at_end(ends.worker)
    await ends.over()
