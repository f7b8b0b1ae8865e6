"""One HTTP connection: requests are answered one after the other, in their order.

It is h11 on the broker's own sockets, and not a framework, which would take as long to import as
the rest of the broker.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl

import h11

from magnetar_broker.base.connection import host_of
from magnetar_broker.limits.reached import ClientLimit
from magnetar_broker.server.http.guard import HttpGuard
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.socket_writes import write_pieces
from magnetar_broker.server.tls.port import certificate_of

Answer = Callable[[Request], Awaitable[Response]]
"""A function that answers a request; it raises nothing: every error is a response."""

logger = logging.getLogger(__name__)

TLS_HANDSHAKE = b"\x16\x03"
"""The first bytes that a client with TLS sends."""
MAX_HEADERS = 100
"""The most headers of a request."""
NOT_OURS = re.compile(rb"(?<!\r)\n|\r\n[ \t]")
"""In the head of a request: a line that ends without CR, or continues in the next line.  Old rules
allow both, and programs that disagree about them can take one request for two."""
NO_BEGINNING = re.compile(rb"[^\w!#$%&'*+.^`|~\r\n-]")
"""The first byte of input that no request begins with, such as a body of undeclared length."""
ORIGIN_FORM = re.compile(r"/[\x21-\x7e]*|https?://[\x21-\x7e]*", re.IGNORECASE)
TURN_BYTES = 64 << 10
"""The bytes of a response that are written in one turn of the loop: the kernel copies them."""
LINGER_SECONDS = 2.0
"""The time in which the input of a refused client is discarded before the connection is aborted:
closing at once would reset it, and the client would lose the refusal."""


class _Counted:
    """A body whose length is known, and which is written without passing through h11."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


