"""Figures of TLS in one process."""

from typing import NamedTuple


class TlsFigures(NamedTuple):
    """The figures of a process that accepts TLS connections."""

    handshake_failures: int
    """The number of handshakes that have failed since the start."""
    expires_at: float
    """The time at which the certificate in use expires, in seconds since 1970."""
