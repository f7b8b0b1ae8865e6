"""HTTP over a socket: complete, in pieces, too much, truncated, and without end."""

import asyncio
import contextlib
import http.client
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import pytest

from fakes.loop_world import LoopClock
from fakes.loops import on_both_loops
from fakes.waiting import until
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.server.http.connection import HttpConnection
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.runtime.loop_timer import LoopTimer

LIMITS = HttpLimits()
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"


@dataclass
class Site:
    """A port whose answers contain the path, unless `respond` is set."""

    guard: HttpGuard
    requests: list[Request] = field(default_factory=list)
    connections: set[HttpConnection] = field(default_factory=set)
    respond: Callable[[Request], Awaitable[Response]] | None = None
    port: int = 0

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        if self.respond is not None:
            return await self.respond(request)
        return Response(request.path.encode())

    async def ask(self, *pieces: bytes, eof: bool = False) -> bytes:
        """Send pieces, and return everything received until the port closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if eof:
            writer.write_eof()
        received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return received


@asynccontextmanager
async def served(**changed: Any) -> AsyncIterator[Site]:
    """Serve a site within the context."""
    limits = replace(HttpLimits(), **changed)
    clock = LoopClock()
    made = Site(HttpGuard(limits, clock, ReachedLimits(clock)))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: HttpConnection(made.answer, LoopTimer(), made.connections, made.guard),
        "127.0.0.1",
        0,
    )
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    for connection in made.connections:
        connection.abort()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Serve a site until the test ends."""
    async with served() as made:
        yield made


class Received:
    """Bytes that look like a socket to the standard library's parser."""

    def __init__(self, data: bytes) -> None:
        self._file = BytesIO(data)

    def makefile(self, _mode: str) -> BytesIO:
        return self._file


def answers(data: bytes, *methods: str) -> list[tuple[int, bytes]]:
    """Return status and body of each answer, after checking that there are no others."""
    found = []
    for method in methods:
        answer = http.client.HTTPResponse(Received(data), method=method)  # type: ignore[arg-type]
        answer.begin()
        body = answer.read() if answer.status >= 200 else b""
        found.append((answer.status, body))
        data = data[data.index(b"\r\n\r\n") + 4 + len(body) :]
    assert data == b""
    return found