class _Refused(Exception):
    """The reason to refuse a request before all of it has arrived."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpConnection(asyncio.Protocol):
    """One client's connection, listed in `connections` until it is closed and all is answered."""

    def __init__(
        self,
        answer: Answer,
        loop_timer: LoopTimer,
        connections: set["HttpConnection"],
        guard: HttpGuard,
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        """The task that answers the current request; None between requests."""
        self._answer = answer
        self._loop_timer = loop_timer
        self._connections = connections
        self._guard = guard
        self._limits = guard.limits
        self.address = ""
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._is_begun = False
        """Whether a part of the next request has arrived."""
        self._waiting_bytes = 0
        """The bytes of an answer that waited when the socket last became full."""
        self._certificate = b""
        self._is_tls = self._full = self._refused = self._stopping = self._ended = False

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        self._certificate = certificate_of(transport)
        self.address = _address(transport.get_extra_info("peername"))
        if not self._guard.enter(self, host_of(self.address)):
            self._refused = True
            self._transport.abort()
            return
        self._connections.add(self)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            # promise[without and not self._is_begun]: the time of an HTTP request is not extended
            #   by trickling bytes
            if self.task is None and not self._is_begun:
                self._begin()
            self._http.receive_data(data)
            self._loop_timer.run("http", self._proceed)

    def eof_received(self) -> bool:
        """Note that the client sends nothing more; keep the connection while a response is due."""
        self._ended = True
        if self._refused:
            return False
        self._http.receive_data(b"")
        self._proceed()
        return self.task is not None and not self._is_tls  # TLS ends in both directions

    def pause_writing(self) -> None:
        # promise[never]: a client that does not read its answers is not read from
        self._full = True
        self._loop.call_soon(self._watch)  # after all that this turn writes

    def resume_writing(self) -> None:
        self._full = False
        self._guard.readers.drained(self)
        if self.task is None and not (self._refused or self._is_begun):
            self._wait()
        self._proceed()

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel_timer()
        self._guard.readers.drained(self)
        self._guard.leave(self)
        if self.task is None:
            self._connections.discard(self)

    # Limits -----------------------------------------------------------------------------

    def give_up(self) -> None:
        """Close the connection at once, because others need its place."""
        self._transport.abort()

    def unread(self) -> tuple[int, int]:
        """Return the bytes that the socket has taken since it was full, and the bytes that wait."""
        waiting = self._transport.get_write_buffer_size()
        return self._waiting_bytes - waiting, waiting

    def _watch(self) -> None:
        if self._full and not self._transport.is_closing():
            self._waiting_bytes = self._transport.get_write_buffer_size()
            self._guard.readers.full(self)  # promise: who does not read its answer is disconnected

    def _wait(self) -> None:
        """Wait for the first byte of a request."""
        self._is_begun = False
        self._guard.waits(self)
        self._limit_time(self._limits.idle_seconds, self._transport.abort)

    def _begin(self) -> None:
        """Limit the time of a request, whose first byte has arrived."""
        self._is_begun = True
        self._limit_time(self._limits.head_seconds, self._too_slow)

    def _limit_time(self, seconds: float, end: Callable[[], None]) -> None:
        self._cancel_timer()
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, end)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        """Refuse a request that did not arrive completely in time, even if more arrives."""
        name = "magnetarHttpHeaderTimeoutSeconds"
        if self._head is not None:
            name = "magnetarHttpBodyTimeoutSeconds"
        self._guard.reached.count(ClientLimit.HTTP_TIME, name, self.address)
        self._refuse(408, f"the request was not complete in time ({name})")

    # Called by the server --------------------------------------------------------------

    def stop(self) -> None:
        """Close after the current response."""
        self._stopping = True
        if self.task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, and cancel the current request."""
        self._transport.abort()
        if self.task is not None:
            self.task.cancel()

    # Requests -----------------------------------------------------------------------

    def _proceed(self) -> None:
        """Handle received data up to the end of a request; the next waits for its response."""
        try:
            while not (self.task or self._full or self._refused or self._transport.is_closing()):
                self._check_lines()
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._send_continue()
                    break
                self._take(event)
        except h11.RemoteProtocolError as error:
            self._note_tls()
            self._refuse(error.error_status_hint, str(error))
        except _Refused as error:
            self._note_tls()
            self._refuse(error.status, str(error))
        # A client's end is noticed only while its socket is read: so it is read while a request is
        # answered, up to the first bytes of the next one.
        if self._full or (self.task and self._http.trailing_data[0]):
            self._transport.pause_reading()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def _note_tls(self) -> None:
        if self._http.trailing_data[0].startswith(TLS_HANDSHAKE):
            logger.info(
                "closing a connection: %s begins TLS at a port without it: TLS has "
                "webServicePortTls",
                self.address,
            )

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Request):
            self._head = event
            self._check_head(event)
            self._body.clear()
            self._limit_time(self._limits.body_seconds, self._too_slow)
        elif isinstance(event, h11.Data):
            self._body += event.data
            self._check_size(len(self._body))
            self._guard.bodies.hold(self, len(self._body))
        elif isinstance(event, h11.EndOfMessage):
            self._cancel_timer()
            self._guard.works(self)
            assert self._head is not None
            responding = self._respond(self._request(self._head))
            self.task = self._loop.create_task(self._loop_timer.measured("http", responding))
        else:  # the client closed, or asked for another protocol
            self._transport.close()

    def _check_lines(self) -> None:
        """Refuse input that cannot begin a request, and line ends that programs disagree about."""
        if self._http.their_state is h11.IDLE:
            if NO_BEGINNING.match(self._http.trailing_data[0]):
                raise _Refused(
                    400,
                    "expected a request: a body needs Content-Length or Transfer-Encoding",
                )
            head = self._http.trailing_data[0].partition(b"\r\n\r\n")[0]
            if NOT_OURS.search(head):  # promise: lines that end without CR are refused
                raise _Refused(400, "a line of the headers does not end with CR LF, or is folded")

    def _check_head(self, head: h11.Request) -> None:
        """Refuse a head that a program in front of the broker may have understood differently."""
        names = [name for name, _ in head.headers]
        if len(names) > MAX_HEADERS:
            raise _Refused(431, f"the request has {len(names)} headers, the limit is {MAX_HEADERS}")
        if head.http_version not in (b"1.0", b"1.1"):
            raise _Refused(505, "the version of HTTP is neither 1.0 nor 1.1")
        if b"transfer-encoding" in names:
            if b"content-length" in names:  # promise: a request with two lengths is refused
                raise _Refused(400, "the request has both Content-Length and Transfer-Encoding")
            if head.http_version == b"1.0":
                raise _Refused(400, "HTTP/1.0 has no Transfer-Encoding")
        if not ORIGIN_FORM.fullmatch(head.target.decode("latin-1")):
            raise _Refused(400, "the target is neither a path nor an http URL")
        length = next((value for name, value in head.headers if name == b"content-length"), b"0")
        self._check_size(int(length))

    def _check_size(self, size: int) -> None:
        limit = self._limits.body_bytes
        if size > limit:
            raise _Refused(413, f"the body exceeds the limit of {limit} bytes (httpMaxRequestSize)")

    def _send_continue(self) -> None:
        """Let a client that sent `Expect: 100-continue` send its body."""
        if self._http.they_are_waiting_for_100_continue:
            response = h11.InformationalResponse(status_code=100, headers=[])
            self._transport.write(self._http.send(response) or b"")

    def _request(self, head: h11.Request) -> Request:
        path, _, query = _origin_form(head.target.decode()).partition("?")
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        pairs = parse_qsl(query, keep_blank_values=True)
        return Request(
            method=head.method.decode(),
            path=path,
            query=dict(reversed(pairs)),
            pairs=pairs,
            headers=headers,
            body=bytes(self._body),
            port=self._transport.get_extra_info("sockname")[1],
            is_tls=self._is_tls,
            certificate=self._certificate,
            address=_address(self._transport.get_extra_info("peername")),
            is_given_up=self._is_given_up,
        )

    def _is_given_up(self) -> bool:
        return self._ended or self._transport.is_closing()

    # Answers ------------------------------------------------------------------------

    async def _respond(self, request: Request) -> None:
        try:
            response = await self._answer(request)
            if not self._transport.is_closing():
                await self._write(self._encoded(response))
        except BaseException:
            self._transport.abort()  # a half-written response would be read as a whole one
            raise
        finally:
            self.task = None
            self._body = bytearray()
            self._guard.bodies.hold(self, 0)
            if self._transport.is_closing():
                self._connections.discard(self)
        # A stop that came while the answer was written in turns has not closed the connection.
        kept = self._http.our_state is h11.DONE and not self._stopping
        if kept and not self._transport.is_closing():
            self._http.start_next_cycle()
            self._head = None
            self._wait()
            if self._full:  # then the time begins when the client has read the answer
                self._cancel_timer()
            elif self._http.trailing_data[0]:
                self._begin()
            self._proceed()
        else:
            self._transport.close()

    async def _write(self, pieces: Iterable[bytes]) -> None:
        """Write a response in turns of the loop; the rest at once when the socket is full."""
        written = 0
        for piece in pieces:
            # What does not go to the socket at once takes no time, and is counted as unread.
            if written >= TURN_BYTES and not self._full:
                written = 0
                await asyncio.sleep(0)
                if self._transport.is_closing():
                    break
            self._transport.write(piece)
            written += len(piece)

    def _encoded(self, response: Response) -> list[bytes]:
        """Return the bytes of a response, which must be sent."""
        headers = {"Date": formatdate(usegmt=True), **response.headers}
        body = [part for part in (response.body, *response.rest) if part]
        size = sum(map(len, body))
        if response.status != 204:
            # promise[always]: an answer without content has no type
            if body:  # a type without content makes Pulsar's Java client wait forever
                headers["Content-Type"] = response.content_type
            headers["Content-Length"] = str(size)
        # Later input is refused: a client that keeps the connection would lose its next request.
        if self._stopping or self._refused or NO_BEGINNING.match(self._http.trailing_data[0]):
            headers["Connection"] = "close"
        head = h11.Response(
            status_code=response.status,
            headers=[*_as_bytes([*headers.items(), *response.lines])],
            reason=HTTPStatus(response.status).phrase,
        )
        pieces = [self._http.send(head) or b""]
        if body and (self._head is None or self._head.method != b"HEAD"):
            # h11 only counts the bytes: passing it many parts one by one would take long.
            self._http.send_with_data_passthrough(h11.Data(data=cast(bytes, _Counted(size))))
            pieces += body
        self._http.send(h11.EndOfMessage())
        return pieces

    def _refuse(self, status: int, reason: str) -> None:
        """Answer an incomplete or malformed request with an error, and read no further requests."""
        self._refused = True
        self._guard.bodies.hold(self, 0)
        if status in (413, 431):
            name = "httpMaxRequestSize" if status == 413 else "httpMaxRequestHeaderSize"
            self._guard.reached.count(ClientLimit.HTTP_SIZE, name, self.address)
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            refusal = self._encoded(json_response({"reason": reason}, status))
            write_pieces(self._transport, refusal)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._limit_time(LINGER_SECONDS, self._transport.abort)


def _as_bytes(lines: Sequence[tuple[str, str]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield header lines; a character that no header can have becomes a blank, as in Pulsar."""
    for name, value in lines:
        # promise[without .isprintable() and one]: a message cannot add headers to a response
        plain = "".join(one if one.isprintable() and one < "\u0100" else " " for one in value)
        yield name.encode(), plain.encode("latin-1").strip()


def _address(peer: tuple[Any, ...] | None) -> str:
    if peer is None:
        return ""  # the client has left already
    host, port, *_ = peer
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _origin_form(target: str) -> str:
    """Return the target without scheme and host, which clients of proxies add."""
    if target.startswith("/"):
        return target
    return "/" + target.partition("://")[2].partition("/")[2]
