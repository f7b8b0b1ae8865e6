"""The load for Kafka: produce requests of one record batch, and fetches, one after the other.

A topic has one partition.  Versions of requests are the last whose encoding has no tagged fields.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from struct import Struct

from crc32c import crc32c

from bench.connection import RETRIES, RETRY_SECONDS, Command, Link, LoadError, Received
from bench.consuming import Arrivals
from bench.dialect import Dialect
from bench.frames import SHARED_PAYLOAD, WRITE_BYTES, WRITE_ENTRIES, Load, Shape, Write

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = (0, 7), (1, 11), (2, 3), (3, 4), (19, 4)
"""Key and version of each request."""
CONTROL = 1 << 30
"""Numbers of requests that do not produce begin here."""
FETCHED = CONTROL - 1
CLIENT = b"bench"
ALL_REPLICAS = -1
TIMEOUT_MS = 30_000
FETCH_BYTES = 1 << 20
FETCH_WAIT_MS = 500
TOPIC_EXISTS = 36
HEAD = Struct(">ii")
"""Size of the rest of a response, and its request's number."""
REQUEST = Struct(">hhi")
BATCH = Struct(">qi")
"""Of a record batch: first offset, size of the rest."""
BATCH_REST = Struct(">ib")
COVERED = Struct(">hiqqqhii")
I8, I16, I32, I64, U32 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q"), Struct(">I")
LAST_OFFSET_DELTA = 23
"""Where it is in a record batch."""


def varint(value: int) -> bytes:
    """As records have it: small negative numbers are short too."""
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def string(text: bytes) -> bytes:
    """With its length."""
    return I16.pack(len(text)) + text


def record_batch(payload: bytes, count: int, now_ms: int) -> bytes:
    """So many records without keys; the first has offset 0, which the broker changes."""
    records = []
    for number in range(count):
        body = b"\0\0" + varint(number) + varint(-1) + varint(len(payload)) + payload + b"\0"
        records.append(varint(len(body)) + body)
    covered = COVERED.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + b"".join(records)
    rest = BATCH_REST.pack(-1, 2) + U32.pack(crc32c(covered)) + covered
    return BATCH.pack(0, len(rest)) + rest


def request(kind: tuple[int, int], number: int, body: bytes) -> bytes:
    """A whole frame."""
    framed = REQUEST.pack(*kind, number) + string(CLIENT) + body
    return I32.pack(len(framed)) + framed


def produce_head(topic: bytes, number: int, size: int) -> bytes:
    """Of a produce request, before a record batch of that size."""
    body = I16.pack(-1) + I16.pack(ALL_REPLICAS) + I32.pack(TIMEOUT_MS)
    body += I32.pack(1) + string(topic) + I32.pack(1) + I32.pack(0) + I32.pack(size)
    framed = request(PRODUCE, number, body)
    return I32.pack(I32.unpack_from(framed)[0] + size) + framed[4:]


def fetch(topic: bytes, offset: int) -> bytes:
    """A request for what is there from an offset on, or comes soon."""
    body = I32.pack(-1) + I32.pack(FETCH_WAIT_MS) + I32.pack(1) + I32.pack(FETCH_BYTES)
    body += I8.pack(0) + I32.pack(0) + I32.pack(-1) + I32.pack(1) + string(topic) + I32.pack(1)
    body += I32.pack(0) + I32.pack(-1) + I64.pack(offset) + I64.pack(-1) + I32.pack(FETCH_BYTES)
    return request(FETCH, FETCHED, body + I32.pack(0) + string(b""))


def create_topic(topic: bytes, number: int) -> bytes:
    """A request for a topic with one partition on one broker."""
    body = I32.pack(1) + string(topic) + I32.pack(1) + I16.pack(1) + I32.pack(0) + I32.pack(0)
    return request(CREATE_TOPICS, number, body + I32.pack(TIMEOUT_MS) + b"\0")


def list_offset(topic: bytes, number: int) -> bytes:
    """A request for the end of a topic, which only its leader answers."""
    body = I32.pack(-1) + b"\0" + I32.pack(1) + string(topic) + I32.pack(1)
    return request(LIST_OFFSETS, number, body + I32.pack(0) + I64.pack(-1))


def metadata(number: int) -> bytes:
    """A request for the brokers that are there."""
    return request(METADATA, number, I32.pack(0) + b"\0")


def brokers_in(response: bytes) -> int:
    """How many brokers a response names, from its number on."""
    return int(I32.unpack_from(response, 8)[0])


