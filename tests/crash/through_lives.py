"""What raw clients do over one connection after the other, while the broker is killed."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from crash.lives import Setup
from crash.wire import Gone, Wire, dial_owner

RETRY_SECONDS = 0.02

Work = Callable[[Wire, int], Coroutine[Any, Any, None]]
"""Takes a connection and the life that it belongs to, and returns when the connection has ended
or when all is done.  `Gone` is as good as the first."""


class ThroughLives:
    """Gives connections to those who work, until they are done."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._wires: dict[str, dict[Wire, int]] = defaultdict(dict)
        """By topic, the connections that are worked over, and the life of each."""

    def spawn(self, work: Work, topic: str) -> "asyncio.Task[None]":
        """Begin to work on a topic; what fails ends the whole torture."""
        return asyncio.get_running_loop().create_task(self._through_lives(work, topic))

    async def _through_lives(self, work: Work, topic: str) -> None:
        """Do it over one connection after the other."""
        try:
            while True:
                try:
                    if await self._over_one(work, topic):
                        return
                except (Gone, OSError):
                    pass  # it is dead, or was killed meanwhile
                await asyncio.sleep(RETRY_SECONDS)
        except Exception as error:
            self.setup.alarm(f"{work} failed: {error!r}")
            raise

    async def _over_one(self, work: Work, topic: str) -> bool:
        """Work over one connection; whether it is done."""
        lives = self.setup.lives.of(topic)
        life, moves = lives.connectable, lives.moves_ended
        if life is None:
            return False
        wire = await dial_owner(self.setup.port, topic)
        wire.moves = moves
        try:
            if life != lives.connectable:
                return False
            self._begin(wire, life, topic)
            await work(wire, life)
            return not wire.gone.done()
        finally:
            self._wires[topic].pop(wire, None)
            # One that was made before a move may go to a process that only relays.
            if wire.lost and life == lives.kills and moves == lives.moves_begun:
                self.setup.alarm(
                    f"{topic}: a connection ended ({wire.why}), and its process was not killed"
                )
            wire.end("done")

    def _begin(self, wire: Wire, life: int, topic: str) -> None:
        """All work over connections of one life.

        A kill during a move ends the life of topics that had been moved already, or were not yet:
        connections to these stay.
        """
        wires = self._wires[topic]
        for other, earlier in wires.items():
            if earlier < life:
                other.end("it is of an earlier life")
        wires[wire] = life


async def first(awaited: Iterable["asyncio.Future[None]"], seconds: float | None = None) -> None:
    """Wait until one of these is done, or for so long."""
    await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
