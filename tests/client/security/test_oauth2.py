"""Tokens of an issuer, asked over HTTP as official clients do."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from fakes.http_servers import serve
from magnetar.auth import OAuth2
from magnetar.base.errors import CredentialsError, CredentialsUnavailable

SECRET = "the-secret-of-the-client"
KEY = {"type": "client_credentials", "client_id": "me", "client_secret": SECRET}


class Issuer:
    """Answers as it is told to, and remembers the forms that it was sent."""

    def __init__(self) -> None:
        self.forms: list[dict[str, list[str]]] = []
        self.status = 200
        self.answer: Any = None
        self.endpoint: str | None = None
        self.lock = threading.Lock()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.path == "/.well-known/openid-configuration"
                self._send(200, {"token_endpoint": issuer.endpoint or f"{issuer.url}/token"})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with issuer.lock:
                    issuer.forms.append(parse_qs(body.decode()))
                    number = len(issuer.forms)
                answer = issuer.answer
                if answer is None:
                    answer = {"access_token": f"token-{number}", "expires_in": 100}
                self._send(issuer.status, answer)

            def _send(self, status: int, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    close = serve(made.server)
    yield made
    close()


def of(issuer: Issuer, **options: Any) -> OAuth2:
    return OAuth2(issuer.url, client_id="me", client_secret=SECRET, **options)


async def test_the_form_and_the_forms_of_a_key(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps(KEY))
    encoded = b64encode(json.dumps(KEY).encode()).decode()
    for key in (file, str(file), f"file://{file}", f"data:application/json;base64,{encoded}"):
        auth = OAuth2(f"{issuer.url}/", key, audience="urn:here", scope="a b")
        assert await auth.shown() == f"token-{len(issuer.forms)}".encode()
    assert issuer.forms == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["me"],
            "client_secret": [SECRET],
            "audience": ["urn:here"],
            "scope": ["a b"],
        }
    ] * 4  # fmt: skip


def test_a_token_is_used_until_little_of_its_life_is_left(issuer: Issuer) -> None:
    now_s = 0.0
    auth = of(issuer, now_s=lambda: now_s)
    assert auth.headers() == {"Authorization": "Bearer token-1"}
    now_s = 89.0
    assert auth.token() == "token-1"
    now_s = 90.0
    assert auth.token() == "token-2"
    now_s = 91.0
    assert auth.token(renewed=True) == "token-3", "the broker does not accept the former any more"
    assert issuer.forms[0].keys() == {"grant_type", "client_id", "client_secret"}


def test_many_that_ask_at_once_get_one_token(issuer: Issuer) -> None:
    auth = of(issuer)
    with ThreadPoolExecutor(20) as threads:
        found = set(threads.map(lambda _: auth.token(), range(20)))
    assert found == {"token-1"}


@pytest.mark.parametrize(
    ("status", "answer", "kind", "why"),
    [
        (401, {"error": "invalid_client"}, CredentialsError, "invalid_client"),
        (400, {"error": SECRET * 9}, CredentialsError, "no reason given"),
        (302, {}, CredentialsError, "redirects"),
        (500, {}, CredentialsUnavailable, "status 500"),
        (429, {}, CredentialsUnavailable, "status 429"),
        (200, {"access_token": ""}, CredentialsError, "no access_token"),
        (200, {"access_token": "a b"}, CredentialsError, "no access_token"),
        (200, {"access_token": "a", "expires_in": 0}, CredentialsError, "expires_in"),
        (200, ["access_token"], CredentialsError, "JSON object"),
        (200, {"access_token": "x" * (2 << 20)}, CredentialsUnavailable, "larger than"),
    ],
)
async def test_refusals(
    issuer: Issuer, status: int, answer: Any, kind: type[CredentialsError], why: str
) -> None:
    issuer.status, issuer.answer = status, answer
    with pytest.raises(CredentialsError) as caught:
        await of(issuer).shown()
    assert type(caught.value) is kind
    assert why in str(caught.value) and SECRET not in str(caught.value)


def test_a_secret_goes_by_tls_or_stays_on_this_machine(issuer: Issuer) -> None:
    with pytest.raises(CredentialsError, match="must be an https: URL"):
        OAuth2("http://issuer.example", client_id="me", client_secret=SECRET)
    issuer.endpoint = "http://issuer.example/token"
    with pytest.raises(CredentialsError, match="must be an https: URL"):
        of(issuer).token()
    assert issuer.forms == []


def test_an_issuer_that_is_not_there() -> None:
    auth = OAuth2("http://127.0.0.1:1", client_id="me", client_secret=SECRET)
    with pytest.raises(CredentialsUnavailable, match="no answer") as caught:
        auth.token()
    assert SECRET not in repr(auth) + str(caught.value)


@pytest.mark.parametrize("content", ["[]", "{", '{"client_id": "me"}', '{"client_id": 1}'])
def test_a_key_that_is_none(content: str, issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(content)
    with pytest.raises(CredentialsError, match="must have a JSON object with client_id"):
        OAuth2(issuer.url, file).token()
    with pytest.raises(CredentialsError, match="No such file"):
        OAuth2(issuer.url, tmp_path / "missing").token()
    for options in ({}, {"key_file": file, "client_id": "me", "client_secret": SECRET}):
        with pytest.raises(CredentialsError, match="either"):
            OAuth2(issuer.url, **options)  # type: ignore[arg-type]
