"""The errors of asyncpg as errors of storage, without passwords."""

import errno
import socket
import ssl
from collections.abc import Mapping
from typing import Final

import asyncpg

from magnetar_storage.errors import AccessDenied, DiskFull, StorageError, TooLarge, Unavailable

DENIED = ("28", "42501")
"""The codes, or their beginnings, of refused credentials and missing privileges."""
DISK_FULL, TOO_LARGE = "53100", "54000"
ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The errors that asyncpg raises; `TimeoutError` is an `OSError`."""

REASONS: Final[Mapping[type[Exception], str]] = {
    TimeoutError: "there was no answer in time",
    ssl.SSLError: "TLS failed",
    socket.gaierror: "the host name is not known",
    ConnectionRefusedError: "nothing accepts connections there",
    ConnectionError: "the connection was closed before the answer",
    asyncpg.InterfaceError: "the connection is closed",
    asyncpg.exceptions.TargetServerAttributeNotMatched: "no server of the URL accepts writes",
}
"""The reasons, in words, by the kind of the error; the first one that fits counts."""
REASONS_BY_NUMBER: Final = {
    errno.ECONNREFUSED: "nothing accepts connections there",
    errno.EHOSTUNREACH: "the host cannot be reached",
    errno.ENETUNREACH: "the network cannot be reached",
}


def explained(error: Exception, place: str) -> StorageError:
    """Return the error of storage for an error of asyncpg."""
    if isinstance(error, asyncpg.PostgresError):
        code, message = error.sqlstate or "", (error.message or "").rstrip(".")
        if code.startswith(DENIED):
            return AccessDenied(
                f"{place}: {message}: check the user, its password and its privileges"
            )
        if code == DISK_FULL:
            return DiskFull(f"{place}: {message}")
        if code == TOO_LARGE:
            return TooLarge(f"{place}: {message}")
        return Unavailable(f"{place}: {message}")
    return Unavailable(f"{place}: {_reason(error)}")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and (found := REASONS_BY_NUMBER.get(error.errno or 0)):
        return found
    for kind, reason in REASONS.items():
        if isinstance(error, kind):
            return reason
    # Not the texts of asyncpg, which may have a part of the URL.
    return f"the request failed ({type(error).__name__})"
