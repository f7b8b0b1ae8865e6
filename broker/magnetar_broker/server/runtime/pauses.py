"""Short pauses of long work on the event loop, in which other work has its turn."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from magnetar_broker.base.pace import Slices


class Turns:
    """Makes pauses with the help of a thread, which is started by the first pause.

    A timer's pause lasts a millisecond or more, even if there is nothing else to do.  Here the loop
    waits for a thread that does nothing: meanwhile other threads get the interpreter lock, and the
    loop handles pending events.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "turns")

    def slices(self) -> Slices:
        """Return the slices of long work that begins now."""
        return Slices(self.pause, time.perf_counter)

    async def pause(self) -> None:
        """Let other tasks of the loop and other threads run."""
        await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)


def _nothing() -> None:
    """Do nothing, in the thread."""
