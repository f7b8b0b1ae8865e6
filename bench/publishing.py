"""Publishers: one that is as fast as its receipts allow, and one at a constant rate."""

import asyncio
import time

from bench.connection import Command, Connection, open_producer
from bench.frames import Load, Shape, Write
from magnetar_proto.sends import decode_receipt

WINDOW_ENTRIES = 5000
"""The most entries without a receipt."""
OPENING = 50
"""The number of topics that are opened at once."""
PACE_SECONDS = 0.001
"""The period, in seconds, of a paced publisher; timers of the loop are no finer."""


async def open_all(connection: Connection, topic: str, shape: Shape) -> None:
    """Open a producer on each topic of a shape; on the topic itself if there is only one."""
    names = [topic]
    if shape.topics > 1:
        names = [f"{topic}-{number}" for number in range(shape.topics)]
    await open_each(connection, names)


async def open_each(connection: Connection, topics: list[str]) -> None:
    """Open a producer on each topic; their ids count from 1."""
    for first in range(0, len(topics), OPENING):
        some = enumerate(topics[first : first + OPENING], first + 1)
        await asyncio.gather(*(open_producer(connection, t, at) for at, t in some))


class Publisher:
    """Publishes entries, at most a window of them without receipts."""

    def __init__(self, connection: Connection) -> None:
        self.sent = self.answered = 0
        self.answered_at = 0.0
        """The time of the last receipt, in seconds of `time.perf_counter`."""
        self._connection = connection
        self._in_order = True
        self._left = self._skipped = 0
        self._writes: list[Write] = []
        self.until = 0.0
        """Nothing is sent after this time."""
        self._done: asyncio.Future[None]
        connection.on_receipts = self._receipts
        connection.on_writable = self._write

    async def publish(self, load: Load, seconds: float) -> int:
        """Send a load that continues the last one, or as much of it as `seconds` allow.

        Returns the number of entries sent; all of them are answered on return.
        """
        before = self.answered
        if load.writes:
            self._in_order = load.shape.topics == 1
            self._skipped, self._left = self._skipped + self._left, 0
            self._writes = load.writes[::-1]
            self.until = time.perf_counter() + seconds
            self._done = self._connection.promise()
            self._write()
            await self._done
        return self.answered - before

    def _write(self) -> None:
        if self._writes and time.perf_counter() > self.until:
            self._left = sum(write.entries for write in self._writes)
            self._writes.clear()
        while self._writes and self._connection.writable:
            buffers, entries = self._writes[-1]
            if self.sent > self.answered and self.sent + entries > self.answered + WINDOW_ENTRIES:
                break
            del self._writes[-1]
            self.sent += entries
            self._connection.write_all(buffers)

    def _receipts(self, count: int, last: Command) -> None:
        self.answered += count
        self.answered_at = time.perf_counter()
        if self._in_order:
            sequence_id = decode_receipt(*last)[1]
            if sequence_id != self._skipped + self.answered - 1:
                self._connection.fail(f"receipt {self.answered} is for sequence id {sequence_id}")
                return
        self._write()
        if not self._writes and self.answered == self.sent:
            self._done.set_result(None)


class PacedPublisher:
    """Sends at a constant rate, whatever the answers; late writes are sent at once."""

    def __init__(self, connection: Connection, load: Load, per_second: int) -> None:
        self.sent_at: list[float] = []
        """The time of each write, in seconds of `time.perf_counter`."""
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
        if self._done.done():  # the connection failed, or `publish` was cancelled
            return
        writes = self._load.writes
        due = int((time.perf_counter() - self._begin) * self._per_second) + 1
        for buffers, _ in writes[len(self.sent_at) : due]:
            self.sent_at.append(time.perf_counter())
            self._connection.write_all(buffers)
        if len(self.sent_at) < len(writes):
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._send_due)

    def _receipts(self, count: int, last: Command) -> None:
        self._answered += count
        if self._answered == self._load.entries and not self._done.done():
            self._done.set_result(None)
