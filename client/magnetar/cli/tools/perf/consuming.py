"""The consumers of a run, which receive and acknowledge as fast as messages arrive."""

import asyncio
import time
from collections.abc import Sequence

from magnetar.cli.tools.perf.measuring import Measuring
from magnetar.consuming.entry_consumer import EntryConsumer

ENTRIES = 1000
"""The number of entries taken at once."""


class Consuming:
    """Lets each consumer receive and acknowledge entries, without unpacking batches."""

    def __init__(
        self, consumers: Sequence[EntryConsumer], rate: float, messages: int, measuring: Measuring
    ) -> None:
        """`rate` limits the messages per second of all consumers, 0 for no limit; `messages` is
        the number after which the run ends, 0 for no limit."""
        self._consumers = consumers
        self._rate = rate
        self._messages = messages
        self._measuring = measuring
        self._began_s = 0.0
        self._end = asyncio.Event()

    async def run(self) -> None:
        """Receive until the messages have arrived, or until cancelled if there is no limit."""
        self._began_s = time.perf_counter()
        tasks = [asyncio.create_task(self._consume(one)) for one in self._consumers]
        ended = asyncio.create_task(self._end.wait())
        try:
            done, _ = await asyncio.wait((*tasks, ended), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, ended):
                task.cancel()
            await asyncio.gather(*tasks, ended, return_exceptions=True)

    async def settle(self) -> None:
        """Do nothing: the client confirms acknowledgements when it is closed."""

    async def _consume(self, consumer: EntryConsumer) -> None:
        measuring = self._measuring
        while True:
            entries = await consumer.receive_entries(ENTRIES)
            now_s = time.time()
            for entry in entries:
                published_s = entry.metadata.publish_time / 1000
                size = entry.metadata.uncompressed_size or entry.size
                measuring.done(entry.permits, size, now_s - published_s)
            consumer.ack(entries)
            if self._messages and measuring.messages >= self._messages:
                self._end.set()
                return
            if self._rate:
                due_s = self._began_s + measuring.messages / self._rate
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
