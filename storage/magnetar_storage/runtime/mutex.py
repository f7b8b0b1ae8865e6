"""Mutual exclusion of coroutines, in the order of their requests."""

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from magnetar_storage.runtime.execution import Clock, Promise

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", contravariant=True)


class Mutex:
    """`async with mutex.held():` runs in one coroutine at a time, first come, first served."""

    __slots__ = ("_clock", "_is_held", "_owner", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_held = False
        self._owner: Promise | None = None  # the owner's turn, if it had to wait for it
        self._waiting: list[Promise] | None = None  # very many mutexes exist, and few have waiters

    @property
    def is_held(self) -> bool:
        """Whether a coroutine owns the mutex, or was chosen as the next owner."""
        return self._is_held

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for all earlier requests, then own the mutex until the block ends in any way."""
        return self

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.give_back()

    async def acquire(self) -> None:
        """Wait for all earlier requests, then own the mutex until `give_back`."""
        if not self.take():
            await self._turn()

    def take(self) -> bool:
        """Own the mutex from now on until `give_back`, without waiting; False if it is owned.

        For a caller that cannot wait, and whose coroutine begins later: requests in between
        have to wait for it.
        """
        if self._is_held:
            return False
        # No promise without a rival: taking a free mutex costs one comparison.
        self._is_held = True
        return True

    async def idle(self) -> None:
        """Wait until all earlier owners and requests have given the mutex back."""
        async with self.held():
            pass

    async def _turn(self) -> None:
        turn = self._clock.promise()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            # Cancelled while it waited.  If it had become the owner just before, the next
            # one must have its turn instead, or all later ones would wait for ever.
            if self._owner is turn:
                self.give_back()
            else:
                self._waiting = [other for other in self._waiting or () if other is not turn]
            raise

    def give_back(self) -> None:
        """Give up the ownership."""
        # It is passed on without ever being free: a later request cannot overtake the next one.
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():  # a cancelled waiter has settled its promise
                self._owner = turn
                turn.set_result(None)
                return
        self._waiting = None
        self._owner = None
        self._is_held = False


class Keyed(Protocol[K_contra]):
    """An object that can be owned by key."""

    async def acquire(self, key: K_contra, /) -> None: ...

    def give_back(self, key: K_contra, /) -> None: ...


class Held(Generic[K]):
    """An `async with` block that owns a key; a class, since generators are slower."""

    __slots__ = ("_key", "_keyed")

    def __init__(self, keyed: Keyed[K], key: K) -> None:
        self._keyed = keyed
        self._key = key

    async def __aenter__(self) -> None:
        await self._keyed.acquire(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._keyed.give_back(self._key)


class KeyedMutex(Generic[K]):
    """A mutex for each key; a key that no coroutine holds or waits for takes no memory."""

    __slots__ = ("_clock", "_mutexes")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutexes: dict[K, Mutex] = {}

    def is_held(self, key: K) -> bool:
        """Return whether a coroutine owns the key."""
        return key in self._mutexes

    def keys(self) -> list[K]:
        """Return the keys that coroutines own now."""
        return list(self._mutexes)

    def held(self, key: K) -> AbstractAsyncContextManager[None]:
        """Wait for all earlier requests for `key`, then own it until it is given back."""
        return Held(self, key)

    async def acquire(self, key: K) -> None:
        """Wait for all earlier requests for `key`, then own it until it is given back."""
        mutex = self._mutexes.get(key)
        if mutex is None:
            self._mutexes[key] = mutex = Mutex(self._clock)
        try:
            await mutex.acquire()
        except BaseException:
            self._forget(key, mutex)
            raise

    def give_back(self, key: K) -> None:
        """Give up the ownership."""
        mutex = self._mutexes[key]
        mutex.give_back()
        self._forget(key, mutex)

    def _forget(self, key: K, mutex: Mutex) -> None:
        # A waiter that gives up does not own it: only the last to leave removes it.
        if not mutex.is_held and self._mutexes.get(key) is mutex:
            del self._mutexes[key]
