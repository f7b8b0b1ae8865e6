"""Gives a log the segment that it needs before anything can be appended.

It is apart from `Appender`, which is compiled: a compiled coroutine must not handle exceptions.
"""

from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log


async def start_writing(log: Log) -> StorageError | None:
    """Make the log ready for appends; return the error if that failed."""
    try:
        await log.rollover.start_writing()
    except StorageError as error:
        return error
    return None
