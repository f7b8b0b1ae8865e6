"""Benchmark of an honest client while others attack the broker.

`python -m bench.attack PORT HTTP_PORT` attacks, in a process of its own.  It prints a line when it
is under way, goes on until SIGTERM, and then prints how many connections it has opened.

The rates are those of a nuisance, not of the fastest attacker: who sends more than the processor
can take must be kept away in front of the broker.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import click
import uvloop

from bench.connection import LoadError, connected
from bench.frames import Shape
from bench.scenarios import Trial, even_load
from bench.usage import Measures
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.frames import SIZE

HOST = "127.0.0.1"
CONNECTIONS_PER_SECOND = 200
"""Without a handshake."""
LOOKUPS_PER_SECOND = 1000
"""On one connection that reads no answer."""
HALF_FRAMES = 50
"""Connections, each with a frame of which `HALF_BYTES` come."""
FRAME_BYTES, HALF_BYTES = 5 << 20, 1 << 20
SLOW_HTTP = 200
"""Connections that send a byte of a request's head each second."""
TURNS_PER_SECOND = 20
CONNECT = encode(pb.CommandConnect(client_version="attack", protocol_version=21))


def attacked(trial: Trial, shape: Shape, entries: int, per_second: int) -> Measures:
    """An even load, first without and then under attack."""
    load = trial.load(shape, entries, write_entries=1)

    async def work() -> Measures:
        server = trial.server
        quiet = await even_load(trial, load, per_second)
        async with _attack(server.port, server.http_port) as done:
            measures = await even_load(trial, load, per_second)
        return measures | {
            "quiet_p99_ms": quiet["p99_ms"],
            "of_quiet": measures["p99_ms"] / quiet["p99_ms"],
            "opened_per_s": done.opened / measures["seconds"],
        }

    return trial.run(work)


@dataclass
class Done:
    """What the attack was, known when it has ended."""

    opened: int = 0


@asynccontextmanager
async def _attack(port: int, http_port: int) -> AsyncIterator[Done]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.attack", str(port), str(http_port)),
        stdout=asyncio.subprocess.PIPE,
    )
    done = Done()
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise LoadError("the attack did not begin")
        yield done
        if process.returncode is not None:
            raise LoadError("the attack ended early")
    finally:
        if process.returncode is None:
            process.terminate()
        printed = await process.stdout.read()
        await process.wait()
    done.opened = int(printed)


@click.command()
@click.argument("port", type=int)
@click.argument("http_port", type=int)
def main(port: int, http_port: int) -> None:
    """Attack the broker at these ports until SIGTERM."""
    uvloop.run(_run(Attack(port, http_port)))


class Attack:
    """Each method is one kind; they go on until they are cancelled."""

    def __init__(self, port: int, http_port: int) -> None:
        self.opened = 0
        self._port = port
        self._http_port = http_port
        self._kept: list[asyncio.StreamWriter] = []

    async def connections(self) -> None:
        """Open connections that send nothing, and do not close them."""
        while True:
            for _ in range(CONNECTIONS_PER_SECOND // TURNS_PER_SECOND):
                await self._open(self._port)
            self._kept = [one for one in self._kept if not one.is_closing()]
            await asyncio.sleep(1 / TURNS_PER_SECOND)

    async def half_frames(self) -> None:
        """Send half of a frame; open another connection when the broker ends one."""
        await asyncio.gather(*(self._half_frames() for _ in range(HALF_FRAMES)))

    async def _half_frames(self) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(HOST, self._port)
                self.opened += 1
                writer.write(CONNECT)
                await reader.readexactly(SIZE.size)
                writer.write(SIZE.pack(FRAME_BYTES) + bytes(HALF_BYTES))
                await reader.read()
            await asyncio.sleep(1 / TURNS_PER_SECOND)

    async def lookups(self) -> None:
        """Send lookups, and read none of the answers."""
        number = LOOKUPS_PER_SECOND // TURNS_PER_SECOND
        flood = b"".join(
            encode(pb.CommandLookupTopic(topic=f"persistent://public/default/{n}", request_id=n))
            for n in range(number)
        )
        while True:
            with suppress(OSError, LoadError):
                async with connected(self._port):
                    _, writer = await asyncio.open_connection(HOST, self._port)
                    self.opened += 1
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                    writer.write(CONNECT)
                    while not writer.is_closing():
                        writer.write(flood)
                        await writer.drain()
                        await asyncio.sleep(1 / TURNS_PER_SECOND)
            await asyncio.sleep(1 / TURNS_PER_SECOND)

    async def slow_http(self) -> None:
        """Send HTTP requests whose head never ends."""
        await asyncio.gather(*(self._slow_http() for _ in range(SLOW_HTTP)))

    async def _slow_http(self) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self._http_port)
                self.opened += 1
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\nX: ")
                while not writer.is_closing():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(1)
            await asyncio.sleep(1 / TURNS_PER_SECOND)

    async def _open(self, port: int) -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            self.opened += 1
            self._kept.append(writer)


async def _run(attack: Attack) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    kinds: tuple[Callable[[], Awaitable[None]], ...] = (
        attack.connections,
        attack.half_frames,
        attack.lookups,
        attack.slow_http,
    )
    tasks = [asyncio.ensure_future(kind()) for kind in kinds]
    print("under way", flush=True)
    await stopped.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(attack.opened)


if __name__ == "__main__":
    main()
