"""Options that several commands share, and the execution of commands."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from magnetar.base.errors import MagnetarError
from magnetar_proto.errors import InvalidTopicName

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that was interrupted."""

C = TypeVar("C", bound=Callable[..., object])


def refusing(*names: str, why: str, is_flag: bool = False) -> Callable[[C], C]:
    """Declare an option of pulsar-client that is not supported: using it is an error with `why`.

    Ignoring it would do something else than the user asked for.
    """

    def refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value:
            raise click.UsageError(f"{names[0]} is not supported: {why}", context)

    return click.option(*names, is_flag=is_flag, expose_value=False, hidden=True, callback=refuse)


def named_value(text: str, option: str) -> tuple[str, str]:
    """Split NAME=VALUE into its two parts."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
    return name, value


def number_of(count: int, one: str, several: str) -> str:
    """Return a count with the noun in the right number."""
    return f"{count} {one if count == 1 else several}"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command; an error becomes one line on standard error instead of a traceback."""
    try:
        asyncio.run(_interruptible(work))
    except (MagnetarError, InvalidTopicName, ValueError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


async def _interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Await a command; SIGINT cancels it, and a second SIGINT ends it immediately.

    A handler of the loop wakes the loop.  The one of asyncio.run does not: a signal that arrives as
    the loop starts to wait would be noticed only at the next frame or timer.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        loop.remove_signal_handler(signal.SIGINT)
        task.cancel()

    # If it is ignored, a shell without job control started this in the background.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await work
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
