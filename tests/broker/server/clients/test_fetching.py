"""Fetching documents over HTTP: limits of size and time, and the addresses permitted."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from certificates import Authority
from fakes.http_servers import serve
from magnetar_broker.server.clients.fetching import LARGEST, Fetcher


class Server:
    """A server that answers each path in its own way."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[str] = []
        self.go_on = Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                if self.path == "/slow":
                    server.go_on.wait()
                status, headers, body = ANSWERS.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._close = serve(self._server)

    def close(self) -> None:
        self.go_on.set()
        self._close()


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/document": (200, {}, b"{}"),
    "/slow": (200, {}, b"late"),
    "/large": (200, {}, b"x" * LARGEST),
    "/too-large": (200, {}, b"x" * (LARGEST + 1)),
    "/moved": (302, {"Location": "/document"}, b""),
    "/around": (302, {"Location": "/around"}, b""),
    "/to-https": (302, {"Location": "https://127.0.0.1:1/"}, b""),
    "/to-file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/to-ftp": (302, {"Location": "ftp://127.0.0.1/"}, b""),
    "/error": (500, {}, b"secret page"),
}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


async def test_documents_up_to_the_limit(server: Server) -> None:
    fetcher = Fetcher(60, 60)
    assert await fetcher.fetch(f"{server.url}/document") == b"{}"
    assert await fetcher.fetch(f"{server.url}/moved") == b"{}"
    assert len(await fetcher.fetch(f"{server.url}/large")) == LARGEST


@pytest.mark.parametrize(
    "path", ["/too-large", "/around", "/to-https", "/to-file", "/to-ftp", "/error", "/none"]
)
async def test_what_is_no_document_is_an_error(server: Server, path: str) -> None:
    with pytest.raises(OSError, match=r"127\.0\.0\.1") as refused:
        await Fetcher(60, 60).fetch(server.url + path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:,x", "nonsense"])
async def test_nothing_but_http_is_read(url: str) -> None:
    with pytest.raises(OSError):
        await Fetcher(60, 60).fetch(url)


async def test_those_who_ask_together_are_served_by_one_fetch(server: Server) -> None:
    fetcher = Fetcher(60, 60)
    asked = [asyncio.ensure_future(fetcher.fetch(f"{server.url}/slow")) for _ in range(5)]
    while not server.requests:
        await asyncio.sleep(0)
    server.go_on.set()
    assert await asyncio.gather(*asked) == [b"late"] * 5
    assert server.requests == ["/slow"]
    await fetcher.fetch(f"{server.url}/slow")
    assert len(server.requests) == 2


async def test_a_server_that_does_not_answer_is_given_up(server: Server) -> None:
    with pytest.raises(OSError, match=r"did not answer|timed out"):
        await Fetcher(0.05, 0.05).fetch(f"{server.url}/slow")


async def test_a_port_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError):
        await Fetcher(60, 60).fetch(f"http://127.0.0.1:{port}/")


async def test_certificates_of_servers_are_verified(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = Server(context)
    try:
        url = f"{server.url}/document"
        assert await Fetcher(60, 60, authority.trust).fetch(url) == b"{}"
        with pytest.raises(OSError, match="certificate verify failed"):
            await Fetcher(60, 60).fetch(url)
        with pytest.raises(OSError, match="certificate verify failed"):  # another name
            await Fetcher(60, 60, authority.trust).fetch(url.replace("127.0.0.1", "localhost"))
    finally:
        server.close()
