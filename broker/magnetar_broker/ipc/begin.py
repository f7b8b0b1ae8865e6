"""Begins coroutines in the order of the calls."""

from collections.abc import Coroutine, Generator
from typing import Any

from magnetar_storage.runtime.execution import Cause, Tasks

Work = Coroutine[Any, Any, None]


def begin(tasks: Tasks, work: Work, cause: Cause) -> None:
    """Run `work` to its first wait before returning; the rest runs as a task.

    A task alone would begin later, after plain functions that are called in the meantime.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return
    tasks.spawn(_finish(_Rest(work, waits_for)), cause)


async def _finish(rest: "_Rest") -> None:
    await rest


class _Rest:
    """An awaitable that awaits what `work` is waiting for, and then runs `work` to its end."""

    def __init__(self, work: Work, waits_for: object) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    value = yield waits_for
                except BaseException as error:  # whatever it is, `work` handles or raises it
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(value)
        except StopIteration:
            return
