"""Base class of objects that are closed at the end of an `async with`."""

from abc import ABC, abstractmethod
from typing import NoReturn, Protocol, Self

from magnetar.base.errors import Closed


class Closing(ABC):
    """Closes itself when the block ends, with or without an error."""

    @abstractmethod
    async def close(self) -> None:
        """Complete pending work, and release every resource."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or passed to another process: open one there"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.close()


class Part(Protocol):
    """An object that a client has opened; closing the client closes it."""

    async def close(self) -> None: ...

    def forked(self, error: Closed) -> None:
        """Raise the error from now on, and use no socket or loop: this process is a child."""


class OpenedPart(Part, Protocol):
    """A part that is opened separately from its construction."""

    async def open(self) -> None: ...
