"""The handling of interceptors of an application that producers and consumers share."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)


class Interceptor(Protocol):
    """An application's extension for every message of a producer or consumer."""

    def close(self) -> None:
        """Called when the producer or consumer was closed."""


T = TypeVar("T", bound=Interceptor)


class Interceptors(Generic[T]):
    """The interceptors of a producer or consumer, called one after the other in order."""

    def __init__(self, interceptors: Sequence[T]) -> None:
        self._interceptors = interceptors
        self._is_closed = False
        self.on_close: Callable[[Interceptors[Any]], None] | None = None
        """Called once, by the first `close`."""

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def close(self) -> None:
        """Notify all interceptors, once, that the producer or consumer is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        for one in self._interceptors:
            try:
                one.close()
            except Exception:
                log_failure(one, "close")
        if self.on_close is not None:
            self.on_close(self)


class OpenInterceptors:
    """The interceptors of a client's producers and consumers that are still open."""

    def __init__(self) -> None:
        self._open: set[Interceptors[Any]] = set()

    def add(self, interceptors: Interceptors[Any]) -> None:
        """Notify these interceptors when the client closes, unless their owner closes before."""
        if interceptors:
            self._open.add(interceptors)
            interceptors.on_close = self._open.discard

    def close(self) -> None:
        """Notify all interceptors that their producer or consumer is closed."""
        for interceptors in list(self._open):
            interceptors.close()


def log_failure(interceptor: object, method: str) -> None:
    """Log the exception being handled, which an interceptor has raised; it has no other effect."""
    logger.exception("%s of the interceptor %r failed", method, interceptor)