async def test_a_request_as_it_was_sent(site: Site) -> None:
    received = await site.ask(
        b"POST /a%20b?x=1&y=%2B&x=2 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nx-one: 2\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    )
    assert answers(received, "POST") == [(200, b"/a%20b")]
    (request,) = site.requests
    assert (request.method, request.path, request.body) == ("POST", "/a%20b", b"onetwo")
    assert request.query == {"x": "1", "y": "+"}
    assert (request.headers["x-one"], request.port) == ("1, 2", site.port)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_requests_in_pieces_are_answered_in_order(site: Site, size: int) -> None:
    sent = PUT + GET.replace(b"/a", b"/b") + GET.replace(b"Host", b"Connection: close\r\nHost")
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    received = await site.ask(*pieces)
    assert answers(received, "PUT", "GET", "GET") == [(200, b"/a"), (200, b"/b"), (200, b"/a")]
    assert [request.body for request in site.requests] == [b"body", b"", b""]


async def test_a_body_in_parts_comes_whole_and_the_next_answer_behind_it(site: Site) -> None:
    parts = [b"part %d " % number * 1000 for number in range(2000)]

    async def respond(request: Request) -> Response:
        return Response(b"first ", rest=[*parts, b""]) if request.path == "/b" else Response(b"a")

    site.respond = respond
    large = GET.replace(b"/a", b"/b")
    sent = (
        large + large.replace(b"GET", b"HEAD") + GET.replace(b"Host", b"Connection: close\r\nHost")
    )
    received = await site.ask(sent)
    body = b"first " + b"".join(parts)
    assert answers(received, "GET", "HEAD", "GET") == [(200, body), (200, b""), (200, b"a")]


async def test_answers_without_a_body(site: Site) -> None:
    async def respond(request: Request) -> Response:
        return Response(b"page") if request.method == "HEAD" else Response(status=204)

    site.respond = respond
    received = await site.ask(GET.replace(b"GET", b"HEAD"), PUT, eof=True)
    assert answers(received, "HEAD", "PUT") == [(200, b""), (204, b"")]
    assert received.count(b"Content-Length: 4") == 1
    assert received.count(b"Content-Length") == 1


async def test_an_empty_answer_has_no_type(site: Site) -> None:
    async def respond(request: Request) -> Response:
        return Response()

    site.respond = respond
    received = await site.ask(PUT, eof=True)
    assert answers(received, "PUT") == [(200, b"")]
    assert b"Content-Length: 0" in received
    assert b"content-type" not in received.lower()


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("junk", [b"{}", b"[1]", b'"a"', b"\x00", b"\x16\x03"])
async def test_a_body_whose_length_was_not_told_ends_the_connection(
    site: Site, junk: bytes, is_late: bool
) -> None:
    """The next request is not awaited, which a client would lose."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    delete = GET.replace(b"GET", b"DELETE")
    if is_late:
        writer.write(delete)
        head = await reader.readuntil(b"/a")
        writer.write(junk)
        ((status, body),) = answers(await reader.read(), "GET")
        assert (status, b"Content-Length" in body) == (400, True)
        assert b"Connection: close" not in head
    else:
        writer.write(delete + junk)
        received = await reader.read()
        assert answers(received, "DELETE") == [(200, b"/a")]
        assert b"Connection: close" in received
    writer.close()
    await writer.wait_closed()


async def test_old_clients_and_those_that_speak_to_a_proxy(site: Site) -> None:
    assert answers(await site.ask(b"GET /old HTTP/1.0\r\n\r\n"), "GET") == [(200, b"/old")]
    for target, path in (("http://h/p", b"/p"), ("http://h", b"/")):
        sent = f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
        assert answers(await site.ask(sent, eof=True), "GET") == [(200, path)]


async def test_a_client_that_asks_before_it_sends_its_body(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(PUT.replace(b"body", b"").replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
    writer.write(b"body")
    writer.write_eof()
    assert answers(await reader.read(), "PUT") == [(200, b"/a")]
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\n\r\n", 400),
        (PUT.replace(b"4", b"x"), 400),
        (PUT.replace(b"body", b"b"), 400),
        (GET[:-2].replace(b"/a", b"/" + b"a" * LIMITS.head_bytes), 431),
        (PUT.replace(b"4", b"%d" % (LIMITS.body_bytes + 1)) + b"x" * (LIMITS.body_bytes + 1), 413),
        (PUT.replace(b"PUT", b"HEAD").replace(b"4", b"x"), 400),
    ],
)
async def test_what_is_refused(site: Site, sent: bytes, status: int) -> None:
    received = await site.ask(sent, eof=True)
    ((refused, body),) = answers(received, "GET")
    assert refused == status
    assert json.loads(body)["reason"]
    assert b"\r\nConnection: close\r\n" in received
    assert site.requests == []


async def test_what_follows_an_answer_is_refused_by_itself(site: Site) -> None:
    received = await site.ask(GET.replace(b"GET", b"HEAD") + b"nonsense\r\n\r\n", eof=True)
    (head, _), (refused, body) = answers(received, "HEAD", "GET")
    assert (head, refused) == (200, 400)
    assert json.loads(body)["reason"]


async def test_a_client_that_was_refused_may_finish_sending(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(
        PUT.replace(b"4", b"%d" % (2 * LIMITS.body_bytes)) + b"x" * (LIMITS.body_bytes + 1)
    )
    received = await reader.read()
    assert answers(received, "PUT")[0][0] == 413
    writer.write(b"x" * (LIMITS.body_bytes - 1))
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("sent", "limit"),
    [(b"", "idle"), (GET, "idle"), (GET[:10], "head"), (PUT[:-6], "head"), (PUT[:-1], "body")],
)
async def test_patience_ends(sent: bytes, limit: str) -> None:
    async with served(**{f"{limit}_seconds": 0.05}) as site:
        # Data present when the site accepts the connection is handled before its timeout.
        plain = socket.create_connection(("127.0.0.1", site.port))
        plain.sendall(sent)
        reader, writer = await asyncio.open_connection(sock=plain)
        received = await reader.read()
        writer.close()
        if limit == "idle":
            assert answers(received, *["GET"] * bool(sent)) == [(200, b"/a")] * bool(sent)
        else:
            ((status, _),) = answers(received, "GET")
            assert status == 408


@pytest.mark.parametrize("sent", [GET, PUT], ids=["headers", "body"])
async def test_bytes_that_trickle_in_do_not_extend_the_time(sent: bytes) -> None:
    async with served(head_seconds=0.2, body_seconds=0.2) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        begin = sent.partition(b"\r\n\r\n")[0] + b"\r\nX: " if sent is GET else sent[:-4]
        writer.write(begin.replace(b"4", b"1000000"))
        answer = asyncio.create_task(reader.readline())
        while not answer.done():
            writer.write(b"x")
            await asyncio.wait((answer,), timeout=0.01)
        assert b" 408 " in await answer
        assert site.requests == []
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_who_does_not_read_an_answer_is_disconnected() -> None:
    async def respond(request: Request) -> Response:
        return Response(bytes(32 << 20))

    async with served(slow_reader_seconds=0.2) as site:
        site.respond = respond
        _, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(GET)
        await until(lambda: site.guard.reached.counts["slow_reader"], "it is disconnected")
        await until(lambda: not site.connections, "nothing is left of it")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_bodies_that_are_never_complete_have_a_limit_together() -> None:
    async with served(receive_mb=1) as site:
        clients = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(PUT.replace(b"4", b"1000000") + bytes(400_000))
            clients.append((reader, writer))
            await until(
                lambda: site.guard.bodies.used >= 400_000 * min(2, len(clients)), "it was received"
            )
        with contextlib.suppress(ConnectionError):
            assert await clients[0][0].read() == b""
        await site.ask(PUT.replace(b"Host", b"Connection: close\r\nHost"))
        for _, writer in clients:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_too_many_connections_of_an_address_take_the_place_of_its_oldest() -> None:
    async with served(connections_of_address=2) as site:
        clients = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(3)]
        with contextlib.suppress(ConnectionError):
            assert await clients[0][0].read() == b""
        for reader, writer in clients[1:]:
            writer.write(GET)
            assert b" 200 " in await reader.readline()
        for _, writer in clients:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


class Waiting:
    """A connection of a client."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_ended = False

    def give_up(self) -> None:
        self.is_ended = True


async def test_connections_of_one_ipv6_network_count_together() -> None:
    clock = LoopClock()
    guard = HttpGuard(HttpLimits(connections_of_address=1), clock, ReachedLimits(clock))
    hosts = ("2001:db8::1", "2001:db8:0:1::1", "2001:db8::2")
    clients = [Waiting(host) for host in hosts]
    assert all(guard.enter(client, client.address) for client in clients)
    assert [client.is_ended for client in clients] == [True, False, False]


HEAD = b"Host: h\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\nContent-Length: 50\r\n\r\nbody",
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length: +4\r\n\r\nbody" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length: 0x4\r\n\r\nbody" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length : 4\r\n\r\nbody" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Content-Length:\r\n 4\r\n\r\nbody" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n-1\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n0x4\r\nbody\r\n0\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n" + b"f" * 21 + b"\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n4\r\nbodyXX0\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n4;a\nb\r\nbody\r\n0\r\n\r\n" + HIDDEN,
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"\r\n4;" + b"a" * 20_000,
        b"GET /a HTTP/1.1\nHost: h\n\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\nHost: h\nX: y\r\n\r\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\n" + HEAD + b"X: a\r\n b\r\n\r\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\n" + HEAD + b"X: a\rb\r\n\r\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\n" + HEAD + b"X: a\0b\r\n\r\n" + HIDDEN,
        b"GET /a\0b HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET /a\rb HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET /a\xff HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET a HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET ftp://h/a HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"CONNECT h:80 HTTP/1.1\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n" + HIDDEN,
        b"GET /a HTTP/2.0\r\n" + HEAD + b"\r\n" + HIDDEN,
        b"GET /a HTTP/1.1\r\n" + HEAD + b"a:\r\n" * 200 + b"\r\n" + HIDDEN,
        b"PUT /a HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999999\r\n\r\n" + HIDDEN,
    ],
)
async def test_what_programs_could_take_for_two_requests_is_refused(
    site: Site, sent: bytes
) -> None:
    received = await site.ask(sent, eof=True)
    ((status, _),) = answers(received, "GET")
    assert status in (400, 413, 431, 501, 505), received
    assert site.requests == []


