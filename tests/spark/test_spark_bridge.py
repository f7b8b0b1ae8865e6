"""The thread in which a process talks to a broker."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial

import pytest

from ports import free_ports
from pyspark_magnetar.bridge import Bridge, bridge_to, close_bridges
from pyspark_magnetar.source.read_options import ReadOptions


def test_closed_bridges_leave_no_thread() -> None:
    url = f"pulsar://127.0.0.1:{free_ports(1)[0]}"
    options = ReadOptions.parse({"service.url": url, "topic": "t"}, is_streaming=False)
    bridge = bridge_to(options.connecting)
    assert bridge_to(options.connecting) is bridge
    bridge.start(asyncio.Event().wait())
    assert threads(), "the bridge runs"
    close_bridges()
    assert not threads()
    again = bridge_to(options.connecting)
    assert again is not bridge and isinstance(again, Bridge)
    close_bridges()


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "magnetar"]


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    url = f"pulsar://127.0.0.1:{free_ports(1)[0]}"
    options = ReadOptions.parse({"service.url": url, "topic": "t"}, is_streaming=False)
    yield bridge_to(options.connecting)
    close_bridges()


class Interrupted(BaseException):
    """As a signal raises it in the thread that waits."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    def raise_it(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, raise_it)
    yield partial(signal.pthread_kill, threading.get_ident(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_what_was_waited_for_ends_when_the_thread_is_interrupted(
    bridge: Bridge, interrupt: Callable[[], None]
) -> None:
    closed = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            interrupt()
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)  # as to close a reader
            closed.append(True)

    async def following(found: AsyncGenerator[int, None]) -> int:
        return await anext(found, 0)

    found = items()
    assert bridge.run(following(found)) == 1
    with pytest.raises(Interrupted):
        bridge.run(following(found))
    assert closed == [True]
    assert bridge.run(following(found)) == 0


def test_an_interrupted_thread_does_not_wait_for_ever(
    bridge: Bridge, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_magnetar.bridge.END_S", 0.1)
    go_on = asyncio.Event()

    async def goes_on() -> None:
        interrupt()
        try:
            await asyncio.Event().wait()
        finally:
            await go_on.wait()

    async def end() -> None:
        go_on.set()

    with pytest.raises(Interrupted):
        bridge.run(goes_on())
    bridge.run(end())


def test_a_failure_of_what_runs_by_itself_is_logged(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ArithmeticError("a mistake")

    async def nothing() -> None:
        pass

    bridge.start(fail())
    bridge.run(nothing())
    assert "ArithmeticError: a mistake" in caplog.text
