"""Long work on the event loop, with short pauses in which other work has its turn."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from magnetar_broker.base.pace import LEAST_SECONDS, Slices

TURNS = 3
"""The turns of the loop in a pause: in the first it receives what has arrived, in the second it
calls what was scheduled for it, and on asyncio's loop the work goes on at the head of each."""
LOCK_SECONDS = LEAST_SECONDS / 2
"""The time for which long work keeps the interpreter lock from a thread that returned from the
disk. It is shorter than a slice: a pause releases the lock for less time than a thread needs to
wake up, and begins its wait anew."""


class Sharing:
    """Shortens the time for which this process's threads keep the interpreter lock."""

    def __init__(self) -> None:
        self._works = 0
        self._usual = 0.0

    @contextmanager
    def slices(self) -> Iterator[Slices]:
        """Yield the slices of long work that begins now; leave the context when it is done."""
        if self._works == 0:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual, LOCK_SECONDS))
        self._works += 1
        try:
            yield Slices(pause, time.perf_counter)
        finally:
            self._works -= 1
            if self._works == 0:
                sys.setswitchinterval(self._usual)


async def pause() -> None:
    """Let other tasks of the loop run, and handle what has arrived."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


long_work = Sharing().slices
"""Call it as `with long_work() as slices`. All work of the process shares the state."""
