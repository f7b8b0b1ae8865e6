"""Cheap client connections: receipts and messages are counted, not decoded.

They read frames themselves instead of with the tests' clients: what those decode would be
measured too.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from struct import Struct
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, decode, encode
from magnetar_proto.sends import decode_receipt

PROTOCOL_VERSION = 19
WRITE_BUFFER = 1 << 20
"""Unsent bytes that make a publisher wait."""
CLOSE_SECONDS = 5.0
"""How long the server may take to read what is left, and to end TLS from its side."""
HEAD = Struct(">IIBB")
"""Size of the rest, size of the command, tag of its type (the first field of all), type."""
TYPE_TAG = 8
RETRIES = 50
RETRY_SECONDS = 0.2
CONSUMER_ID = 1
EXCLUSIVE = pb.CommandSubscribe.Exclusive
SHARED = pb.CommandSubscribe.Shared
SUBSCRIPTION = "bench"

C = TypeVar("C", bound="Connection")


class LoadError(Exception):
    """The server did something else than the load expects; there is nothing to measure."""


class Command(NamedTuple):
    """An encoded command within received bytes."""

    buf: bytes
    start: int
    mid: int


class Received(NamedTuple):
    """What whole frames of a buffer held: how many receipts and messages, and the last of each."""

    end: int
    """Where the first frame begins that is not whole yet."""
    receipts: int
    receipt: tuple[int, int]
    messages: int
    message: tuple[int, int]


class Link(asyncio.Protocol, ABC):
    """A client's connection; what awaits it fails with `LoadError` if it is lost or refused."""

    def __init__(self) -> None:
        self.on_receipts: Callable[[int, Command], None] = self._unexpected
        """Called with the number of receipts, and the last of them."""
        self.on_messages: Callable[[int, Command], None] = self._unexpected
        """Called with the number of messages (of entries, if they are batches), and the last."""
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        self._rest = b""
        self._waiting: set[asyncio.Future[Any]] = set()
        self._lost = asyncio.Event()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.set()
        self.fail(f"the connection was lost: {error or 'closed by the server'}")

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        buf = self._rest + data if self._rest else data
        end, receipts, receipt, messages, message = self.receive(buf)
        self._rest = buf[end:]
        if receipts:
            self.on_receipts(receipts, Command(buf, *receipt))
        if messages:
            self.on_messages(messages, Command(buf, *message))

    @abstractmethod
    def receive(self, buf: bytes) -> Received:
        """Read the whole frames of a buffer; answer what is neither a receipt nor a message."""

    @abstractmethod
    def receipt_number(self, last: Command) -> int:
        """Which of the entries that were sent, counted from 0 in steps, a receipt is for."""

    def _unexpected(self, *_: object) -> None:
        self.fail("an unexpected receipt or message")

    def fail(self, why: str) -> None:
        """Fail all pending calls with a `LoadError`."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(LoadError(why))

    def promise(self) -> asyncio.Future[Any]:
        """A future that fails with the connection."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def write(self, data: bytes) -> None:
        """Send; look at `writable` before sending much."""
        self._transport.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        """Send without joining."""
        self._transport.writelines(buffers)

    def close(self) -> None:
        """Close the socket without closing producers and consumers first."""
        self._transport.close()

    async def closed(self) -> None:
        """Close it, and return when it is closed: TLS ends with an answer of the server."""
        self.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._lost.wait()
        except TimeoutError:  # the server takes nothing of what is left to write
            self._transport.abort()


class Connection(Link):
    """The connection of a client of Pulsar."""

    def __init__(self) -> None:
        super().__init__()
        self.on_message: Callable[[Command], None] | None = None
        """Called with each message, before `on_messages`."""
        self._update: asyncio.Future[pb.CommandWatchTopicUpdate] | None = None
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._request_id = 0

    def receipt_number(self, last: Command) -> int:
        return decode_receipt(*last)[1]

    def receive(self, buf: bytes) -> Received:
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
        return Received(pos, receipts, receipt, messages, message)

    def _control(self, command: pb.BaseCommand) -> None:
        answer = getattr(command, FIELDS[command.type])
        request_id = getattr(answer, "request_id", 0)
        if command.type == pb.BaseCommand.PING:
            self.write(encode(pb.CommandPong()))
        elif command.type == pb.BaseCommand.ERROR:
            self.fail(f"refused: {command.error}")
        elif command.type == pb.BaseCommand.WATCH_TOPIC_UPDATE and self._update is not None:
            self._update.set_result(command.watchTopicUpdate)
        elif request_id in self._replies:
            self._replies.pop(request_id).set_result(command)
        elif command.type != pb.BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self.fail(f"unexpected answer: {command}")

    def update(self) -> "asyncio.Future[pb.CommandWatchTopicUpdate]":
        """The next update of a watcher of topics."""
        self._update = self.promise()
        return self._update

    def request_id(self) -> int:
        """A new one."""
        self._request_id += 1
        return self._request_id

    async def call(self, command: Any) -> pb.BaseCommand:
        """Send a command and await its answer; `LoadError` if it is refused."""
        return await self.ask(getattr(command, "request_id", 0), encode(command))

    async def ask(self, request_id: int, data: bytes) -> pb.BaseCommand:
        """As `call`, for a command that is already encoded."""
        future = self._replies[request_id] = self.promise()
        self.write(data)
        return cast(pb.BaseCommand, await future)


def connected(port: int, owner: str | None = None) -> AbstractAsyncContextManager[Connection]:
    """A connection to a server on this machine, after its handshake.

    `owner` is what `look_up` returned, where the port leads to several brokers.
    """
    return connected_as(Connection, port, owner)


@asynccontextmanager
async def connected_as(
    kind: type[C], port: int, owner: str | None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[C]:
    """As `connected`, with a connection of this kind."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(kind, "127.0.0.1", port, ssl=tls)
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
        await connection.closed()


async def look_up(connection: Connection, topic: str) -> str:
    """The address of a topic's owner, for a CONNECT; asks on until there is an owner."""
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
    """Return when the producer may send."""
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
    """The one consumer of a connection: durable, from the first message on."""
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


async def open_reader(connection: Connection, topic: str, first: tuple[int, int]) -> None:
    """As `open_consumer`, but not durable, and from the entry `first`, a ledger's, on."""
    await look_up(connection, topic)
    await connection.call(
        pb.CommandSubscribe(
            topic=topic,
            subscription=f"{SUBSCRIPTION}-reader",
            subType=EXCLUSIVE,
            consumer_id=CONSUMER_ID,
            request_id=connection.request_id(),
            durable=False,
            start_message_id=pb.MessageIdData(ledgerId=first[0], entryId=first[1]),
        )
    )
