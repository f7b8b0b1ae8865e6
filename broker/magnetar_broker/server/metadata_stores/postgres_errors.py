"""The errors of asyncpg as errors of storage, without passwords."""

import asyncpg

from magnetar_storage.errors import AccessDenied, DiskFull, StorageError, TooLarge, Unavailable

DENIED = ("28", "42501")
"""The codes, or their beginnings, of refused credentials and missing privileges."""
DISK_FULL, TOO_LARGE = "53100", "54000"
ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg raises; `TimeoutError` is an `OSError`."""


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
    if isinstance(error, TimeoutError):
        return "there was no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing accepts connections there"
    if isinstance(error, ConnectionError):
        return "the connection was closed before the answer"
    if isinstance(error, asyncpg.InterfaceError):
        return "the connection is closed"
    if isinstance(error, OSError):
        # Of several addresses the text has one reason each.
        return error.strerror or str(error)
    return f"the request failed ({type(error).__name__})"
