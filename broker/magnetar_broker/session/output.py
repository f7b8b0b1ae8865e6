"""The frames queued for one client until its socket writes them at the end of the turn."""

from collections.abc import Callable
from typing import Any

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

OUTBOX_BYTES = 4 << 20
"""The most bytes queued for a client; with more, its consumers wait."""


class Output:
    """The queued frames, each complete, in the order of writing."""

    __slots__ = ("_flush_soon", "_queue", "_queued_bytes", "_starved", "closed", "peer_full")

    def __init__(self, flush_soon: Callable[[], None]) -> None:
        """`flush_soon` schedules a call of `take` at the end of this turn."""
        self.peer_full = False
        """Whether the socket takes no more for now."""
        self.closed = False
        self._flush_soon = flush_soon
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._starved = False

    def send(self, frames: bytes) -> None:
        """Queue complete frames."""
        if not self._queue:
            self._flush_soon()
        self._queue.append(frames)
        self._queued_bytes += len(frames)

    def send_all(self, buffers: list[bytes], size: int) -> None:
        """Queue whole frames that are in many buffers, of `size` bytes together."""
        if not self._queue:
            self._flush_soon()
        # Not joined here: the shell knows whether a write of many pieces is cheaper.
        self._queue += buffers
        self._queued_bytes += size

    def reply(self, message: Any) -> None:
        """Queue one command."""
        self.send(encode(message))

    def ping(self) -> None:
        """Queue a PING, unless the connection is closed."""
        if not self.closed:
            self.reply(pb.CommandPing())

    def take(self) -> list[bytes]:
        """Empty the queue, and return the frames to write now."""
        # A new list, since the shell holds the old one while more is queued.
        queue, self._queue = self._queue, []
        self._queued_bytes = 0
        return queue

    def has_room(self) -> bool:
        """Whether the client keeps up; if not, `take_starved` is true once it does."""
        # What is queued counts as well: within one turn nothing is written, and many dispatchers
        # may send.
        room = not (self.peer_full or self.closed) and self._queued_bytes < OUTBOX_BYTES
        if not room:
            self._starved = True
        return room

    def take_starved(self) -> bool:
        """Return whether a consumer lacked room since the last call and there is room now."""
        # Later: whoever was woken now would find no room again.
        if self.peer_full:
            return False
        starved, self._starved = self._starved, False
        return starved
