"""A server of S3 that answers what a test wants: what no local server does."""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from fakes.http_servers import serve


class Answer(NamedTuple):
    """An answer to one request."""

    status: int
    code: str = ""
    """The code of an error, in a body as S3 has it."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cut: bool = False
    """Whether the connection is closed before the last byte of the body."""
    lost: bool = False
    """Whether the connection is closed without an answer."""


KEY = re.compile("Credential=([^/]*)/")
LOST = Answer(0, lost=True)
SECRET_IN_ANSWER = "AKIDSECRET"


class Scripted:
    """The answers to come, and the requests that were made."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.answers: deque[Answer] = deque()
        self.otherwise = Answer(500, "InternalError")
        """The answer to all requests behind the end of the script."""
        self.requests: list[str] = []
        self.keys: list[str] = []
        """The access keys with which requests were signed."""


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Run a server that gives the answers of a script."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.keys += KEY.findall(self.headers.get("Authorization") or "")
            script.requests.append(f"{self.command} {self.path}")
            given = script.answers.popleft() if script.answers else script.otherwise
            if given.lost:
                self.close_connection = True
                return
            body = given.body
            if given.code:
                body = (
                    f"<?xml version='1.0'?>\n<Error><Code>{given.code}</Code>"
                    f"<AWSAccessKeyId>{SECRET_IN_ANSWER}</AWSAccessKeyId></Error>"
                ).encode()
            self.send_response(given.status)
            for name, value in given.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            with suppress(ConnectionError):  # a client has other requests in flight, and gives up
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body[:-1] if given.cut else body)
            self.close_connection = self.close_connection or given.cut

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            """Do not write requests to the output of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script = Scripted(f"http://127.0.0.1:{server.server_address[1]}")
    close = serve(server)
    try:
        yield script
    finally:
        close()
