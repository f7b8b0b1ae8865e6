"""Long work on the event loop, with short pauses in which other work has its turn."""

import asyncio
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from magnetar_broker.base.pace import LEAST_SECONDS, Slices

TURNS = 2
"""The turns of the loop at the end of a pause, in which it calls what input has scheduled."""
LOCK_SECONDS = LEAST_SECONDS / 2
"""The time, in seconds, for which long work keeps the interpreter lock from a thread that returned
from the disk; shorter than a slice, so that the thread need not wait for the next pause."""


class Sharing:
    """Shortens the time for which this process's threads keep the interpreter lock."""

    def __init__(self) -> None:
        self._works = 0
        self._usual = 0.0
        self._thread = ThreadPoolExecutor(1, "pauses")  # which the first pause starts

    @contextmanager
    def slices(self) -> Iterator[Slices]:
        """Yield the slices of long work that begins now; leave the context when it is done."""
        if self._works == 0:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual, LOCK_SECONDS))
        self._works += 1
        try:
            yield Slices(self.pause, time.perf_counter)
        finally:
            self._works -= 1
            if self._works == 0:
                sys.setswitchinterval(self._usual)

    async def pause(self) -> None:
        """Let other tasks of the loop and other threads run.

        A timer would pause for a millisecond or more even if there is nothing else to do. Turns
        of the loop alone would not do: threads that return from the disk get the interpreter lock
        at once only while the loop waits, as it does here for a thread that does nothing.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)
        for _ in range(TURNS):
            await asyncio.sleep(0)


def _nothing() -> None:
    """Do nothing, in the thread."""


long_work = Sharing().slices
"""Call it as `with long_work() as slices`. All work of the process shares the state."""
