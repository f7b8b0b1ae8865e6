"""Accepts connections from a listening socket, in turns."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.ports import named_in_errors

logger = logging.getLogger(__name__)

BACKLOG = 1024
"""The number of clients that may wait to be accepted: the backlog of `listen`."""
ACCEPTED_AT_ONCE = 16
"""The most clients that a process accepts in one turn, so that other processes get their share."""
RETRY_SECONDS = 1.0
"""The pause after accepting has failed, for lack of descriptors or memory."""


class Accepting:
    """Accepts clients from one listening socket.  Call `start` once and `stop` once."""

    def __init__(
        self,
        listening: socket.socket,
        take: Callable[[socket.socket, str], None],
        descriptors: Descriptors,
        loop_timer: LoopTimer,
    ) -> None:
        """`listening` is a bound socket, which `stop` closes.

        `take` is called with the non-blocking socket of each client, and the host of its peer.
        """
        self._listening = listening
        self._take = take
        self._descriptors = descriptors
        self._run = loop_timer.run
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept clients."""
        self._listening.setblocking(False)
        with named_in_errors(self._listening.getsockname()):
            self._listening.listen(BACKLOG)
        self._resume()

    def stop(self) -> None:
        """Stop accepting clients, and close the listening socket."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listening, self._run, "read", self._accept)

    def _accept(self) -> None:
        try:
            # Several for each event: a wave of clients would need a turn each.
            for _ in range(ACCEPTED_AT_ONCE):
                self._accepted(*self._listening.accept())
        except (BlockingIOError, ConnectionAbortedError):
            pass  # no more clients wait, or another process has taken them
        except OSError as error:
            logger.error("no client is accepted for %g s: %s", RETRY_SECONDS, error)
            self._loop.remove_reader(self._listening)
            self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)

    def _accepted(self, client: socket.socket, peer: tuple[Any, ...]) -> None:
        if self._descriptors.admits(client.fileno()):
            client.setblocking(False)
            self._take(client, peer[0])
        else:
            client.close()
