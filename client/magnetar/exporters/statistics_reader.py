"""Statistics of a client, for exporters that run in any thread."""

import asyncio
from concurrent.futures import Future

import magnetar.sync
from magnetar.base.background import background
from magnetar.base.errors import OperationTimeout
from magnetar.base.statistics import ConsumerStatistics, ProducerStatistics
from magnetar.client import Client

READ_TIMEOUT_S = 10.0

Statistics = list[ProducerStatistics | ConsumerStatistics]


class StatisticsReader:
    """Reads the statistics of a client; create it in the client's event loop.

    For a client of `magnetar.sync` it can be created anywhere.
    """

    def __init__(self, client: Client | magnetar.sync.Client) -> None:
        if isinstance(client, Client):
            self._client = client
            self._loop = asyncio.get_running_loop()
        else:
            self._client = client.wrapped
            self._loop = background.loop()
        self._generation = background.generation

    def read(self) -> Statistics:
        """Return the statistics of all open producers, consumers and readers, in any thread.

        OperationTimeout if the client's event loop is busy for `READ_TIMEOUT_S`.
        """
        if not self._is_elsewhere():
            return self._client.statistics()
        answer: Future[Statistics] = Future()
        try:
            self._loop.call_soon_threadsafe(self._answer, answer)
        except RuntimeError:  # it was closed just now
            return self._client.statistics()
        try:
            return answer.result(READ_TIMEOUT_S)
        except TimeoutError:
            if not self._is_elsewhere():  # the loop has stopped without an answer
                return self._client.statistics()
            raise OperationTimeout(
                f"the statistics of the client were not read: its event loop was busy for "
                f"{READ_TIMEOUT_S:g} s"
            ) from None

    def _is_elsewhere(self) -> bool:
        """Tell whether the client's event loop runs in another thread."""
        if self._generation != background.generation or not self._loop.is_running():
            return False  # a forked child must not touch the loop, which runs in the parent
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:  # this thread has none
            return True

    def _answer(self, answer: Future[Statistics]) -> None:
        try:
            answer.set_result(self._client.statistics())
        except Exception as error:
            answer.set_exception(error)
