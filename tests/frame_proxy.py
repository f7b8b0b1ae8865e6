"""A way to a broker's port that understands frames, and loses or holds back those a test names."""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from magnetar_proto import PulsarApi_pb2 as pb

Kind = pb.BaseCommand
Loses = Callable[[pb.BaseCommand], bool]
SIZE = struct.Struct(">I")


class FrameProxy:
    """Forwards every connection to a port on this machine; used as `async with`.

    Clients stay on it: what the broker answers to their lookups is its own address.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.seen: list[pb.BaseCommand] = []
        """The commands of clients, lost ones included."""
        self.lost: Counter[int] = Counter()
        """By kind, how many frames were lost."""
        self.loses: Loses = lambda command: False
        """Decides about each frame, of both directions."""
        self.has_epochs = True
        """Whether messages say their epoch; older brokers know none."""
        self._held: int | None = None
        self._kept: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._copying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut()
        for task in self._copying:
            task.cancel()
        await asyncio.gather(*self._copying, return_exceptions=True)

    @property
    def service_url(self) -> str:
        """Where clients connect."""
        return f"pulsar://127.0.0.1:{self.port}"

    def commands(self, kind: int) -> list[pb.BaseCommand]:
        """What clients have sent of this kind so far."""
        return [command for command in self.seen if command.type == kind]

    def lose(self, kind: int, count: int) -> None:
        """Lose the next frames of this kind."""
        end = self.lost[kind] + count
        self.loses = lambda command: command.type == kind and self.lost[kind] < end

    def hold(self, kind: int) -> None:
        """Keep frames of this kind back, until `release`."""
        self._held = kind

    def release(self) -> None:
        """Forward what was kept back."""
        self._held = None
        for writer, frame in self._kept:
            writer.write(frame)
        self._kept.clear()

    @property
    def held(self) -> int:
        """How many frames are kept back."""
        return len(self._kept)

    def cut(self) -> None:
        """End every connection."""
        self._kept.clear()
        for writer in self._writers:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker: asyncio.StreamWriter | None = None
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, to_broker}
        for source, target, is_client in ((reader, to_broker, True), (from_broker, writer, False)):
            task = asyncio.create_task(self._copy(source, target, is_client))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_client: bool
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):  # either side may end it
            while True:
                size = await source.readexactly(SIZE.size)
                body = await source.readexactly(SIZE.unpack(size)[0])
                end = SIZE.size + SIZE.unpack_from(body)[0]
                command = pb.BaseCommand.FromString(body[SIZE.size : end])
                if is_client:
                    self.seen.append(command)
                if self.loses(command):
                    self.lost[command.type] += 1
                    continue
                if command.type == Kind.LOOKUP_RESPONSE or not self.has_epochs:
                    found = command.lookupTopicResponse
                    if command.type == Kind.LOOKUP_RESPONSE:
                        if not found.proxy_through_service_url:  # which leads here already
                            found.brokerServiceUrl = self.service_url
                    elif command.type == Kind.MESSAGE:
                        command.message.ClearField("consumer_epoch")
                    head = command.SerializeToString()
                    body = SIZE.pack(len(head)) + head + body[end:]
                    size = SIZE.pack(len(body))
                if command.type == self._held:
                    self._kept.append((target, size + body))
                else:
                    target.write(size + body)
                    await target.drain()
        self._writers.discard(target)
        target.close()
