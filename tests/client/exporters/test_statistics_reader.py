"""Statistics are read from any thread, also while the client's event loop ends."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

import magnetar
from client.receiving import TIMEOUT_S
from client.transacting import new_topic
from magnetar.exporters import statistics_reader as reading_statistics
from magnetar.exporters.statistics_reader import StatisticsReader
from running_broker import RunningBroker


@pytest.fixture
def ended(broker: RunningBroker) -> Iterator[tuple[StatisticsReader, asyncio.AbstractEventLoop]]:
    """A reader, and the loop of its client, which has stopped and is not closed."""

    async def make() -> StatisticsReader:
        return StatisticsReader(magnetar.connect(broker.service_url))

    loop = asyncio.new_event_loop()
    yield loop.run_until_complete(make()), loop
    loop.close()


def test_a_loop_that_has_ended(ended: tuple[StatisticsReader, asyncio.AbstractEventLoop]) -> None:
    reader, loop = ended
    assert reader.read() == []
    loop.close()
    assert reader.read() == []


def test_a_loop_that_ends_while_statistics_are_read(
    ended: tuple[StatisticsReader, asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, loop = ended
    monkeypatch.setattr(reading_statistics, "READ_TIMEOUT_S", 0.01)
    states = iter([True, False])
    monkeypatch.setattr(loop, "is_running", lambda: next(states, False))
    assert reader.read() == [], "it stops before it answers"
    loop.close()
    states = iter([True])
    assert reader.read() == [], "it is closed before it is asked"


async def test_a_loop_that_is_busy(
    client: magnetar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_statistics, "READ_TIMEOUT_S", 0.01)
    reader = StatisticsReader(client)
    with ThreadPoolExecutor() as threads:
        error = threads.submit(reader.read).exception()  # the loop does nothing else meanwhile
    assert isinstance(error, magnetar.OperationTimeout)
    assert "busy for 0.01 s" in str(error)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_has_no_statistics(client: magnetar.Client) -> None:
    await client.producer(new_topic())
    reader = StatisticsReader(client)
    here, there = multiprocessing.Pipe()

    def child(reader: StatisticsReader, answers: Connection) -> None:
        answers.send(len(reader.read()))

    process = multiprocessing.get_context("fork").Process(target=child, args=(reader, there))
    process.start()
    there.close()
    answered = await asyncio.to_thread(here.poll, TIMEOUT_S)
    assert answered and here.recv() == 0
    await asyncio.to_thread(process.join, TIMEOUT_S)
    assert len(reader.read()) == 1
