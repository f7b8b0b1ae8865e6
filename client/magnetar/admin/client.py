"""A client of a broker's admin API: one request, one answer.

with AdminClient(AdminSettings("http://localhost:8080")) as admin:
    admin.put("/admin/v2/tenants/shop", {"adminRoles": [], "allowedClusters": ["standalone"]})
    names = admin.get("/admin/v2/tenants")
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, Self
from urllib.parse import urlencode, urljoin, urlsplit

from magnetar.admin.settings import AdminSettings, authentication_of
from magnetar.base.base_errors import CredentialsError, CredentialsUnavailable
from magnetar.security.client_conf import SettingsError
from magnetar.security.tls import Tls, TlsContexts

CONNECT_S: Final = 10.0
REDIRECTS: Final = 5
SCHEMES: Final = {"http": 80, "https": 443}


class AdminError(Exception):
    """The base class of the errors of a request."""


class Refused(AdminError):
    """The broker refused the request; `status` is the HTTP status code."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class NoAnswer(AdminError):
    """The broker was not reached, or did not answer in time: the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP response of the broker."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    @property
    def value(self) -> Any:
        """The body as JSON, or else its text; None if it is empty."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.text


class AdminClient:
    """Keeps one connection, and reopens it when needed; at most one thread may use it at a time."""

    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._auth = authentication_of(settings)
        self._addresses = list(_addresses(settings.url))
        tls = tls_of(settings).with_certificate(self._auth.certificate if self._auth else None)
        if self._addresses[0].startswith("https:"):
            tls.warn()
        self._contexts = TlsContexts(tls)
        self._connection: HTTPConnection | None = None
        self._base = self._addresses[0]
        """The address that the connection leads to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **query: str) -> Any:
        """Return the value at a path."""
        return self.ask("GET", path, query=query).value

    def put(self, path: str, body: object = None, **query: str) -> Any:
        """Create the object that the path names."""
        return self.ask("PUT", path, body, query).value

    def post(self, path: str, body: object = None, **query: str) -> Any:
        """Change the object that the path names."""
        return self.ask("POST", path, body, query).value

    def delete(self, path: str, **query: str) -> Any:
        """Delete the object that the path names."""
        return self.ask("DELETE", path, query=query).value

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str | list[str]] | None = None,
        media_type: str = "application/json",
    ) -> Answer:
        """Send a request; a body other than None goes as JSON. Raises AdminError."""
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        content = None if body is None else json.dumps(body).encode()
        if method != "GET":  # promise: a change goes over a fresh connection
            self.close()
        for _ in range(REDIRECTS + 1):
            response, found = self._exchange(method, target, content, media_type)
            location = response.getheader("Location")
            if response.status in (301, 302, 307, 308) and location:
                target = self._follow(location)
                continue
            answer = Answer(response.status, dict(response.getheaders()), found)
            if response.status >= 300:
                reason = _reason(answer, response.reason)
                if response.status == 401 and self._auth is not None and not self._is_given():
                    reason += (
                        f"\n{self._base} was reached by a redirect and got no login: name it in "
                        "--admin-url if it may have it"
                    )
                raise Refused(response.status, reason)
            return answer
        raise NoAnswer(f"{self._base} redirects again and again: is its address right?")

    def _exchange(
        self, method: str, target: str, content: bytes | None, media_type: str
    ) -> tuple[HTTPResponse, bytes]:
        """Send one request, and return the broker's answer.

        The broker may close a connection that is idle. Then a GET is sent again; anything else
        could be done twice, so `ask` has given it a new connection from the start.
        """
        reused = self._connection is not None
        connection = self._connected()
        headers = {"Accept": "application/json"}
        if self._is_given():
            headers |= self._credentials()
        if content is not None:
            headers["Content-Type"] = media_type
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            return response, response.read()
        except (HTTPException, OSError) as error:
            self.close()
            # promise: a read is repeated when its idle connection was closed
            if reused and method == "GET" and isinstance(error, ConnectionError):
                return self._exchange(method, target, content, media_type)
            raise self._no_answer(error) from error

    def _credentials(self) -> dict[str, str]:
        try:
            return {} if self._auth is None else self._auth.headers()
        except CredentialsUnavailable as error:
            raise NoAnswer(str(error)) from error
        except CredentialsError as error:
            raise SettingsError(str(error)) from error

    def _is_given(self) -> bool:
        """Tell whether the connection leads to a given host: no other gets the credentials.

        Ports are not compared: a broker with several addresses may redirect to another of them.
        """
        return urlsplit(self._base).hostname in {
            urlsplit(address).hostname for address in self._addresses
        }

    def _no_answer(self, error: Exception) -> NoAnswer:
        if isinstance(error, TimeoutError):
            limit_s = self._settings.timeout_s
            return NoAnswer(
                f"{self._base} did not answer within {limit_s:g} s; whether it acted is unknown: "
                "look first, or give more time (--request-timeout)"
            )
        return NoAnswer(
            f"{self._base} closed the connection: {error or type(error).__name__}. Is this the "
            "broker's HTTP port, with http:// or https:// as it expects (--admin-url)?"
        )

    def _follow(self, location: str) -> str:
        """Follow a redirect; return the path and query of its target."""
        where = urlsplit(urljoin(self._base, location))
        base = f"{where.scheme}://{where.netloc}"
        leaves_tls = self._base.startswith("https:") and where.scheme != "https"
        # promise[without leaves_tls or]: a redirect never leaves TLS
        if leaves_tls or where.scheme not in SCHEMES:
            raise NoAnswer(
                f"{self._base} redirects to {base}, which is not followed: others could read the "
                "request on its way there. Give the broker's own address (--admin-url)"
            )
        if base != self._base:
            self.close()
            self._connection = self._connect(base)
        return f"{where.path}?{where.query}" if where.query else where.path

    def _connected(self) -> HTTPConnection:
        if self._connection is not None:
            if self._connection.sock is None:  # closed after the last answer
                self._connection = self._connect(self._base)
            return self._connection
        failures = []
        for base in self._addresses:
            try:
                self._connection = self._connect(base)
            except NoAnswer as error:
                failures.append(str(error))
            else:
                return self._connection
        raise NoAnswer("\n".join(failures))

    def _connect(self, base: str) -> HTTPConnection:
        where = urlsplit(base)
        host, port = where.hostname or "", where.port or SCHEMES[where.scheme]
        limit_s = min(CONNECT_S, self._settings.timeout_s)
        connection = (
            HTTPSConnection(host, port, timeout=limit_s, context=self._tls())
            if where.scheme == "https"
            else HTTPConnection(host, port, timeout=limit_s)
        )
        try:
            connection.connect()
        except ssl.SSLError as error:
            plain = error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
            hint = "; it does not speak TLS: use http://, or webServicePortTls" if plain else ""
            raise NoAnswer(f"TLS with {base} failed: {error}{hint}") from error
        except OSError as error:
            reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or error
            raise NoAnswer(
                f"cannot connect to {base}: {reason}. Is the broker running, and is this the "
                "address of its HTTP port (--admin-url)?"
            ) from error
        connection.sock.settimeout(self._settings.timeout_s)
        self._base = base
        return connection

    def _tls(self) -> ssl.SSLContext:
        try:
            return self._contexts.current()
        except ValueError as error:
            raise SettingsError(str(error)) from error


def tls_of(settings: AdminSettings) -> Tls:
    return Tls(
        trust_file=settings.tls_trust_cert_path or None,
        cert_file=settings.tls_cert_path or None,
        key_file=settings.tls_key_path or None,
        verify_hostname=settings.tls_hostname_verification,
        allow_insecure=settings.tls_allow_insecure,
    )


def _addresses(url: str) -> Iterator[str]:
    """Yield the addresses of a URL with one host or several, each as a URL of its own."""
    scheme, separator, rest = url.strip().rstrip("/").partition("://")
    if not separator or scheme not in SCHEMES:
        raise SettingsError(
            f"--admin-url {url} is not the address of an HTTP port: expected http://HOST:PORT or "
            "https://HOST:PORT"
        )
    for host in rest.split(","):
        base = f"{scheme}://{host.strip()}"
        try:
            valid = bool(urlsplit(base).hostname) and urlsplit(base).port != 0
        except ValueError:
            valid = False
        if not valid:
            raise SettingsError(f"--admin-url {url}: {host!r} is not HOST:PORT")
        yield base


def _reason(answer: Answer, phrase: str) -> str:
    """Return the reason for a refusal, in the words of the broker's answer."""
    with suppress(ValueError, TypeError):
        found = json.loads(answer.body)
        for member in ("reason", "message"):
            if found.get(member):
                return str(found[member]).partition("\n\nStacktrace:")[0].strip()
    text = answer.text.strip()
    is_short = text and len(text) < 500 and not text.startswith("<")
    return text if is_short else phrase or "no reason given"
