"""Base class of objects that are closed at the end of an `async with`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Closes itself when the block ends, with or without an error."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is pending and release every resource."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
