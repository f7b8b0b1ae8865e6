"""Ports for the daemons of this process that no other test process gives to its own.

Test processes run side by side: the workers of one run, and runs in several checkouts. Looking for
a free port is not enough, because another process may choose the same one before the daemon has
bound it, or while the daemon is down between two lives. Each process therefore locks a block of
ports for as long as it lives.
"""

import contextlib
import fcntl
import functools
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

PORTS = range(10_000, 32_768)
"""Below those that a system gives to a client's end of a connection (Linux: from 32768)."""
BLOCK = 256


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens; none of them was given out recently."""
    ports: list[int] = []
    with contextlib.ExitStack() as listening:
        for port in _ports_in_turn():
            with contextlib.suppress(OSError):
                listening.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"fewer than {count} of {BLOCK} ports are free")


def _ports_in_turn() -> Iterator[int]:
    """Every port of the block once, the one given out longest ago first."""
    block = _block()
    for _ in range(BLOCK):
        # A daemon that was killed gets its ports back when it starts again: a port is not given
        # to another one until all others of the block have had their turn.
        block.append(block.pop(0))
        yield block[-1]


@functools.cache
def _block() -> list[int]:
    """The ports of a block that this process has locked until it ends."""
    for start in range(PORTS.start, PORTS.stop - BLOCK + 1, BLOCK):
        path = Path(tempfile.gettempdir(), f"magnetar-tests-ports-{start}.lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # another user's block
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return list(range(start, start + BLOCK))  # the lock stays open as long as we live
    raise OSError(f"all {len(PORTS) // BLOCK} blocks of ports are taken by other test processes")
