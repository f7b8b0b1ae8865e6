"""Sends requests to a process that may be stopped: then its link stays, and nothing answers."""

from typing import Any

from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.runtime.execution import Clock, settling


async def answer_within(clock: Clock, seconds: float, link: Link, name: str, *args: Any) -> Any:
    """Return the answer to a request; `ProcessUnavailable` even if none comes in time."""
    answer = link.request(name, *args)
    late = ProcessUnavailable(f"{link.peer} has not answered {name} within {seconds:g} s")
    # promise[settling(answer)(late) -> None]: a request to a process that is stopped ends
    timer = clock.later(seconds, lambda: settling(answer)(late))
    try:
        return await answer
    finally:
        timer.cancel()
