"""The page of a broker of several processes: the controller's requests to the workers."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.loop_world import LoopClock, LoopTasks, turns
from fakes.waiting import HANGS_SECONDS, until
from magnetar_broker.ipc.link import Link
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.metrics.loop import LoopStats
from magnetar_broker.server.pages import linked_page
from magnetar_broker.server.pages.joined_page import JoinedPage
from magnetar_broker.server.pages.linked_page import DROP, NEXT, PIECE_BYTES, LinkedPage, page_of
from magnetar_broker.server.pages.metrics_page import IsWanted, Make, Page
from magnetar_broker.server.processes import link_sockets as links
from magnetar_broker.server.runtime.loop_timer import LoopTimer

PARTS = [b"x" * (PIECE_BYTES // 3), b"", b"small\n"] * 20
ROWS = b"# HELP pulsar_broker_topics_count Topics\n# TYPE pulsar_broker_topics_count gauge\n"


def rows(topics: int) -> list[bytes]:
    return [ROWS, f'pulsar_broker_topics_count{{cluster="c"}} {topics}.0\n'.encode()]


def serving(page: Sequence[bytes]) -> Make:
    async def make(is_wanted: IsWanted) -> Page | None:
        return page

    return make


class Slow:
    """Makes its page when `release` is set."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.is_wanted: Callable[[], bool] = lambda: False
        self.begun = 0
        self._beginnings = asyncio.Semaphore(0)

    async def beginning(self) -> None:
        """Wait for the beginning of the next page."""
        await asyncio.wait_for(self._beginnings.acquire(), HANGS_SECONDS)

    async def make(self, is_wanted: IsWanted) -> Page | None:
        self.begun += 1
        self.is_wanted = is_wanted
        self._beginnings.release()
        await self.release.wait()
        return PARTS if is_wanted() else None


class Workers:
    """Links to workers that make pages, or are silent."""

    def __init__(self) -> None:
        self._links: list[Link] = []
        self._silent: list[socket.socket] = []

    async def new(self, make: Make | None, name: str = "worker-0") -> Link:
        """Return a link to a new worker; None as `make`: it is silent."""
        clock, tasks = LoopClock(), LoopTasks()
        near, far = Link(name, clock, tasks), Link("controller", clock, tasks)
        ends = socket.socketpair()
        await links.connect(near, ends[0])
        self._links.append(near)
        if make is None:
            self._silent.append(ends[1])
        else:
            LinkedPage(make, far, LoopTimer())
            await links.connect(far, ends[1])
            self._links.append(far)
        return near

    async def close(self) -> None:
        for link in self._links:
            link.close()
        await turns()  # of the transports
        for end in self._silent:
            end.close()


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers()
    yield made
    await made.close()


def always() -> bool:
    return True


async def test_a_page_comes_in_pieces_of_the_same_parts(workers: Workers) -> None:
    link = await workers.new(serving(PARTS))
    pieces = []
    while (piece := await link.request(NEXT, 1)) is not None:
        pieces.append(piece)
        assert sum(map(len, piece)) < 2 * PIECE_BYTES
    assert len(pieces) > 3
    assert [part for piece in pieces for part in piece] == PARTS
    assert await page_of(link, 2, LoopClock(), always) == PARTS


async def test_a_worker_that_takes_long_answers_that_it_is_there(
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linked_page, "SIGN_SECONDS", 0)
    slow = Slow()
    link = await workers.new(slow.make)
    for _ in range(3):
        assert await asyncio.wait_for(link.request(NEXT, 1), HANGS_SECONDS) == []
    slow.release.set()
    page = []
    while (piece := await link.request(NEXT, 1)) is not None:
        page += piece
    assert (page, slow.begun) == (PARTS, 1)


async def test_a_page_is_made_as_long_as_it_is_wanted(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_page, "SIGN_SECONDS", 0.001)
    slow, clients = Slow(), [1]
    link = await workers.new(slow.make)
    leaves = asyncio.create_task(page_of(link, 1, LoopClock(), lambda: bool(clients)))
    await slow.beginning()
    clients.clear()
    assert await leaves is None
    await link.request(NEXT, 2)
    await slow.beginning()
    assert slow.begun == 2
    first_wanted = slow.is_wanted
    cancelled = asyncio.create_task(page_of(link, 3, LoopClock(), always))
    await slow.beginning()
    assert slow.begun == 3
    assert slow.is_wanted() and not first_wanted(), "another page has begun"
    cancelled.cancel()
    await until(lambda: not slow.is_wanted(), "a page that nobody awaits any more is not wanted")
    await link.request(NEXT, 4)
    assert slow.is_wanted()
    link.close()
    await until(lambda: not slow.is_wanted(), "a page for a link that has ended is not wanted")


async def test_the_notice_that_ends_a_page_does_not_end_the_next(workers: Workers) -> None:
    slow = Slow()
    link = await workers.new(slow.make)
    asked = link.request(NEXT, 2)
    link.notify(DROP, 1)
    slow.release.set()
    assert await asked


async def test_workers_without_a_page_are_left_out_and_counted(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(is_wanted: IsWanted) -> Page | None:
        raise OSError("no /proc")

    monkeypatch.setattr(linked_page, "SILENCE_SECONDS", 0.05)
    ended = await workers.new(serving(rows(100)))
    ended.close()
    by_number = {
        0: await workers.new(serving(rows(1)), "worker-0"),
        1: await workers.new(None, "worker-1"),
        2: ended,
        3: await workers.new(failing, "worker-3"),
        5: await workers.new(serving(rows(2)), "worker-5"),
    }
    joined = JoinedPage("c", 6, by_number, LoopStats(), LoopClock(), ReachedLimits(LoopClock()))
    with caplog.at_level(logging.ERROR):
        page = await joined.make(always)
    assert page is not None
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(b"".join(page).decode())
        for sample in family.samples
    }
    assert samples["magnetar_workers", "c", "up"] == 2
    assert samples["magnetar_workers", "c", "down"] == 4
    assert samples["pulsar_broker_topics_count", "c"] == 3
    assert samples["process_cpu_seconds_total", "c", "controller"] > 0
    assert samples["magnetar_loop_stretch_seconds_count", "c", "link", "controller"] == 0
    assert "no /proc" in caplog.text


async def test_no_page_for_clients_that_have_left(workers: Workers) -> None:
    link = await workers.new(serving(rows(1)))
    joined = JoinedPage("c", 1, {0: link}, LoopStats(), LoopClock(), ReachedLimits(LoopClock()))
    assert await joined.make(lambda: False) is None
