"""Waiting for what belongs to one at a time: the name of a producer, an exclusive subscription."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import magnetar

T = TypeVar("T")

PAUSE_S = 0.2
"""Between attempts to have what another one has."""


async def when_free(attempt: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """The result of `attempt`, repeated while another one has it; Busy if that takes too long.

    `what` names the resource in the note of the error.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        try:
            return await attempt()
        except magnetar.Busy as error:
            if loop.time() >= deadline_s:
                error.add_note(f"waited {timeout_s:g} s (producerNameTimeout) for {what}")
                raise
        await asyncio.sleep(PAUSE_S)
