"""File descriptors: as many as the system gives, and some that no client can take."""

import asyncio
import logging
import resource
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

KEPT_FOR_FILES = 64
"""Never left to sockets; where there are few descriptors, half of them."""
SILENT_SECONDS = 60.0
"""Between two log lines about this."""

Factory = Callable[[], asyncio.BaseProtocol]


def raise_limit() -> None:
    """Take as many as this process may have without asking anybody."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Descriptors:
    """Hangs up on clients for whom there is no descriptor to spare."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    def guarded(self, make: Factory) -> Factory:
        """The same protocols, for those sockets that may stay."""
        return lambda: Guard(self, make)

    def admits(self, number: int) -> bool:
        """Whether a socket with this descriptor may stay; if not, the log says why.

        The lowest free number is given out first: one so high means that all below are in use.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY or number < limit - min(KEPT_FOR_FILES, limit // 2):
            return True
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_SECONDS
            logger.warning(
                "clients are turned away: of %d file descriptors only those are left that are "
                "kept for files; raise the limit of open files (ulimit -n)", limit,
            )  # fmt: skip
        return False


class Guard(asyncio.Protocol):
    """Stands in for the protocol of a new connection until the connection may stay."""

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
