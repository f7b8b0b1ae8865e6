"""Keeps a producer or consumer registered with the broker that serves its topic."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from magnetar.base.errors import (
    Busy,
    Closed,
    ConnectionLost,
    MagnetarError,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    TlsFailed,
    WrongProtocol,
)
from magnetar.base.settings import Settings
from magnetar.connections.connection import Connection
from magnetar.connections.lookup import find_broker
from magnetar.connections.pool import Pool
from magnetar.connections.retry import Retry

# Busy: the broker may not have noticed yet that our former connection is closed.
# QuotaExceeded: the broker closed us to hold us back, and room may come.
# TlsFailed, WrongProtocol: this worked before, so it is the broker's certificate or address, which
# may be mended.
# NotFound: the topic was deleted, and may be created again.
# NotAllowed: this was allowed before; brokers also answer this for partitions of a deleted topic.
# promise[without | NotFound]: clients outlive a topic that is deleted and created again
MAY_END: Final = Busy | QuotaExceeded | TlsFailed | WrongProtocol | NotFound | NotAllowed
"""Refusals that may be temporary for a producer or consumer that was registered before."""


class Registration:
    """Registers through `register(connection)`, first in `open` and again after every loss.

    `register` must be repeatable.  When registering again fails for good, `failed(error)` is
    called, and there are no more attempts.  A deleted topic is waited for: it may be created again.
    """

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        topic: str,
        register: Callable[[Connection], Awaitable[None]],
        failed: Callable[[MagnetarError], None],
    ) -> None:
        self.connection: Connection | None = None
        self.error: MagnetarError | None = None
        """The error that ended all attempts to register; None before."""
        self._pool = pool
        self._settings = settings
        self._again_by = Retry(settings)
        self.topic = topic
        self.on_gone: Callable[[], None] | None = None
        """Called when the topic was deleted, which then is the end; None: waits for the topic."""
        self.waits_for_topic = True
        """Whether the client goes on when the topic is deleted: it may be created again."""
        self._register = register
        self._failed = failed
        self._candidate: Connection | None = None
        self._reattaching: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def open(self, in_time: bool = True) -> None:
        """Register for the first time; raise the error of the broker, or OperationTimeout.

        Without `in_time` there is no time limit.
        """
        if not in_time:
            await Retry(self._settings).for_ever(self._attach)
            return
        await Retry(self._settings).in_time(self._attach, f"opening {self.topic}")

    def start(self) -> None:
        """Start to register in the background, as after a loss."""
        if self._reattaching is None and self.error is None and self.connection is None:
            self._reattaching = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        await self._guarded(self.open())

    def is_of(self, connection: Connection) -> bool:
        """Return whether the object is registered, or being registered, on this connection."""
        return connection is self.connection or connection is self._candidate

    def detached(self, connection: Connection, new_owner: str = "") -> None:
        """Register again, in the background, after the registration on this connection has ended.

        `new_owner` is the URL of the broker that serves the topic now, if that is known.
        """
        if connection is self._candidate:
            self._candidate = None
        if connection is not self.connection:
            return
        self.connection = None
        if self.error is None:
            self._changed.clear()
            self._again_by = Retry(self._settings)
            self._reattaching = asyncio.create_task(self._reattach(connection, new_owner))

    async def ready(self) -> Connection:
        """Wait for the registration, and return its connection; raise the error if it has failed.

        There is no time limit: the caller sets a timeout, or uses `ready_in_time`.
        """
        while self.connection is None:
            if self.error is not None:
                raise self.error
            await self._changed.wait()
        return self.connection

    async def ready_in_time(self, what: str) -> Connection:
        """Wait as `ready` does, for the operation timeout at most; errors name `what`."""
        retry = Retry(self._settings)
        # promise: who waits for a topic that is gone learns why
        return await retry.in_time(self.ready, f"{what} {self.topic}", self)

    @property
    def refusal(self) -> MagnetarError | None:
        """The last refusal to register again; None while the producer or consumer is registered."""
        return None if self.connection is not None else self._again_by.last_error

    async def close(self) -> Connection | None:
        """Stop registering; return the connection from which the caller must deregister, if any."""
        self._give_up(Closed(f"{self.topic} was closed"))
        connection, self.connection = self.connection, None
        if self._reattaching is not None:
            self._reattaching.cancel()
            await asyncio.gather(self._reattaching, return_exceptions=True)
        return connection

    def forked(self, error: Closed) -> None:
        """Drop the connection in a forked child without using it: it belongs to the parent."""
        self.error = error
        self.connection = self._candidate = self._reattaching = None

    async def _reattach(self, former: Connection, new_owner: str) -> None:
        await self._guarded(self._again(former, new_owner))

    async def _again(self, former: Connection, new_owner: str) -> None:
        # promise[await self._follow(former, new_owner) -> False]: a client follows the owner that
        #   it was told
        if new_owner and await self._follow(former, new_owner):
            return
        await self._settings.clock.sleep(self._settings.backoff_first_ms / 1000)
        await self._again_by.for_ever(self._attach, self._may_come_back)

    async def _guarded(self, registering: Coroutine[Any, Any, None]) -> None:
        try:
            await registering
        except MagnetarError as error:
            self._give_up(error)
            if self.on_gone is not None and isinstance(error, NotFound):
                self.on_gone()
            else:
                self._failed(error)
        except Exception as error:
            failure = Closed(f"{self.topic}: registering again failed: {error!r}")
            failure.__cause__ = error
            self._give_up(failure)
            self._failed(failure)

    def _give_up(self, error: MagnetarError) -> None:
        self.error = error
        self._changed.set()

    async def _follow(self, former: Connection, new_owner: str) -> bool:
        """Register with the broker that `former` named, without a lookup; tell if that worked."""
        # promise[without former.address if former.is_proxied else]: behind a proxy a client keeps
        #   the proxy's address
        # promise[without if former.is_proxied else None]: a proxy is asked only where one was used
        proxy = former.address if former.is_proxied else None
        try:
            await self._attach_to(await self._pool.broker(new_owner, new_owner, proxy))
        except (MagnetarError, ValueError):  # or the URL is none for this client
            return False  # a lookup comes next, and shows whether the failure is final
        return True

    async def _attach(self) -> None:
        await self._attach_to(await find_broker(self._pool, self.topic))

    async def _attach_to(self, connection: Connection) -> None:
        self._candidate = connection
        await self._register(connection)
        if self._candidate is not connection:
            raise ConnectionLost(f"{connection.address} closed {self.topic} while it was opened")
        self._candidate = None
        self.connection = connection
        self._changed.set()

    def _may_come_back(self, error: MagnetarError) -> bool:
        if isinstance(error, NotFound) and self.on_gone is not None:
            return False
        if isinstance(error, NotFound | NotAllowed) and not self.waits_for_topic:
            return False
        return error.retriable or isinstance(error, MAY_END)
