"""The `MetadataStore` of a process over a server: order, groups, leases and watches."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet, ref

from magnetar_broker.server.metadata_stores.engine import MetadataEngine, Outcome
from magnetar_broker.server.metadata_stores.engine_thread import EngineThread
from magnetar_broker.server.metadata_stores.feeds import feed
from magnetar_broker.server.metadata_stores.groups import next_group
from magnetar_broker.server.metadata_stores.lease_times import LeaseTimes, keep
from magnetar_storage.errors import LeaseEnded, StorageError, Unavailable
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Change,
    Changes,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata.watch import QUEUE_LIMIT, Watch
from magnetar_storage.metadata.writes import Delete, EndLease, Put, Write
from magnetar_storage.runtime.execution import Clock, Promise

T = TypeVar("T")

CLOSED: Final = "the metadata store is closed"


class FedWatch(Watch):
    """A watch that a coroutine of the engine's thread feeds until it is ended or freed."""

    def __init__(self, prefix: str, clock: Clock) -> None:
        super().__init__(prefix, clock, QUEUE_LIMIT)
        self.stop: Callable[[], None] = lambda: None

    def end(self) -> None:
        super().end()
        self.stop()

    def __del__(self) -> None:
        self.stop()


class EngineMetadata:
    """The metadata of one server; create it with `open`.

    One group of writes is under way at a time, so that writes take place in their order.  If the
    outcome of a group is unknown, all its writes fail with `Unavailable`, and may take place later:
    use it within `RetryingMetadata`, and writes with `expect`.
    """

    def __init__(self, engine: MetadataEngine, thread: EngineThread, clock: Clock) -> None:
        self._engine = engine
        self._thread = thread
        self._clock = clock
        self._waiting: list[tuple[Write, Promise]] = []
        self._is_writing = False
        self._idle: Promise | None = None
        """Settled when no write waits any more, for `close`."""
        self._asked: set[Promise] = set()
        """The requests, other than writes, that have no answer yet."""
        self._leases: dict[str, tuple[Lease, Callable[[], None]]] = {}
        """Each lease, and the function that ends its renewal."""
        self._watches: WeakSet[FedWatch] = WeakSet()
        self._is_closed = False

    async def open(self) -> None:
        """Connect to the server; raises the error that prevents it, and is closed then."""
        try:
            await self._ask(self._engine.open)
        except BaseException:
            await self.close()
            raise

    async def get(self, key: str) -> Versioned | None:
        key.encode()
        found: Versioned | None = await self._ask(partial(self._engine.get, key))
        return found

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        if lease is not None and lease.id not in self._leases:
            raise LeaseEnded(f"{key}: not written, because lease {lease.id} has ended")
        try:
            return await self._write(
                Put(key, value, expect, None if lease is None else lease.id, guard)
            )
        except LeaseEnded:
            if lease is not None:
                self._lose(lease.id)
            raise

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._write(Delete(key, expect, guard))

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        keys: list[str] = await self._ask(partial(self._engine.keys, prefix, after, limit))
        return keys

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        found: Sequence[Listed] = await self._ask(
            partial(self._engine.read_under, prefix, after, limit)
        )
        return found

    def watch(self, prefix: str) -> Changes:
        watch = FedWatch(prefix, self._clock)
        if self._is_closed:
            watch.end()
            return watch
        self._watches.add(watch)
        changes = partial(self._engine.changes, prefix)
        deliver = partial(self._deliver, ref(watch))
        watch.stop = self._thread.spawn(feed(changes, deliver, asyncio.sleep))
        return watch

    async def lease(self, ttl_seconds: float) -> Lease:
        sent = self._clock.uptime()
        id = await self._ask(partial(self._engine.grant, ttl_seconds))
        times = LeaseTimes(ttl_seconds, sent)
        lease = Lease(id, times.deadline)
        self._leases[id] = lease, self._thread.spawn(self._keep(lease, times))
        return lease

    async def revoke(self, lease: Lease) -> None:
        self._lose(lease.id)
        await self._write(EndLease(lease.id))

    async def close(self) -> None:
        """End the leases and watches after all requested writes, and close the connections."""
        if self._is_closed:
            return
        for watch in list(self._watches):
            watch.end()
        for lease, _ in list(self._leases.values()):
            # A server that is away ends the lease later, since nobody renews it any more.
            with suppress(Unavailable):
                await self.revoke(lease)
        while self._is_writing:
            self._idle = self._clock.promise()
            await self._idle
        self._is_closed = True
        await self._ask(self._engine.close, even_closed=True)
        self._thread.stop()
        for promise in [one for one in self._asked if not one.done()]:
            promise.set_exception(Unavailable(CLOSED))

    # Requests -----------------------------------------------------------------------------------

    async def _ask(
        self, work: Callable[[], Coroutine[Any, Any, T]], even_closed: bool = False
    ) -> T:
        if self._is_closed and not even_closed:
            raise Unavailable(CLOSED)
        promise = self._clock.promise()
        self._asked.add(promise)

        def done(result: Any, error: BaseException | None) -> None:
            self._asked.discard(promise)
            if promise.done():
                return  # its waiter was cancelled
            if error is None:
                promise.set_result(result)
            else:
                promise.set_exception(error)

        self._thread.submit(work, done)
        answer: T = await promise
        return answer

    async def _write(self, write: Write) -> Version:
        if self._is_closed:
            raise Unavailable(CLOSED)
        if not isinstance(write, EndLease):
            # Text that is not valid must not fail the other writes of a group.
            write.key.encode()
            if write.guard is not None:
                write.guard.key.encode()
        promise = self._clock.promise()
        self._waiting.append((write, promise))
        if not self._is_writing:
            self._is_writing = True
            # In the next turn: writes that are requested in this one are one group.
            self._clock.soon(self._begin, "metadata")
        version: Version = await promise
        return version

    def _begin(self) -> None:
        group = next_group([write for write, _ in self._waiting], self._engine.limits)
        promises = [promise for _, promise in self._waiting[: len(group)]]
        self._thread.submit(partial(self._engine.write, group), partial(self._written, promises))

    def _written(
        self,
        promises: Sequence[Promise],
        outcomes: Sequence[Outcome] | None,
        error: BaseException | None,
    ) -> None:
        del self._waiting[: len(promises)]
        results: Sequence[Version | BaseException] = outcomes or [_again(error) for _ in promises]
        for promise, outcome in zip(promises, results, strict=True):
            if promise.done():
                continue  # its waiter was cancelled
            if isinstance(outcome, BaseException):
                promise.set_exception(outcome)
            else:
                promise.set_result(outcome)
        self._is_writing = bool(self._waiting)
        if self._is_writing:
            self._begin()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # Leases and watches -------------------------------------------------------------------------

    async def _keep(self, lease: Lease, times: LeaseTimes) -> None:
        def renewed(deadline: float) -> None:
            lease.deadline = deadline

        async def renew() -> bool:
            try:
                async with asyncio.timeout(max(0.0, times.deadline - self._clock.uptime())):
                    return await self._engine.renew(lease.id)
            except TimeoutError:
                raise Unavailable(f"lease {lease.id} was not renewed in time") from None

        await keep(times, renew, self._clock.uptime, asyncio.sleep, renewed)
        self._thread.post(partial(self._lose, lease.id))

    def _lose(self, id: str) -> None:
        held = self._leases.pop(id, None)
        if held is not None:
            lease, stop = held
            stop()
            lease.lose()

    async def _deliver(self, watch: "ref[FedWatch]", changes: Sequence[Change] | None) -> bool:
        """Queue changes for the reader; return False if the watch is no longer used."""

        # The feed waits for the owner's thread, so that not more than this is on its way there.
        def offer() -> bool:
            found = watch()
            if found is None:
                return False
            if changes is None:
                found.resync()
            for change in changes or ():
                found.offer(change)
            return True

        is_used: bool = await self._thread.on_owner(offer)
        return is_used


def _again(error: BaseException | None) -> BaseException:
    """Return a copy of the error, to be raised for one more of the callers that it fails."""
    if isinstance(error, StorageError):
        return error.again()
    return error or Unavailable("the outcome is unknown")
