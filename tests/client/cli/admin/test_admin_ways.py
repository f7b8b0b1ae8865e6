"""The ways to a broker: TLS in front of it, and redirects.

The certificate in `localhost.pem` is for tests only, and is valid for a hundred years.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from fakes.http_servers import serve
from magnetar.admin.client import AdminClient
from magnetar.admin.settings import AdminSettings
from magnetar.cli import main
from running_broker import RunningBroker

CERTIFICATE = str(Path(__file__).with_name("localhost.pem"))
LISTS = ("tenants", "list")


def asked(url: str, *flags: str) -> tuple[int, str]:
    words = ["admin", "--admin-url", url, *flags, *LISTS]
    result = CliRunner().invoke(main, words, prog_name="magnetar")
    return result.exit_code, result.output


def with_tls(plain: socket.socket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context.wrap_socket(plain, server_side=True)


@contextmanager
def redirecting(target: str, tls: bool = False) -> Iterator[int]:
    """A server that sends every request on to `target`; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(307)
            self.send_header("Location", f"{target}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Handler, tls) as port:
        yield port


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: bool = False) -> Iterator[int]:
    """A server of requests; yields its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls:
        server.socket = with_tls(server.socket)
    close = serve(server)
    try:
        yield server.server_port
    finally:
        close()


@pytest.fixture
def secured(broker: RunningBroker) -> Iterator[int]:
    """The port of a proxy that speaks TLS, and passes on one connection to the broker."""
    where = urlsplit(broker.http_url)

    def serve(server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
            with (
                with_tls(connection) as client,
                socket.create_connection((where.hostname or "", where.port or 0)) as upstream,
            ):
                request = client.recv(1 << 16)
                upstream.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                while answer := upstream.recv(1 << 16):
                    client.sendall(answer)
        except OSError:
            pass  # the client refuses the certificate

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_certificate_that_is_trusted(secured: int) -> None:
    exit_code, output = asked(f"https://localhost:{secured}", "--tls-trust-cert-path", CERTIFICATE)
    assert (exit_code, "public" in output) == (0, True), output


@pytest.mark.parametrize(
    "flags",
    [
        ("--tls-allow-insecure",),
        ("--tls-trust-cert-path", CERTIFICATE, "--tls-disable-hostname-verification"),
    ],
)
def test_the_name_in_a_certificate_is_not_checked_on_demand(
    secured: int, flags: tuple[str, ...]
) -> None:
    exit_code, output = asked(f"https://127.0.0.1:{secured}", *flags)
    assert (exit_code, "public" in output) == (0, True), output


@pytest.mark.parametrize(
    ("host", "flags"), [("localhost", ()), ("127.0.0.1", ("--tls-trust-cert-path", CERTIFICATE))]
)
def test_a_certificate_that_is_not_trusted(secured: int, host: str, flags: tuple[str, ...]) -> None:
    exit_code, output = asked(f"https://{host}:{secured}", *flags)
    assert exit_code == 3
    assert "CERTIFICATE_VERIFY_FAILED" in output


def test_certificates_that_are_not_there() -> None:
    exit_code, output = asked("https://localhost:1", "--tls-trust-cert-path", "/does/not/exist")
    assert exit_code in (2, 3)
    assert "Traceback" not in output


def test_tls_with_a_port_without_it(broker: RunningBroker) -> None:
    exit_code, output = asked(f"https://127.0.0.1:{broker.http_port}")
    assert (exit_code, "TLS with https://" in output) == (3, True)


def test_a_redirect_to_the_broker(broker: RunningBroker) -> None:
    with redirecting(broker.http_url) as port:
        exit_code, output = asked(f"http://127.0.0.1:{port}")
    assert (exit_code, "public" in output) == (0, True)


def test_a_redirected_change_reaches_the_broker(broker: RunningBroker) -> None:
    tenant = "/admin/v2/tenants/redirected"
    roles = {"adminRoles": ["one"], "allowedClusters": ["standalone"]}
    with (
        redirecting(broker.http_url) as port,
        AdminClient(AdminSettings(f"http://127.0.0.1:{port}")) as admin,
    ):
        admin.put(tenant, roles)
        admin.post(tenant, roles | {"adminRoles": ["two"]})
        assert admin.get(tenant)["adminRoles"] == ["two"]
        admin.delete(tenant)
        assert "redirected" not in admin.get("/admin/v2/tenants")


@contextmanager
def demanding_login() -> Iterator[tuple[int, list[str | None]]]:
    """A server that refuses every request; yields its port and the logins that it got."""
    got: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.headers["Authorization"])
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Handler) as port:
        yield port, got


@pytest.mark.parametrize(
    ("host", "others", "login"),
    [
        ("127.0.0.1", "", "Bearer T"),
        ("localhost", "", None),
        ("localhost", "localhost:1", "Bearer T"),
    ],
)
def test_the_login_goes_only_to_hosts_that_were_given(
    host: str, others: str, login: str | None
) -> None:
    flags = ("--auth-plugin", "token", "--auth-params", "token:T")
    with demanding_login() as (end, got), redirecting(f"http://{host}:{end}") as port:
        given = ",".join(filter(None, (f"127.0.0.1:{port}", others)))
        exit_code, output = asked(f"http://{given}", *flags)
    assert (exit_code, got) == (1, [login])
    assert ("name it in --admin-url" in output) == (login is None)


def test_redirects_without_an_end() -> None:
    with redirecting("") as port:
        exit_code, output = asked(f"http://127.0.0.1:{port}")
    assert (exit_code, "redirects again and again" in output) == (3, True)


def test_no_redirect_leads_out_of_tls(broker: RunningBroker) -> None:
    with redirecting(broker.http_url, tls=True) as port:
        flags = ("--tls-trust-cert-path", CERTIFICATE)
        exit_code, output = asked(f"https://localhost:{port}", *flags)
    assert exit_code == 3
    assert f"redirects to {broker.http_url}, which is not followed" in output
