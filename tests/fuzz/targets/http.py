"""A client's HTTP connection that is sent anything: whole answers or a closed connection, the same
however the bytes are split; and no defect of a handler.

Input: how to split (its size first), then what the client sends.
"""

import asyncio
import atexit
import re
from collections.abc import Iterator
from typing import Any, Final

import h11

from fakes.rest_world import handler_of
from fakes.sessions import SessionWorld
from fuzz.choices import Choices
from fuzz.defects import DEFECTS
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.http.connection import HttpConnection
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.http.messages import Request, Response, text_response
from magnetar_broker.server.pages.audit import AuditLog
from magnetar_broker.server.processes.http_server import HttpServer, sole_context
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.standalone import Standalone

LONGEST: Final = 1024
MOST_REQUESTS: Final = 64
LOOP: Final = asyncio.new_event_loop()
atexit.register(LOOP.close)
DATE: Final = re.compile(rb"\r\nDate: [^\r]*", re.IGNORECASE)
for route in ROUTES.routes:
    handler_of(route)  # the requests run on no loop that could wait for the import


class Wire(asyncio.Transport):
    """A socket that remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        assert not self.closed, "written behind the end"
        self.written += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 8080) if name == "sockname" else default

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Nothing is sent."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def run(data: bytes) -> None:
    DEFECTS.forget()
    choices = Choices(data)
    splits = list(choices.data())
    stream = choices.rest()
    whole = LOOP.run_until_complete(talk(stream, []))
    check_answers(*whole)
    split = LOOP.run_until_complete(talk(stream, splits))
    # The text of a refusal may depend on how much of the request was there.
    assert len(split[1]) == len(whole[1]), "other requests are read if the bytes are split"
    check_answers(*split)
    DEFECTS.raise_found()


async def talk(stream: bytes, splits: list[int]) -> tuple[bytes, list[str]]:
    """All that is answered to the stream, sent in pieces of these sizes, in turn; and the methods
    that were asked for."""
    methods: list[str] = []
    world = SessionWorld()
    halves = Standalone(world.directory, world.broker)
    context = sole_context(halves, JournalStats(), LoopTimer())
    audit = AuditLog(world.clock, 1)
    guard = HttpGuard(HttpLimits(), world.clock, ReachedLimits(world.clock))
    server = HttpServer(context, LoopTimer(), Descriptors(), audit, ROUTES, guard=guard)

    async def answer(request: Request) -> Response:
        methods.append(request.method)
        if request.path.startswith("/metrics"):
            return text_response("needs a thread")
        return world.do(server.answer(request))

    connections: set[HttpConnection] = set()
    connection, wire = HttpConnection(answer, LoopTimer(), connections, guard), Wire()
    connection.connection_made(wire)
    at = turn = 0
    while at < len(stream) and not wire.closed:
        size = max(1, splits[turn % len(splits)]) if splits else len(stream)
        await answered(connection, wire)
        connection.data_received(stream[at : at + size])
        at, turn = at + size, turn + 1
    await answered(connection, wire)
    if not wire.closed:
        connection.eof_received()
        await answered(connection, wire)
    wire.closed = True
    connection.connection_lost(None)
    assert not connections, "the connection is kept"
    return DATE.sub(b"", wire.written), methods


async def answered(connection: HttpConnection, wire: Wire) -> None:
    """Until the connection reads again."""
    for _ in range(MOST_REQUESTS):
        if connection.task is None:
            return
        await connection.task
    raise AssertionError("more answers than there can be requests")


def check_answers(written: bytes, methods: list[str]) -> None:
    """A client that asked so can read every byte of the answers."""
    for method in methods:
        written = behind_answer(written, method)
    if written:  # a refusal of what was not even a request; at most one, and perhaps of a HEAD
        assert b"" in (written.partition(b"\r\n\r\n")[2], behind_answer(written, "GET"))


def behind_answer(written: bytes, method: str) -> bytes:
    """What stands behind the first answer."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(written)
    client.receive_data(b"")
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.InformationalResponse | h11.Response | h11.Data), event
    return client.trailing_data[0]


def seeds() -> Iterator[bytes]:
    def request(method: str, path: str, body: str = "", *headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: h", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()

    topic = "persistent/public/default/t"
    create = request("PUT", f"/admin/v2/{topic}/partitions", "3")
    ask = request("GET", f"/admin/v2/{topic}/partitions?checkAllowAutoCreation=true")
    yield b"\x02\x07\x30" + create + ask
    yield b"\x01\x01" + request("GET", "/admin/v2/brokers/health", "", "Connection: close") + ask
    yield b"\x00" + request("GET", "/admin/v2/namespaces/public/default/topics?mode=ALL")
    yield b"\x00" + request("GET", "/admin/v2/persistent/public/default")
    yield b"\x00" + request("GET", f"http://h/lookup/v2/topic/{topic}+%2F%C3%A9?authoritative=true")
    yield b"\x00" + request("PUT", f"/admin/v2/{topic}x/partitions", '{"partitions": 2}')
    yield b"\x01\x03" + request("PUT", "/", "x" * 9, "Expect: 100-continue")
    chunks = "2\r\nab\r\n0\r\n\r\n"
    yield b"\x00" + request("POST", "/", "", "Transfer-Encoding: chunked") + chunks.encode() + ask
    yield b"\x00HEAD /metrics HTTP/1.0\r\n\r\n"
