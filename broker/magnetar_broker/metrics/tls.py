"""Figures of TLS in one process."""

from typing import NamedTuple


class TlsFigures(NamedTuple):
    """Of a process that accepts TLS connections."""

    handshake_failures: int
    """Since the start."""
    expires_at: float
    """Of the certificate in use, in seconds since 1970."""
