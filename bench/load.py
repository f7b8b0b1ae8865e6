"""The load: one thread, frames encoded before the clock starts, receipts and messages counted."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.commands import (
    decode,
    decode_message,
    decode_receipt,
    encode,
    encode_ack,
    encode_flow,
    encode_send,
)
from magnetar_proto.frames import Frame, FrameDecoder

MAX_FRAME = 6 << 20
PROTOCOL_VERSION = 19
PENDING_ENTRIES = 1000
"""Unanswered entries, as official clients have them by default."""
PERMITS = 1000
"""Messages a consumer takes ahead, as official clients do by default."""
PACE_SECONDS = 0.001
"""How often a paced publisher looks what is due; the loop's timers are no finer."""
PRODUCER_ID = CONSUMER_ID = 1
SUBSCRIPTION = "bench"


class LoadError(Exception):
    """The server did something else than the load expects; there is nothing to measure."""


@dataclass(frozen=True)
class Load:
    """SEND frames of one producer, sequence ids from 0 on."""

    writes: list[tuple[bytes, int]]
    """Frames that are written together, and how many they are."""
    entries: int
    batch: int
    """Messages in each entry."""


def encode_load(entries: int, size: int, batch: int = 1, entries_per_write: int = 50) -> Load:
    """Frames with messages of `size` bytes; a batch of 1 is sent as no batch."""
    payload = random.Random(7).randbytes(size)
    metadata = pb.MessageMetadata(producer_name="bench", publish_time=time.time_ns() // 1_000_000)
    if batch > 1:
        metadata.num_messages_in_batch = batch
        payload = encode_batch([(pb.SingleMessageMetadata(), payload)] * batch)
    frames = []
    for sequence_id in range(entries):
        metadata.sequence_id = sequence_id
        encoded = metadata.SerializeToString()
        frames.append(encode_send(PRODUCER_ID, sequence_id, batch, encoded, payload))
    groups = [frames[i : i + entries_per_write] for i in range(0, entries, entries_per_write)]
    return Load([(b"".join(group), len(group)) for group in groups], entries, batch)


class Connection(asyncio.Protocol):
    """A client's connection.  When it is lost or refused something, whoever waits gets that."""

    def __init__(self) -> None:
        self.on_receipts: Callable[[int, Frame], None] = self._unexpected
        """Takes how many came, and the last of them."""
        self.on_messages: Callable[[list[Frame]], None] = self._unexpected
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        self._decoder = FrameDecoder(MAX_FRAME)
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._waiting: set[asyncio.Future[Any]] = set()
        self._transport: asyncio.Transport
        self._request_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(f"the connection was lost: {error or 'closed by the server'}")

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        receipts = 0
        messages: list[Frame] = []
        for frame in self._decoder.feed(data):
            if frame[0] == pb.BaseCommand.SEND_RECEIPT:
                receipts += 1
                last_receipt = frame
            elif frame[0] == pb.BaseCommand.MESSAGE:
                messages.append(frame)
            else:
                self._control(frame)
        if receipts:
            self.on_receipts(receipts, last_receipt)
        if messages:
            self.on_messages(messages)

    def _control(self, frame: Frame) -> None:
        kind, buf, start, mid, _ = frame
        if kind == pb.BaseCommand.PING:
            self.write(encode(pb.CommandPong()))
        elif kind in self._replies:
            self._replies.pop(kind).set_result(decode(buf, start, mid))
        elif kind != pb.BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self.fail(f"unexpected answer: {decode(buf, start, mid)}")

    def _unexpected(self, *_: object) -> None:
        self.fail("a receipt or a message nobody waits for")

    def fail(self, why: str) -> None:
        """Whoever waits gets a `LoadError`."""
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

    def close(self) -> None:
        """Close without telling the server."""
        self._transport.close()

    def request_id(self) -> int:
        """A new one."""
        self._request_id += 1
        return self._request_id

    async def call(self, command: Any, reply: int) -> pb.BaseCommand:
        """Send a command and await the reply of that type; `LoadError` for any other."""
        future = self._replies[reply] = self.promise()
        self.write(encode(command))
        return cast(pb.BaseCommand, await future)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """A connection to a server on this machine, after its handshake."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    try:
        connect = pb.CommandConnect(client_version="bench", protocol_version=PROTOCOL_VERSION)
        await connection.call(connect, pb.BaseCommand.CONNECTED)
        yield connection
    finally:
        connection.close()


async def look_up(connection: Connection, topic: str) -> None:
    """What a client asks before it opens anything on a topic."""
    await connection.call(
        pb.CommandPartitionedTopicMetadata(topic=topic, request_id=connection.request_id()),
        pb.BaseCommand.PARTITIONED_METADATA_RESPONSE,
    )
    reply = await connection.call(
        pb.CommandLookupTopic(topic=topic, request_id=connection.request_id()),
        pb.BaseCommand.LOOKUP_RESPONSE,
    )
    if reply.lookupTopicResponse.response != pb.CommandLookupTopicResponse.Connect:
        raise LoadError(f"the topic is served elsewhere: {reply.lookupTopicResponse}")


async def open_producer(connection: Connection, topic: str) -> None:
    """The one producer of a connection."""
    await look_up(connection, topic)
    await connection.call(
        pb.CommandProducer(
            topic=topic, producer_id=PRODUCER_ID, request_id=connection.request_id()
        ),
        pb.BaseCommand.PRODUCER_SUCCESS,
    )


async def open_consumer(connection: Connection, topic: str) -> None:
    """The one consumer of a connection, from the first message on."""
    await look_up(connection, topic)
    await connection.call(
        pb.CommandSubscribe(
            topic=topic,
            subscription=SUBSCRIPTION,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=CONSUMER_ID,
            request_id=connection.request_id(),
            initialPosition=pb.CommandSubscribe.Earliest,
        ),
        pb.BaseCommand.SUCCESS,
    )


class Publisher:
    """Publishes as fast as it is answered, a thousand entries ahead at most."""

    def __init__(self, connection: Connection) -> None:
        self.sent = self.answered = 0
        self._connection = connection
        self._writes: list[tuple[bytes, int]] = []
        self._done: asyncio.Future[None]
        connection.on_receipts = self._receipts
        connection.on_writable = self._write

    async def publish(self, writes: list[tuple[bytes, int]]) -> None:
        """Send frames that go on where the last call ended; all are answered on return."""
        if not writes:
            return
        self._writes = writes[::-1]
        self._done = self._connection.promise()
        self._write()
        await self._done

    def _write(self) -> None:
        while self._writes and self._connection.writable:
            data, entries = self._writes[-1]
            if self.sent > self.answered and self.sent + entries > self.answered + PENDING_ENTRIES:
                break
            del self._writes[-1]
            self.sent += entries
            self._connection.write(data)

    def _receipts(self, count: int, last: Frame) -> None:
        self.answered += count
        _, buf, start, mid, _ = last
        sequence_id = decode_receipt(buf, start, mid)[1]
        if sequence_id != self.answered - 1:
            self._connection.fail(f"receipt {self.answered} is for sequence id {sequence_id}")
        elif self._writes:
            self._write()
        elif self.answered == self.sent:
            self._done.set_result(None)


class Receiver:
    """Takes messages as fast as they come and acknowledges them cumulatively."""

    def __init__(self, connection: Connection) -> None:
        self.arrivals: list[float] = []
        """When each message came, in seconds of `time.perf_counter`."""
        self._connection = connection
        self._awaited = 0
        self._used = 0
        self._done: asyncio.Future[None]
        connection.on_messages = self._messages
        connection.write(encode_flow(CONSUMER_ID, PERMITS))

    async def receive(self, messages: int) -> None:
        """Return when so many unbatched messages have come altogether."""
        self._awaited = messages
        self._done = self._connection.promise()
        if len(self.arrivals) >= messages:
            self._done.set_result(None)
        await self._done

    def _messages(self, frames: list[Frame]) -> None:
        self.arrivals += [time.perf_counter()] * len(frames)
        _, buf, start, mid, _ = frames[-1]
        last = decode_message(buf, start, mid)
        self._connection.write(
            encode_ack(CONSUMER_ID, pb.CommandAck.Cumulative, [(last.ledger, last.entry, ())])
        )
        self._used += len(frames)
        if self._used >= PERMITS // 2:
            self._connection.write(encode_flow(CONSUMER_ID, self._used))
            self._used = 0
        if 0 < self._awaited <= len(self.arrivals):
            self._awaited = 0
            self._done.set_result(None)


class PacedPublisher:
    """Publishes evenly spaced in time, whatever the answers do; what is late is sent at once."""

    def __init__(self, connection: Connection, load: Load, per_second: int) -> None:
        self.sent_at: list[float] = []
        """When each write was made, in seconds of `time.perf_counter`."""
        self._connection = connection
        self._load = load
        self._per_second = per_second
        self._answered = 0
        self._begin = time.perf_counter()
        self._done: asyncio.Future[None]
        connection.on_receipts = self._receipts

    async def publish(self) -> None:
        """Send the whole load; all of it is answered on return."""
        self._begin = time.perf_counter()
        self._done = self._connection.promise()
        self._send_due()
        await self._done

    def _send_due(self) -> None:
        writes = self._load.writes
        due = int((time.perf_counter() - self._begin) * self._per_second) + 1
        for data, _ in writes[len(self.sent_at) : due]:
            self.sent_at.append(time.perf_counter())
            self._connection.write(data)
        if len(self.sent_at) < len(writes) and not self._done.done():
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._send_due)

    def _receipts(self, count: int, last: Frame) -> None:
        self._answered += count
        if self._answered == self._load.entries:
            self._done.set_result(None)
