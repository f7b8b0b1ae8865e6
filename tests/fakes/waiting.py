"""Waiting for states that set no event."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANGS_SECONDS = 60.0
"""The time limit of a wait: what takes longer is assumed never to happen."""
LOOK_SECONDS = 0.001
ATTEMPTS = 20


async def until(condition: Callable[[], object], what: str) -> None:
    """Return when `condition` is true; fail the test with `what` if it never becomes true.

    Until then, the running event loop goes on.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + HANGS_SECONDS
    while not condition():
        assert loop.time() < end, f"after {HANGS_SECONDS:.0f} s this is still not so: {what}"
        await asyncio.sleep(LOOK_SECONDS)


def await_true(condition: Callable[[], object], what: str) -> None:
    """Return when `condition` is true, as `until`, where no event loop runs."""
    end = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < end, f"after {HANGS_SECONDS:.0f} s this is still not so: {what}"
        time.sleep(LOOK_SECONDS)


def within_limit(act: Callable[[], T], failure: type[Exception]) -> T:
    """Return the result of the first attempt of `act` without `failure`; one must succeed.

    A short limit of the broker that ends other clients in a test applies to `act`, too, and a
    machine that stalls can exceed it.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return act()
        except failure:
            continue
    return act()
