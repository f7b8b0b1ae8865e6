"""Locks of topics by name: opening, creating, closing and deleting exclude each other."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import Held, KeyedMutex


class TopicLocks:
    """A topic is locked alone, or as a family: a topic with all of its partitions.

    Partitions of one topic are opened concurrently, so a family is not just one more mutex: it
    excludes every member, while members do not exclude each other.
    """

    def __init__(self, clock: Clock) -> None:
        self._topics: KeyedMutex[TopicName] = KeyedMutex(clock)
        self._families: KeyedMutex[TopicName] = KeyedMutex(clock)

    def held(self, name: TopicName) -> AbstractAsyncContextManager[None]:
        """Lock one topic until the block ends."""
        return Held(self, name)

    async def acquire(self, name: TopicName) -> None:
        """Lock one topic until `give_back`."""
        # One turn of the family is enough, and must not be awaited in a loop: members that wait for
        # it would pass it to each other for ever.
        if self._families.is_held(name.base):
            async with self._families.held(name.base):
                # Ask before the turn ends, so that the next owner of the family waits for it.
                await self._topics.acquire(name)
        else:
            await self._topics.acquire(name)

    def give_back(self, name: TopicName) -> None:
        """Give up the ownership of a topic."""
        self._topics.give_back(name)

    @asynccontextmanager
    async def family_held(self, name: TopicName) -> AsyncIterator[None]:
        """Lock a topic and all its partitions until the block ends; `name` is not a partition."""
        async with self._families.held(name):
            await self._settled(self._topics, lambda member: member.base == name)
            yield

    def held_with_partitions(self, name: TopicName) -> AbstractAsyncContextManager[None]:
        """Lock a partition alone, or a topic with all its partitions, until the block ends."""
        return self.held(name) if name.partition >= 0 else self.family_held(name)

    async def settled(self, is_meant: Callable[[TopicName], bool]) -> None:
        """Wait for those who hold locks of matching topics now, or wait for them now."""
        # Wait for families first: their turn makes waiting members owners of their topics.
        await self._settled(self._families, is_meant)
        await self._settled(self._topics, is_meant)

    async def _settled(
        self, locks: KeyedMutex[TopicName], is_meant: Callable[[TopicName], bool]
    ) -> None:
        for name in filter(is_meant, locks.keys()):
            if locks.is_held(name):
                async with locks.held(name):
                    pass
