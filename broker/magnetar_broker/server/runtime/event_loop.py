"""The event loop that runs the broker: uvloop's if it is installed, else asyncio's own."""

import asyncio
from collections.abc import Callable

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory() -> tuple[LoopFactory, str | None]:
    """Return a function that creates the loop, and a warning for the log if it is the slower
    one."""
    try:
        import uvloop  # noqa: PLC0415 (not every platform has it)
    except ImportError:
        return asyncio.new_event_loop, (
            "uvloop is not installed: the broker runs on asyncio's event loop, which is slower "
            "(pip install uvloop)"
        )
    return uvloop.new_event_loop, None
