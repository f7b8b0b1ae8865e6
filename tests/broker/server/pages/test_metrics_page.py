"""Scrapes: paced so that the loop serves others, shared, and cancelled for departed clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore
from magnetar_broker.base.pace import LEAST_SECONDS, Slices
from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.metrics.loop import LoopStats
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.server.http.messages import Request
from magnetar_broker.server.pages.broker_page import BrokerPage
from magnetar_broker.server.pages.metrics_page import (
    MetricsPage,
    gradually,
)
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks
from magnetar_broker.standalone import standalone
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine

PARTS = [b"large" * 1000, b"", b"small"] * 20


def request(is_given_up: Callable[[], bool] = lambda: False) -> Request:
    return Request("GET", "/metrics", {}, {}, b"", 8080, is_given_up=is_given_up)


@pytest.fixture
async def page() -> AsyncIterator[MetricsPage]:
    """Return the page of a broker without topics."""
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    store, metadata = MemoryStore(clock), MemoryMetadata(clock)
    engine = Engine(store, metadata, EntryCache(1 << 20), clock, LoopTasks(loop))
    directory, broker = standalone(Settings(), engine, SoleOwner("pulsar://127.0.0.1:6650"))
    await broker.start()
    yield MetricsPage(BrokerPage(broker, directory.ownership, JournalStats(), LoopStats()).make)
    await broker.close()


class Turns:
    """A time that advances with every part of a page and every pause."""

    def __init__(self) -> None:
        self.pauses = 0
        self._now = 0.0

    def parts(self) -> Iterator[bytes]:
        for part in PARTS:
            self._now += LEAST_SECONDS / 2
            yield part

    async def pause(self) -> None:
        self.pauses += 1
        self._now += LEAST_SECONDS

    def slices(self) -> Slices:
        return Slices(self.pause, lambda: self._now)


async def test_a_page_is_made_in_slices() -> None:
    turns = Turns()
    assert await gradually(turns.parts(), lambda: True, turns.slices()) == PARTS
    assert len(PARTS) / 4 < turns.pauses <= len(PARTS) / 2


async def test_no_more_parts_are_made_once_the_page_is_not_wanted() -> None:
    turns, wanted = Turns(), [True, False]
    left = turns.parts()
    made = await gradually(left, lambda: wanted.pop(0), turns.slices())
    assert turns.pauses == 2
    assert [*made, *left] == PARTS


async def test_scrapes_that_wait_share_the_next_page(page: MetricsPage) -> None:
    first = asyncio.create_task(page.scrape(request()))
    await asyncio.sleep(0)
    later = [asyncio.create_task(page.scrape(request())) for _ in range(3)]
    await asyncio.sleep(0)
    one = await first
    assert one
    others = await asyncio.gather(*later)
    assert others[0] and others[0] is not one, "figures from before the request"
    assert all(other is others[0] for other in others)


async def test_a_page_is_made_for_those_that_still_wait(page: MetricsPage) -> None:
    left = False
    leaving = [asyncio.create_task(page.scrape(request(lambda: left))) for _ in range(3)]
    await asyncio.sleep(0)
    left = True
    assert [await one for one in leaving] == [None, None, None], "one was made, two waited"
    first = asyncio.create_task(page.scrape(request()))
    await asyncio.sleep(0)
    waiting = page.scrape(request(lambda: True)), page.scrape(request())
    leaves, stays = await asyncio.gather(*waiting)
    assert stays and leaves is stays
    assert await first is not stays


async def test_a_scrape_that_fails_or_is_cancelled_does_not_harm_the_others(
    page: MetricsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [True, False]
    make = page._make

    async def fail_once(is_wanted: Callable[[], bool]) -> object:
        if failing.pop(0):
            raise OSError("no /proc")
        return await make(is_wanted)

    monkeypatch.setattr(page, "_make", fail_once)
    fails, shares = await asyncio.gather(
        page.scrape(request()), page.scrape(request()), return_exceptions=True
    )
    assert isinstance(fails, OSError)
    assert shares and not isinstance(shares, BaseException)
    monkeypatch.undo()
    cancelled = asyncio.create_task(page.scrape(request()))
    await asyncio.sleep(0)
    stays = asyncio.create_task(page.scrape(request()))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await stays
