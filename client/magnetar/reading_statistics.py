"""Statistics of a client, for exporters that run in any thread."""

import asyncio

import magnetar.sync
from magnetar.background import background
from magnetar.client import Client
from magnetar.errors import OperationTimeout
from magnetar.statistics import ConsumerStatistics, ProducerStatistics

READ_TIMEOUT_S = 10.0

Statistics = list[ProducerStatistics | ConsumerStatistics]


class StatisticsReader:
    """Make it where the client is used: in its event loop.

    One for a client of `magnetar.sync` can be made anywhere.
    """

    def __init__(self, client: Client | magnetar.sync.Client) -> None:
        if isinstance(client, Client):
            self._client = client
            self._loop = asyncio.get_running_loop()
        else:
            self._client = client.wrapped
            self._loop = background.loop()

    def read(self) -> Statistics:
        """Of all producers, consumers and readers that are open; from any thread.

        OperationTimeout if the client's event loop is busy for `READ_TIMEOUT_S`.
        """

        async def read() -> Statistics:
            return self._client.statistics()

        try:
            in_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # this thread has none
            in_loop = False
        if in_loop or not self._loop.is_running():
            return self._client.statistics()
        reading = asyncio.run_coroutine_threadsafe(read(), self._loop)
        try:
            return reading.result(READ_TIMEOUT_S)
        except TimeoutError:
            reading.cancel()
            raise OperationTimeout(
                f"the event loop of the client was busy for {READ_TIMEOUT_S:g} s: no metrics"
            ) from None
