"""What a client has open, by ids of its choice."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from magnetar_broker.errors import NotReady


class Closable(Protocol):
    """A producer or a consumer."""

    def close(self) -> None:
        """End it; harmless if it has ended."""


T = TypeVar("T", bound=Closable)


class Slots(dict[int, T]):
    """What is open by id.  An id may be closed, and used anew, while what was to be there is made.

    Each request therefore puts a token of its own beside the id, and what it made counts
    only if the token is still there.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._making: dict[int, object] = {}
        self._over = False

    async def fill(self, number: int, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Open what `make` makes under an id; what was open there is closed before.

        `NotReady` if another request is doing so, if the id was freed meanwhile, or if the client
        has gone.
        """
        if self._over:
            raise NotReady(f"the client of {self._kind} {number} has gone")
        if number in self._making:
            raise NotReady(f"{self._kind} {number} is being created; wait for that answer")
        self.close(number)
        token = self._making[number] = object()
        try:
            made = await make()
            if self._making.get(number) is not token:
                made.close()
                raise NotReady(f"{self._kind} {number} was closed while it was created")
            self[number] = made
            return made
        finally:
            if self._making.get(number) is token:
                del self._making[number]

    def free(self, number: int) -> T | None:
        """Nothing is open under the id from now on; returns what was, for the caller to close."""
        self._making.pop(number, None)
        return self.pop(number, None)

    def close(self, number: int) -> None:
        """Close what is open under an id."""
        held = self.pop(number, None)
        if held is not None:
            held.close()

    def close_all(self) -> None:
        """Close everything, for good; what is being made is closed as soon as it is."""
        self._over = True
        self._making.clear()
        for number in list(self):
            self.close(number)
