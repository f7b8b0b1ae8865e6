"""The producers or consumers of a client, by the ids that the client chose."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from magnetar_broker.base.errors import NotAllowed, NotReady
from magnetar_broker.base.wanted import Check


class Closable(Protocol):
    """A producer or a consumer."""

    def close(self) -> None:
        """Close the producer or consumer; harmless if it is closed."""


T = TypeVar("T", bound=Closable)


class HandleTable(dict[int, T]):
    """The open producers or consumers of a client, by id.

    A client may close an id, and open another one under it, while the first is being created. Each
    request therefore leaves a token of its own for the id, and what it created is kept only if that
    token is still there.  While it is being created, it can ask whether that is so.
    """

    __slots__ = ("_creating", "_kind", "_limit", "_over", "_setting")

    def __init__(self, kind: str, limit: Callable[[], int] = lambda: 0, setting: str = "") -> None:
        """At most `limit` handles exist, which `setting` sets; 0 means no limit."""
        super().__init__()
        self._kind = kind
        self._limit = limit
        self._setting = setting
        self._creating: dict[int, object] | None = None
        self._over = False

    def holds(self, number: int) -> bool:
        """Return whether a producer or consumer is open, or being created, under an id."""
        return number in self or self._token(number) is not None

    def _token(self, number: int) -> object:
        """Return the token of the request that is creating an id; None if there is none."""
        return None if self._creating is None else self._creating.get(number)

    def _drop(self, number: int) -> None:
        if self._creating is not None:
            self._creating.pop(number, None)
            if not self._creating:  # most connections create one handle, and keep it for hours
                self._creating = None

    async def fill(self, number: int, make: Callable[[Check], Coroutine[Any, Any, T]]) -> T:
        """Create an object with `make` under an id; an older one of that id is closed first.

        `make` gets a check of whether it is still to be created, and calls it before each change
        that would outlast the connection.

        `NotAllowed` above the limit; `NotReady` if another request is creating it, if the id was
        freed meanwhile, or if the connection is closed.
        """
        if self._over:
            raise NotReady(f"the connection of {self._kind} {number} is closed")
        if self._token(number) is not None:
            raise NotReady(f"{self._kind} {number} is being created; wait for that answer")
        self.close(number)
        limit = self._limit()
        if self._creating is None:
            self._creating = {}
        # promise: producers on one connection are limited
        if 0 < limit <= len(self) + len(self._creating):
            raise NotAllowed(
                f"this connection has {limit} {self._kind}s, which is the limit ({self._setting}): "
                "close some, use another connection, or raise the limit"
            )
        # A token and not the number: after a close, the client may create another under the id.
        token = self._creating[number] = object()

        def check() -> None:
            if self._token(number) is not token:
                raise NotReady(f"{self._kind} {number} was closed while it was created")

        try:
            made = await make(check)
            try:
                check()
            except NotReady:  # nobody else knows of it, so it would stay open
                made.close()
                raise
            self[number] = made
            return made
        finally:
            if self._token(number) is token:
                self._drop(number)

    def free(self, number: int) -> T | None:
        """Remove and return the object under an id; the caller closes it."""
        self._drop(number)
        return self.pop(number, None)

    def close(self, number: int) -> None:
        """Close the object under an id."""
        held = self.pop(number, None)
        if held is not None:
            held.close()

    def close_all(self) -> None:
        """Close all objects for good, and those being created as soon as they exist."""
        self._over = True
        self._creating = None
        for number in list(self):
            self.close(number)
