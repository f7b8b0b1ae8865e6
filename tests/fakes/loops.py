"""Tests that run on both event loops that the broker supports."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
import uvloop

TestFunction = Callable[..., Coroutine[Any, Any, None]]


def on_both_loops(test: TestFunction) -> Callable[..., None]:
    """Run a test, which is a coroutine, on asyncio's loop and on uvloop's."""

    @pytest.mark.parametrize(
        "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
    )
    @wraps(test)
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**arguments))

    signature = inspect.signature(test)
    own = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), own])
    decorated: Callable[..., None] = run
    return decorated
