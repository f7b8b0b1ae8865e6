"""File descriptors: as many as the system gives, some of them reserved for files."""

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from contextlib import suppress

logger = logging.getLogger(__name__)

RESERVED_FOR_FILES = 64
"""The descriptors never used for sockets; half of all if there are fewer than twice this number."""
WARNING_INTERVAL_SECONDS = 60.0
"""The time between two warnings about descriptors."""
MACOS_OPEN_MAX = 10_240
"""The highest soft limit that macOS accepts, even though its hard limit is infinite."""

Factory = Callable[[], asyncio.BaseProtocol]


def raise_limit() -> None:
    """Raise the soft limit of open files as far as this process may without privileges."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, max(soft, MACOS_OPEN_MAX)):
        with suppress(ValueError, OSError):  # the system's limit is lower: try the next
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return
    logger.info("the limit of open files stays at %d", soft)


class Descriptors:
    """Closes new connections when only the descriptors reserved for files are left."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def guarded(self, make: Factory) -> Factory:
        """Return a factory of protocols that calls `make` for each connection that is admitted."""
        return lambda: ConnectionGate(self, make)

    def admits(self, number: int) -> bool:
        """Return whether a socket with this descriptor may stay; if not, log a warning.

        The system assigns the lowest free number: a high one means that all below it are in use.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY or number < limit - min(RESERVED_FOR_FILES, limit // 2):
            return True
        # A full table refuses clients by the thousand: one line a minute.
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + WARNING_INTERVAL_SECONDS
            logger.warning(
                "new connections are closed: of %d file descriptors only those reserved for "
                "files are left; raise the limit of open files (ulimit -n)", limit,
            )  # fmt: skip
        return False


class ConnectionGate(asyncio.Protocol):
    """The protocol of a new connection until the connection is admitted."""

    def __init__(self, descriptors: Descriptors, make: Factory) -> None:
        self._descriptors = descriptors
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._descriptors.admits(transport.get_extra_info("socket").fileno()):
            protocol = self._make()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
        else:
            transport.close()
