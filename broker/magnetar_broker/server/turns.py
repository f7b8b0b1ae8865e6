"""Short pauses of long work on the event loop, in which others have their turn."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from magnetar_broker.base.pace import Slices


class Turns:
    """Makes pauses.  They use a thread, which exists from the first one on.

    A timer's pause lasts a millisecond or more, however little there is to do.  Here the loop
    waits for a thread that does nothing: meanwhile other threads have the interpreter lock, and
    the loop does what has come.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "turns")

    def slices(self) -> Slices:
        """Long work that begins now."""
        return Slices(self.pause, time.perf_counter)

    async def pause(self) -> None:
        """Leave the loop and the interpreter lock to others."""
        await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)


def _nothing() -> None:
    """The thread has had its turn."""
