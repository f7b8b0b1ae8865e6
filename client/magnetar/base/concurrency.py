"""Concurrent operations on every partition or other part."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from magnetar.base.closing import OpenedPart

T = TypeVar("T")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all coroutines, even if some fail; return the results, or raise the first error."""
    outcomes = await asyncio.gather(*coroutines, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def open_together(parts: Iterable[OpenedPart]) -> None:
    """Open all parts; if one fails, close all and raise the first error."""
    opened = list(parts)
    try:
        async with asyncio.TaskGroup() as group:
            for part in opened:
                group.create_task(part.open())
    except BaseException as error:  # also a cancellation: some parts may be open by then
        await asyncio.gather(*(part.close() for part in opened), return_exceptions=True)
        # Not `except*`: before Python 3.11.4 it wraps an exception raised in it in another group.
        if isinstance(error, ExceptionGroup):
            raise _first_of(error) from None
        raise


def _first_of(errors: ExceptionGroup[Exception]) -> Exception:
    error: Exception = errors
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
