"""Cheap client connections: receipts and messages are counted, not decoded.

They read frames themselves and do not use the clients of the tests, whose decoding would be
measured too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import Struct
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, decode, encode

PROTOCOL_VERSION = 19
WRITE_BUFFER = 1 << 20
"""Unsent bytes that make a publisher wait."""
HEAD = Struct(">IIBB")
"""Size of the rest, size of the command, tag of its type (always the first field), type."""
TYPE_TAG = 8
RETRIES = 50
RETRY_SECONDS = 0.2
CONSUMER_ID = 1
EXCLUSIVE = pb.CommandSubscribe.Exclusive
SHARED = pb.CommandSubscribe.Shared
SUBSCRIPTION = "bench"


class LoadError(Exception):
    """The server did not do what the load expects, so there is nothing to measure."""


class Command(NamedTuple):
    """An encoded command within received bytes."""

    buf: bytes
    start: int
    mid: int


class Connection(asyncio.Protocol):
    """A client's connection; calls that await it fail with `LoadError` if it is lost or refused."""

    def __init__(self) -> None:
        self.on_receipts: Callable[[int, Command], None] = self._unexpected
        """Called with the number of receipts, and the last receipt."""
        self.on_messages: Callable[[int, Command], None] = self._unexpected
        """Called with the number of messages (entries, if batched), and the last one."""
        self.on_message: Callable[[Command], None] | None = None
        """Called with each message, before `on_messages`."""
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        self._rest = b""
        self._waiting: set[asyncio.Future[Any]] = set()
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._request_id = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(f"the connection was lost: {error or 'closed by the server'}")

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        buf = self._rest + data if self._rest else data
        pos, size, unpack = 0, len(buf), HEAD.unpack_from
        receipts = messages = 0
        receipt = message = (0, 0)
        while size - pos >= HEAD.size:
            total, command_size, tag, kind = unpack(buf, pos)
            end = pos + 4 + total
            if end > size:
                break
            if kind == pb.BaseCommand.SEND_RECEIPT and tag == TYPE_TAG:
                receipts += 1
                receipt = pos + 8, pos + 8 + command_size
            elif kind == pb.BaseCommand.MESSAGE and tag == TYPE_TAG:
                messages += 1
                message = pos + 8, pos + 8 + command_size
                if self.on_message is not None:
                    self.on_message(Command(buf, *message))
            else:
                self._control(decode(buf, pos + 8, pos + 8 + command_size))
            pos = end
        self._rest = buf[pos:]
        if receipts:
            self.on_receipts(receipts, Command(buf, *receipt))
        if messages:
            self.on_messages(messages, Command(buf, *message))

    def _unexpected(self, *_: object) -> None:
        self.fail("an unexpected receipt or message")

    def fail(self, why: str) -> None:
        """Fail all pending calls with a `LoadError`."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(LoadError(why))

    def promise(self) -> asyncio.Future[Any]:
        """Return a future that fails with the connection."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def write(self, data: bytes) -> None:
        """Send; check `writable` before sending much."""
        self._transport.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        """Send the buffers without joining them."""
        self._transport.writelines(buffers)

    def close(self) -> None:
        """Close the socket without closing producers and consumers first."""
        self._transport.close()

    def _control(self, command: pb.BaseCommand) -> None:
        answer = getattr(command, FIELDS[command.type])
        request_id = getattr(answer, "request_id", 0)
        if command.type == pb.BaseCommand.PING:
            self.write(encode(pb.CommandPong()))
        elif command.type == pb.BaseCommand.ERROR:
            self.fail(f"refused: {command.error}")
        elif request_id in self._replies:
            self._replies.pop(request_id).set_result(command)
        elif command.type != pb.BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self.fail(f"unexpected answer: {command}")

    def request_id(self) -> int:
        """Return a new request id."""
        self._request_id += 1
        return self._request_id

    async def call(self, command: Any) -> pb.BaseCommand:
        """Send a command and await its answer; `LoadError` if it is refused."""
        return await self.ask(getattr(command, "request_id", 0), encode(command))

    async def ask(self, request_id: int, data: bytes) -> pb.BaseCommand:
        """Send an encoded command and await its answer; `LoadError` if it is refused."""
        future = self._replies[request_id] = self.promise()
        self.write(data)
        return cast(pb.BaseCommand, await future)


@asynccontextmanager
async def connected(port: int, owner: str | None = None) -> AsyncIterator[Connection]:
    """Connect to a server on this machine; yields the connection after the handshake.

    `owner` is the result of `look_up`, if the port leads to several workers.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    try:
        await connection.call(
            pb.CommandConnect(
                client_version="bench",
                protocol_version=PROTOCOL_VERSION,
                proxy_to_broker_url=owner,
            )
        )
        yield connection
    finally:
        connection.close()


async def look_up(connection: Connection, topic: str) -> str:
    """Return the address of a topic's owner, for a CONNECT; asks until there is an owner."""
    request_id = connection.request_id()
    await connection.call(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=request_id))
    for _ in range(RETRIES):
        request_id = connection.request_id()
        reply = await connection.call(pb.CommandLookupTopic(topic=topic, request_id=request_id))
        answer = reply.lookupTopicResponse
        if answer.response == pb.CommandLookupTopicResponse.Connect:
            return urlsplit(answer.brokerServiceUrl).netloc
        await asyncio.sleep(RETRY_SECONDS)
    raise LoadError(f"the topic is not served here: {answer}")


async def open_producer(connection: Connection, topic: str, producer_id: int = 1) -> None:
    """Open a producer; returns when it may send."""
    await look_up(connection, topic)
    request_id = connection.request_id()
    await connection.call(
        pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=request_id)
    )


async def open_consumer(
    connection: Connection,
    topic: str,
    subscription: str = SUBSCRIPTION,
    sub_type: "pb.CommandSubscribe.SubType" = EXCLUSIVE,
) -> None:
    """Open the only consumer of a connection: durable, starting at the first message."""
    await look_up(connection, topic)
    await connection.call(
        pb.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=sub_type,
            consumer_id=CONSUMER_ID,
            request_id=connection.request_id(),
            initialPosition=pb.CommandSubscribe.Earliest,
        )
    )
