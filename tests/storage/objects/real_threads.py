"""A worker whose jobs run in a thread each, for a test that waits for them."""

from collections.abc import Awaitable, Callable, Generator
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class _Running(Thread):
    """A job in its thread; awaiting it blocks."""

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._job = job
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._job()
        except BaseException as error:
            self.error = error

    def __await__(self) -> Generator[Any, None, Any]:
        self.join()
        if self.error is not None:
            raise self.error
        return self.result
        yield  # a generator, as awaiting wants it


class RealThread:
    """Implements `Worker` without a loop: whoever awaits a job blocks."""

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        running = _Running(job)
        running.join()
        done(running.result, running.error)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        return _Running(job)
