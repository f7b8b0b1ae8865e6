"""A connection to PostgreSQL that is made again after it is lost; requests take turns on it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import asyncpg

from magnetar_broker.server.metadata_stores.postgres_errors import ERRORS, explained
from magnetar_broker.server.metadata_stores.urls import MetadataRefused
from magnetar_storage.errors import Unavailable

T = TypeVar("T")

Connection: TypeAlias = "asyncpg.Connection[Any]"


class Lane:
    """One connection at a time."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], place: str, request_seconds: float
    ) -> None:
        self._connect = connect
        self._place = place
        self._request_seconds = request_seconds
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of `work(connection)`; raises its errors as those of storage."""
        async with self._turn:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connected()
                async with asyncio.timeout(self._request_seconds):
                    return await work(self._connection)
            except asyncpg.PostgresError as error:
                # An answer of the server: the connection is still good, unless it was closed.
                raise explained(error, self._place) from None
            except ERRORS as error:
                self._drop()
                raise explained(error, self._place) from None
            except BaseException:  # a cancellation: what the server answers is not known
                # At once, before asyncpg cancels the request: a commit that waits for a standby
                # would be taken for complete.
                self._drop()
                raise

    async def _connected(self) -> Connection:
        try:
            return await self._connect()
        except MetadataRefused as error:  # a file that cannot be read
            raise Unavailable(str(error)) from None
        except OSError:  # `SSLCertVerificationError` is a `ValueError`, too
            raise
        except ValueError:
            # Without its text, which may have a part of the URL.
            raise Unavailable(
                f"{self._place}: the URL, or an environment variable that begins with PG, has a"
                " value that is not valid"
            ) from None

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.close(timeout=1)
        except ERRORS:
            # The server is away, so there is nobody to tell.
            connection.terminate()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
