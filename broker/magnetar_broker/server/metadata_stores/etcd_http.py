"""Requests over HTTP/1.1 on asyncio's streams, with answers that may never end.

It is h11 without a library around it, as on the side of the server.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final, NamedTuple

import h11

from magnetar_broker.server.metadata_stores.urls import Endpoint

READ_BYTES: Final = 64 << 10
IDLE_SECONDS: Final = 30.0
"""The time after which an unused connection is not used again: something may have dropped it."""
MOST_IDLE: Final = 8


REASONS: Final[Mapping[type[Exception], str]] = {
    socket.gaierror: "the host name is not known",
    ConnectionRefusedError: "nothing accepts connections there",
    ConnectionError: "the connection was closed before the answer",
    h11.ProtocolError: "the connection was closed before the answer",
}


class NoAnswer(Exception):
    """Raised if there is no complete answer; its text is the reason."""

    def __init__(self, reason: str, was_sent: bool = True) -> None:
        super().__init__(reason)
        self.was_sent = was_sent
        """Whether a part of the request may have arrived."""


class Answer(NamedTuple):
    status: int
    body: bytes


class HttpConnection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self.used = 0.0
        """The loop's time when it was last used."""

    async def send(self, host: str, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send a request; return the status of its answer, whose body is read by `pieces`."""
        fields = {"host": host, "content-length": str(len(body)), **headers}
        request = h11.Request(method="POST", target=path, headers=list(fields.items()))
        try:
            for part in (request, h11.Data(body), h11.EndOfMessage()):
                self._writer.write(self._http.send(part) or b"")
            await self._writer.drain()
            while not isinstance(event := await self._event(), h11.Response):
                pass  # 1xx
        except (OSError, h11.ProtocolError) as error:
            raise NoAnswer(reason_of(error)) from None
        return event.status_code

    async def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body of the answer as it arrives."""
        try:
            while isinstance(event := await self._event(), h11.Data):
                yield bytes(event.data)
        except (OSError, h11.ProtocolError) as error:
            raise NoAnswer(reason_of(error)) from None

    def may_be_reused(self) -> bool:
        """Return whether another request can be sent; call it after the end of an answer."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def is_open(self) -> bool:
        """Return whether the server has neither closed the connection nor sent anything."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    async def _event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError
        return event


class HttpPool:
    """The connections to one endpoint."""

    def __init__(
        self, endpoint: Endpoint, context: ssl.SSLContext | None, connect_seconds: float
    ) -> None:
        self.endpoint = endpoint
        self._context = context
        self._connect_seconds = connect_seconds
        self._idle: list[HttpConnection] = []
        self._used: set[HttpConnection] = set()

    async def request(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the whole answer to a request; `NoAnswer` if there is none."""
        connection = await self._connection()
        try:
            status = await connection.send(self.endpoint.address, path, headers, body)
            answer = Answer(status, b"".join([piece async for piece in connection.pieces()]))
        except BaseException:  # a cancellation included
            self._drop(connection)
            raise
        self._used.discard(connection)
        if len(self._idle) < MOST_IDLE and connection.may_be_reused():
            connection.used = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    async def stream(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[Answer]:
        """Iterate over the pieces of an answer, each with its status; `NoAnswer` if it breaks."""
        connection = await self._connection()
        try:
            status = await connection.send(self.endpoint.address, path, headers, body)
            async for piece in connection.pieces():
                yield Answer(status, piece)
        finally:
            self._drop(connection)

    def abort(self) -> None:
        """Close all connections: requests and streams that have one end with `NoAnswer`."""
        for connection in (*self._used, *self._idle):
            connection.abort()
        self._idle.clear()

    def _drop(self, connection: HttpConnection) -> None:
        self._used.discard(connection)
        connection.abort()

    async def _connection(self) -> HttpConnection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open() and now - connection.used < IDLE_SECONDS:
                break
            connection.abort()
        else:
            connection = await self._connected()
        self._used.add(connection)
        return connection

    async def _connected(self) -> HttpConnection:
        host, port = self.endpoint.host, self.endpoint.port
        try:
            async with asyncio.timeout(self._connect_seconds):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=self._context, limit=READ_BYTES
                )
        except TimeoutError:
            reason = f"no connection could be made within {self._connect_seconds:g} seconds"
            raise NoAnswer(reason, was_sent=False) from None
        except OSError as error:
            raise NoAnswer(reason_of(error), was_sent=False) from None
        _keep_alive(writer.get_extra_info("socket"))
        return HttpConnection(reader, writer)


def _keep_alive(connection: socket.socket) -> None:
    """Let the system notice a server that is gone, on a stream that nobody writes to."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


def reason_of(error: Exception) -> str:
    """Return the reason why a request failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    for kind, reason in REASONS.items():
        if isinstance(error, kind):
            return reason
    return getattr(error, "strerror", None) or f"the request failed ({type(error).__name__})"