def batches_in(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """How many whole record batches are there, and the offset behind the last; -1 for none."""
    count, following = 0, -1
    while end - pos >= LAST_OFFSET_DELTA + 4:
        first, size = BATCH.unpack_from(buf, pos)
        if pos + BATCH.size + size > end:
            break
        following = first + I32.unpack_from(buf, pos + LAST_OFFSET_DELTA)[0] + 1
        pos += BATCH.size + size
        count += 1
    return count, following


class KafkaLink(Link):
    """A client's connection; a receipt is the answer to a produce request, an entry a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.topic = b""
        self._offset = 0
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._requests = CONTROL

    def receive(self, buf: bytes) -> Received:
        pos, size = 0, len(buf)
        receipts = messages = 0
        receipt = message = (0, 0)
        while size - pos >= HEAD.size:
            length, number = HEAD.unpack_from(buf, pos)
            end = pos + 4 + length
            if end > size:
                break
            if number < FETCHED:
                self._check(buf, pos + HEAD.size)
                receipts += 1
                receipt = pos + 4, end
            elif number == FETCHED:
                came = self._fetched(buf, pos + HEAD.size, end)
                messages += came
                message = pos + 4, end
            else:
                self._answers.pop(number).set_result(buf[pos + 4 : end])
            pos = end
        return Received(pos, receipts, receipt, messages, message)

    def receipt_number(self, last: Command) -> int:
        return int(I32.unpack_from(last.buf, last.start)[0])

    def fetch(self) -> None:
        """From now on there is always a fetch on its way."""
        self.write(fetch(self.topic, self._offset))

    def _check(self, buf: bytes, pos: int) -> None:
        """Of a produce response: topics, name, partitions, partition, error."""
        name = I16.unpack_from(buf, pos + 4)[0]
        error = I16.unpack_from(buf, pos + 4 + 2 + name + 4 + 4)[0]
        if error:
            self.fail(f"a record batch was refused: error {error}")

    def _fetched(self, buf: bytes, pos: int, end: int) -> int:
        """Ask for more at once; the number of batches that came.

        Throttle time, error, session, topics, name, partitions, partition, error, three offsets,
        aborted transactions, replica, size of the batches.
        """
        pos += 4 + 2 + 4 + 4
        pos += 2 + I16.unpack_from(buf, pos)[0] + 4 + 4
        error = I16.unpack_from(buf, pos)[0]
        if error:
            self.fail(f"a fetch was refused: error {error}")
            return 0
        pos += 2 + 3 * 8
        pos += 4 + 16 * max(0, I32.unpack_from(buf, pos)[0]) + 4 + 4
        count, following = batches_in(buf, pos, end)
        if count:
            self._offset = following
        self.fetch()
        return count

    def request_number(self) -> int:
        """A new one."""
        self._requests += 1
        return self._requests

    async def ask(self, number: int, frame: bytes) -> bytes:
        """The response to a request that does not produce, from its number on."""
        future: asyncio.Future[bytes] = self.promise()
        self._answers[number] = future
        self.write(frame)
        return await future


class KafkaReceiver(Arrivals):
    """Fetches; nothing is committed."""

    def __init__(self, link: KafkaLink) -> None:
        super().__init__(link)
        link.fetch()

    def _acknowledge(self, count: int, last: Command) -> None:
        pass


class KafkaDialect(Dialect[KafkaLink]):
    """An entry is a record batch, of one record or more, and a produce request."""

    def encode_load(
        self, topic: str, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES
    ) -> Load:
        payload = random.Random(7).randbytes(shape.size)
        batch = record_batch(payload, shape.batch, time.time_ns() // 1_000_000)
        name = topic_of(topic)
        together = max(1, min(write_entries, WRITE_BYTES // len(batch)))
        shared = len(batch) >= SHARED_PAYLOAD
        writes = []
        for first in range(0, entries, together):
            numbers = range(first, min(first + together, entries))
            heads = (produce_head(name, number, len(batch)) for number in numbers)
            parts = [part for head in heads for part in (head, batch)]
            writes.append(Write(parts if shared else [b"".join(parts)], len(numbers)))
        return Load(shape, writes, entries)

    def connected(self, port: int) -> AbstractAsyncContextManager[KafkaLink]:
        return _connected(port)

    async def open_producer(self, link: KafkaLink, topic: str, shape: Shape) -> None:
        """Create the topic if need be, and wait until its leader answers."""
        name, number = topic_of(topic), link.request_number()
        answer = await link.ask(number, create_topic(name, number))
        error = I16.unpack_from(answer, 4 + 4 + 4 + 2 + len(name))[0]
        if error not in (0, TOPIC_EXISTS):
            raise LoadError(f"{topic} was not created: error {error}")
        for _ in range(RETRIES):
            number = link.request_number()
            answer = await link.ask(number, list_offset(name, number))
            error = I16.unpack_from(answer, 4 + 4 + 4 + 2 + len(name) + 4 + 4)[0]
            if not error:
                return
            await asyncio.sleep(RETRY_SECONDS)
        raise LoadError(f"{topic} has no leader: error {error}")

    async def open_consumer(self, link: KafkaLink, topic: str, subscription: str) -> None:
        await self.open_producer(link, topic, Shape(0))
        link.topic = topic_of(topic)

    def receiver(self, link: KafkaLink, batch: int) -> Arrivals:
        return KafkaReceiver(link)


def topic_of(topic: str) -> bytes:
    """The local name of a topic; a whole one is no valid name."""
    return topic.rpartition("/")[2].encode()


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[KafkaLink]:
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(KafkaLink, "127.0.0.1", port)
    try:
        yield link
    finally:
        link.close()
