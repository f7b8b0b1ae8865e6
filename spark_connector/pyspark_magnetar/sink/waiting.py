"""Waiting for exclusive resources: the name of a producer, an exclusive subscription."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import magnetar

T = TypeVar("T")

PAUSE_S = 0.2
"""The pause between attempts to get a resource, in seconds."""


async def when_free(attempt: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """Repeat `attempt` while another holds the resource; Busy if that takes too long.

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