async def test_what_is_a_body_is_no_request(site: Site) -> None:
    sent = PUT.replace(b"4", b"%d" % len(HIDDEN)).replace(b"body", HIDDEN)
    extended = b"PUT /b HTTP/1.1\r\n" + CHUNKED + b"\r\n4;a=b\r\nbody\r\n0\r\nX: y\r\n\r\n"
    last = GET.replace(b"/a", b"http://other/c").replace(b"Host", b"Connection: close\r\nHost")
    received = await site.ask(sent + extended + last)
    assert [body for _, body in answers(received, "PUT", "PUT", "GET")] == [b"/a", b"/b", b"/c"]
    assert [request.body for request in site.requests] == [HIDDEN, b"body", b""]


async def test_a_client_that_leaves_does_not_stop_its_request(site: Site) -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def respond(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        done.set()
        return Response()

    site.respond = respond
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(GET)
    await begun.wait()
    (connection,) = site.connections
    task = connection.task
    assert task is not None
    connection.connection_lost(None)
    assert site.connections == {connection}
    connection._transport.close()
    go_on.set()
    await task
    assert done.is_set()
    assert site.connections == set()
    writer.close()
    await writer.wait_closed()


async def test_a_handler_can_tell_that_its_client_has_left(site: Site) -> None:
    begun, noticed = asyncio.Event(), asyncio.Event()

    async def respond(request: Request) -> Response:
        assert not request.is_given_up()
        begun.set()
        await until(request.is_given_up, "the client has left")
        noticed.set()
        return Response()

    site.respond = respond
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(GET)
    await begun.wait()
    writer.close()
    await noticed.wait()
    await writer.wait_closed()


async def test_a_client_is_read_from_while_it_waits_up_to_its_next_request(site: Site) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def respond(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        return Response()

    site.respond = respond
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(GET)
    await begun.wait()
    (connection,) = site.connections
    assert connection._transport.is_reading()
    writer.write(GET)
    await until(lambda: not connection._transport.is_reading(), "the client is not read from")
    go_on.set()
    for _ in range(2):
        await reader.readuntil(b"\r\n\r\n")
    assert connection._transport.is_reading()
    writer.close()
    await writer.wait_closed()


async def test_a_stop_lets_the_present_request_end(site: Site) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def respond(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        return Response(b"end")

    site.respond = respond
    asked = asyncio.create_task(site.ask(GET + GET))
    await begun.wait()
    idle = asyncio.create_task(site.ask(b""))
    await until(lambda: len(site.connections) == 2, "both clients are connected")
    for connection in list(site.connections):
        connection.stop()
    assert await idle == b""
    go_on.set()
    assert answers(await asked, "GET") == [(200, b"end")]
    assert len(site.requests) == 1


@on_both_loops
async def test_answers_wait_for_a_client_that_does_not_read() -> None:
    count, body = 50, bytes(1 << 20)  # more than the system buffers

    async def respond(request: Request) -> Response:
        return Response(body)

    async with served() as site:
        site.respond = respond
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(GET * count)
        await until(lambda: site.requests, "a request has come")
        (connection,) = site.connections
        await until(
            lambda: connection._full or len(site.requests) == count,
            "the port waits for its client, or has answered everything",
        )
        assert len(site.requests) < count
        for _ in range(count):
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body
        assert len(site.requests) == count
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_does_not_read_is_not_answered_further(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(GET)
    await reader.readuntil(b"/a")
    (connection,) = site.connections
    connection.pause_writing()
    connection.data_received(GET)
    assert connection.task is None
    connection.resume_writing()
    assert connection.task is not None
    await reader.readuntil(b"/a")
    assert len(site.requests) == 2
    writer.close()
    await writer.wait_closed()
