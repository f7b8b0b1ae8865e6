"""The load for NATS JetStream: published messages with an acknowledgement each, pulled messages.

A topic is a stream with one subject of that name, kept in files.
"""

import asyncio
import json
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from bench.connection import Command, Link, LoadError, Received
from bench.consuming import PERMITS, Arrivals
from bench.dialect import Dialect
from bench.frames import WRITE_BYTES, WRITE_ENTRIES, Load, Shape, Write

CONNECT = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
ANSWERS, DELIVERIES, RECEIPTS = b"1", b"2", b"3"
"""Ids of a connection's subscriptions: to the API's answers, to messages, to acknowledgements."""
RECEIPT = b"_INBOX.receipt.%s."
"""The beginning of the subjects to which a stream's messages are acknowledged; a number follows."""
LINE_END = b"\r\n"
MESSAGE, HEADED, PING, PONG, ERROR = b"MSG ", b"HMSG", b"PING", b"PONG", b"-ERR"
MOST_MESSAGES, MOST_BYTES = 600_000, 128 << 20
"""Of a load: more than that can be stored in the time there is."""


class NatsLink(Link):
    """A client's connection; counts acknowledgements and messages, decodes what else comes."""

    def __init__(self) -> None:
        super().__init__()
        self.topic = self.consumer = ""
        self.inbox = b"_INBOX.%s." % secrets.token_hex(8).encode()
        self.last_reply = b""
        """Where to acknowledge the last message that came."""
        self._greeted: asyncio.Future[None]
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._requests = 0

    def receive(self, buf: bytes) -> Received:
        pos, size = 0, len(buf)
        receipts = messages = 0
        receipt = message = (0, 0)
        while (eol := buf.find(LINE_END, pos)) >= 0:
            kind, end = buf[pos : pos + 4], eol + 2
            if kind in (MESSAGE, HEADED):
                fields = buf[pos:eol].split(b" ")
                end += int(fields[-1]) + 2
                if end > size:
                    break
                if kind == HEADED:
                    self.fail(f"unexpected: {buf[pos:end]!r}")
                elif fields[2] == DELIVERIES:
                    messages += 1
                    message = eol + 2, end - 2
                    self.last_reply = fields[3]
                elif fields[2] == ANSWERS:
                    number = int(fields[1].rpartition(b".")[2])
                    self._answers.pop(number).set_result(buf[eol + 2 : end - 2])
                else:
                    self._check(buf[eol + 2 : end - 2])
                    receipts += 1
                    subject_end = pos + 4 + len(fields[1])
                    receipt = buf.rindex(b".", pos, subject_end) + 1, subject_end
            else:
                self._control(kind, buf[pos:eol])
            pos = end
        return Received(pos, receipts, receipt, messages, message)

    def receipt_number(self, last: Command) -> int:
        return int(last.buf[last.start : last.mid])

    def _check(self, acknowledgement: bytes) -> None:
        if b'"error"' in acknowledgement:
            self.fail(f"refused: {acknowledgement.decode()}")

    def _control(self, kind: bytes, line: bytes) -> None:
        if kind == PING:
            self.write(b"PONG\r\n")
        elif kind == PONG:
            self._greeted.set_result(None)
        elif kind == ERROR:
            self.fail(f"refused: {line.decode()}")

    async def greet(self) -> None:
        """Connect, and subscribe to what the server answers."""
        self._greeted = self.promise()
        self.write(b"CONNECT %s\r\n" % json.dumps(CONNECT).encode())
        self.write(b"SUB %sanswer.* %s\r\n" % (self.inbox, ANSWERS))
        self.write(b"SUB %sdelivery %s\r\nPING\r\n" % (self.inbox, DELIVERIES))
        await self._greeted

    async def ask(self, subject: str, body: dict[str, object]) -> None:
        """A request of the JetStream API; LoadError if it is refused."""
        self._requests += 1
        number, encoded = self._requests, json.dumps(body).encode()
        future = self._answers[number] = self.promise()
        head = b"PUB $JS.API.%s %sanswer.%d %d\r\n"
        where = subject.encode(), self.inbox, number, len(encoded)
        self.write(head % where + encoded + LINE_END)
        answer = json.loads(await future)
        if "error" in answer:
            raise LoadError(f"{subject} was refused: {answer['error']}")


class NatsReceiver(Arrivals):
    """Pulls as many messages ahead as other servers are given permits; acknowledges all to the last
    of each read.
    """

    def __init__(self, link: NatsLink) -> None:
        super().__init__(link)
        self._nats = link
        self._used = 0
        self._pull(PERMITS)

    def _pull(self, count: int) -> None:
        where = f"{self._nats.topic}.{self._nats.consumer}".encode()
        body = b'{"batch":%d}' % count
        head = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s %sdelivery %d\r\n"
        self._nats.write(head % (where, self._nats.inbox, len(body)) + body + LINE_END)

    def _acknowledge(self, count: int, last: Command) -> None:
        self._nats.write(b"PUB %s 4\r\n+ACK\r\n" % self._nats.last_reply)
        self._used += count
        if self._used >= PERMITS // 2:
            self._pull(self._used)
            self._used = 0


class NatsDialect(Dialect[NatsLink]):
    """There are no batches: their messages are sent, and acknowledged, one by one."""

    def encode_load(
        self, topic: str, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES
    ) -> Load:
        messages = min(entries * shape.batch, MOST_MESSAGES, MOST_BYTES // shape.size)
        payload = random.Random(7).randbytes(shape.size) + LINE_END
        subject = stream_of(topic).encode()
        receipt = RECEIPT % subject
        together = max(1, min(write_entries, WRITE_BYTES // shape.size))
        writes = []
        for first in range(0, messages, together):
            numbers = range(first, min(first + together, messages))
            heads = (b"PUB %s %s%d %d\r\n" % (subject, receipt, n, shape.size) for n in numbers)
            frames = b"".join(part for head in heads for part in (head, payload))
            writes.append(Write([frames], len(numbers)))
        return Load(replace(shape, batch=1), writes, messages)

    def connected(self, port: int) -> AbstractAsyncContextManager[NatsLink]:
        return _connected(port)

    async def open_producer(self, link: NatsLink, topic: str, shape: Shape) -> None:
        await self._create_stream(link, topic)
        link.write(b"SUB %s* %s\r\n" % (RECEIPT % stream_of(topic).encode(), RECEIPTS))

    async def open_consumer(self, link: NatsLink, topic: str, subscription: str) -> None:
        await self._create_stream(link, topic)
        link.topic, link.consumer = stream_of(topic), subscription
        config: dict[str, object] = {
            "durable_name": subscription,
            "deliver_policy": "all",
            "ack_policy": "all",
            "max_ack_pending": 2 * PERMITS,
        }
        asked: dict[str, object] = {"stream_name": link.topic, "config": config}
        await link.ask(f"CONSUMER.DURABLE.CREATE.{link.topic}.{subscription}", asked)

    def receiver(self, link: NatsLink, batch: int) -> Arrivals:
        return NatsReceiver(link)

    async def _create_stream(self, link: NatsLink, topic: str) -> None:
        """It may exist, and be the same."""
        name = stream_of(topic)
        await link.ask(
            f"STREAM.CREATE.{name}", {"name": name, "subjects": [name], "storage": "file"}
        )


def stream_of(topic: str) -> str:
    """The local name of a topic; a whole one is no valid name."""
    return topic.rpartition("/")[2]


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[NatsLink]:
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(NatsLink, "127.0.0.1", port)
    try:
        await link.greet()
        yield link
    finally:
        link.close()
