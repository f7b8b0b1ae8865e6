"""Waiting for what happens in the running event loop and sets no event."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANGS_SECONDS = 60.0
"""What takes longer never happens."""
LOOK_SECONDS = 0.001
ATTEMPTS = 20


async def until(condition: Callable[[], object], what: str) -> None:
    """Return when `condition` is true; a test in which it never becomes true fails with `what`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + HANGS_SECONDS
    while not condition():
        assert loop.time() < end, f"after {HANGS_SECONDS:.0f} s this is still not so: {what}"
        await asyncio.sleep(LOOK_SECONDS)


def within_limit(act: Callable[[], T], failure: type[Exception]) -> T:
    """What `act` returns, in the first attempt that does not fail so; one of many must succeed.

    A short limit of the broker that ends others in a test applies to `act`, too, and a machine
    that stalls can exceed it.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return act()
        except failure:
            continue
    return act()
