"""The limits of one producer's messages without receipt."""

import asyncio

from magnetar.base.errors import QueueFull
from magnetar.base.memory import MemoryLimit


class SendRoom:
    """Counts the messages without receipt, and decides whether there is room for more."""

    def __init__(self, topic: str, max_messages: int, max_bytes: int, memory: MemoryLimit) -> None:
        self._topic = topic
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._memory = memory
        self._is_limited = memory.limit > 0
        self.messages = self.bytes = 0
        self._changed = asyncio.Event()

    def is_free(self) -> bool:
        """Return whether one more message may become pending."""
        return (
            self.messages < self._max_messages
            and self.bytes < self._max_bytes
            and (not self._is_limited or self._memory.has_room())
        )

    def full(self) -> QueueFull:
        """Return the error of a message for which there is no room."""
        limited = "" if self._memory.has_room() else ", and memory_limit is reached"
        return QueueFull(f"{self.messages} messages to {self._topic} have no receipt{limited}")

    def take(self, messages: int, size: int) -> None:
        """Count messages that become pending."""
        self.messages += messages
        self.bytes += size
        if self._is_limited:
            self._memory.sends(size)

    def give_back(self, messages: int, size: int) -> None:
        """Release the room of messages that have an outcome, and wake waiting tasks."""
        self.take(-messages, -size)
        self._changed.set()

    def expect(self) -> None:
        """Make `changed` wait for events from now on."""
        self._changed.clear()

    async def changed(self) -> None:
        """Wait until messages have an outcome, or there is room in memory."""
        with self._memory.waking(self._changed.set):
            await self._changed.wait()

    def wake(self) -> None:
        """Wake the tasks that wait for room, which will not come."""
        self._changed.set()
