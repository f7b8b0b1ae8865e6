"""The lines of standard input, read without blocking the event loop."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

READ_BYTES = 64 * 1024


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """Yield the lines as they arrive, without line ends."""
    rest = b""
    while data := await _read():
        *lines, rest = (rest + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


async def _read() -> bytes:
    """Return the bytes that can be read; b"" at the end."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return os.read(descriptor, READ_BYTES)  # a regular file never blocks
    try:
        await ready.wait()
        return os.read(descriptor, READ_BYTES)
    finally:
        loop.remove_reader(descriptor)
