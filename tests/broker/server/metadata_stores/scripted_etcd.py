"""A server in this process that answers what the test says, as etcd's gateway would."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass
class Reply:
    """An answer: its parts are sent one after the other."""

    parts: Sequence[bytes | Message] = ()
    status: int = 200
    is_cut: bool = False
    """Whether the connection is closed before the end of the answer, or before all of it."""
    goes_on: bool = False
    """Whether the answer has no end."""


@dataclass
class ScriptedEtcd:
    """Replies in turn; after the last one, it answers nothing."""

    replies: list[Reply]
    asked: list[tuple[str, Message]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    open: dict[asyncio.StreamWriter, "asyncio.Task[None] | None"] = field(default_factory=dict)
    """The connections, with their tasks."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open[writer] = asyncio.current_task()
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()
            del self.open[writer]

    async def end(self) -> None:
        """Close the connections, and wait until that is done."""
        tasks = [task for task in self.open.values() if task is not None]
        for writer in self.open:
            writer.transport.abort()
        await asyncio.gather(*tasks)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        self.asked.append((head.split()[1], json.loads(body)))
        self.headers.append(head)
        if not self.replies:
            await reader.read()
            return False
        reply = self.replies.pop(0)
        if reply.is_cut and not reply.parts:
            return False
        writer.write(f"HTTP/1.1 {reply.status} Any\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for part in reply.parts:
            data = part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n"
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
        if reply.is_cut:
            return False
        if reply.goes_on:
            await reader.read()
            return False
        writer.write(b"0\r\n\r\n")
        return True


@asynccontextmanager
async def scripted(*replies: Reply) -> AsyncIterator[ScriptedEtcd]:
    """Run a server with these replies."""
    etcd = ScriptedEtcd(list(replies))
    server = await asyncio.start_server(etcd.serve, "127.0.0.1", 0)
    etcd.port = server.sockets[0].getsockname()[1]
    try:
        yield etcd
    finally:
        server.close()
        await etcd.end()
