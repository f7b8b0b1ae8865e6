"""Tokens of an OAuth 2.0 issuer, obtained by the client credentials flow."""

import binascii
import json
import ssl
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from magnetar.base.base_errors import CredentialsError, CredentialsUnavailable
from magnetar.security.authentication import Bearer

REQUEST_S: Final = 10.0
"""The seconds that one request to the issuer may take."""
MAX_ANSWER: Final = 1 << 20
LEFT_OF_LIFE: Final = 0.1
"""The fraction of a token's lifetime left when it is replaced, so that none expires in use."""
DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class _Held:
    token: str
    fetched_s: float
    renew_s: float


class OAuth2(Bearer):
    """Fetches tokens from an issuer, and renews each before it expires.

    The client is given by `key_file`, a path, file: or data: URL of a JSON object with client_id
    and client_secret, or by `client_id` and `client_secret`.  The issuer's token endpoint is found
    by OpenID discovery.  Its URL must be an https: URL, unless it is on this machine.
    """

    takes_time = True

    def __init__(
        self,
        issuer: str,
        key_file: str | Path | None = None,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        audience: str | None = None,
        scope: str | None = None,
        trust_file: str | Path | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if (key_file is None) == (client_id is None or client_secret is None):
            raise CredentialsError("OAuth2: give either key_file or client_id and client_secret")
        self._issuer = _guarded(issuer, "the issuer").rstrip("/")
        self._key_file = None if key_file is None else str(key_file)
        self._client = (client_id or "", client_secret or "")
        self._optional = {"audience": audience, "scope": scope}
        self._trust_file = None if trust_file is None else str(trust_file)
        self._now_s = now_s
        self._held: _Held | None = None
        self._fetching = Lock()

    def token(self, *, renewed: bool = False) -> str:
        """Return the current token or a new one; only one thread at a time asks the issuer."""
        asked_s = self._now_s()
        with self._fetching:
            held = self._held
            # A token that was fetched while this call waited is new enough.
            is_new = held is not None and held.fetched_s >= asked_s
            if held is None or self._now_s() >= held.renew_s or (renewed and not is_new):
                held = self._held = self._fetched()
            return held.token

    def _fetched(self) -> _Held:
        client_id, secret = self._client if self._key_file is None else _key_of(self._key_file)
        found = self._ask(Request(self._issuer + DISCOVERY))
        endpoint = _guarded(_text(found, "token_endpoint", self._issuer), "the token endpoint")
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        form |= {name: text for name, text in self._optional.items() if text}
        fetched_s = self._now_s()
        answer = self._ask(Request(endpoint, urlencode(form).encode(), method="POST"))
        token = _text(answer, "access_token", endpoint)
        life_s = answer.get("expires_in", 3600)
        if not isinstance(life_s, int | float) or life_s <= 0:
            raise CredentialsError(f"{endpoint}: expires_in is not a positive number")
        # promise[without * (1 - LEFT_OF_LIFE)]: a token is renewed before it expires
        return _Held(token, fetched_s, fetched_s + life_s * (1 - LEFT_OF_LIFE))

    def _ask(self, request: Request) -> dict[str, Any]:
        """Return the issuer's answer; no error contains the request or the answer."""
        where = request.full_url
        request.add_header("Accept", "application/json")
        try:
            context = ssl.create_default_context(cafile=self._trust_file)
        except OSError as error:
            raise CredentialsError(f"trust_file {self._trust_file}: {error}") from None
        opener = build_opener(_NoRedirects, HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=REQUEST_S) as response:
                body = _read(response, self._now_s() + REQUEST_S, self._now_s)
        except HTTPError as error:
            raise _refusal(error, where) from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise CredentialsUnavailable(f"no answer from {where}: {reason}") from None
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise CredentialsError(f"{where} did not answer with a JSON object")
        return answer


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: the secret is sent to the named server only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _read(response: Any, until_s: float, now_s: Callable[[], float]) -> bytes:
    body = b""
    while piece := response.read1(65536):
        body += piece
        if len(body) > MAX_ANSWER:
            raise ValueError(f"the answer is larger than {MAX_ANSWER} bytes")
        if now_s() > until_s:
            raise TimeoutError(f"the answer took longer than {REQUEST_S:g} s")
    return body


def _refusal(error: HTTPError, where: str) -> CredentialsError:
    """Return the error for the issuer's refusal; an internal error of the issuer is temporary."""
    with error:
        if 300 <= error.code < 400:
            return CredentialsError(f"{where} redirects, which is not followed: name the issuer")
        if error.code >= 500 or error.code in (408, 429):
            return CredentialsUnavailable(f"{where} answered with status {error.code}")
        try:
            code = str(json.loads(error.read(MAX_ANSWER)).get("error", ""))
        except (ValueError, AttributeError, OSError):
            code = ""
    shown = code if code.replace("_", "").isalnum() and len(code) < 64 else "no reason given"
    return CredentialsError(f"{where} refused with status {error.code}: {shown}")


def _text(answer: dict[str, Any], member: str, where: str) -> str:
    value = answer.get(member)
    if not isinstance(value, str) or not value or not value.isascii() or " " in value:
        raise CredentialsError(f"{where}: the answer has no {member}")
    return value


def _guarded(url: str, what: str) -> str:
    """Return the URL; raise unless secrets sent there are protected from interception."""
    where = urlsplit(url)
    host = where.hostname or ""
    if where.scheme == "https" and host:
        return url
    # promise[without and _is_here(host)]: a secret goes without TLS to this machine only
    if where.scheme == "http" and _is_here(host):
        return url
    raise CredentialsError(f"{what} {url} must be an https: URL")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key_of(source: str) -> tuple[str, str]:
    """Return the id and the secret of the client in a key file."""
    try:
        if source.startswith("data:"):
            head, _, body = source.partition(",")
            text = b64decode(body, validate=True) if head.endswith(";base64") else body.encode()
            name = "data: URL"
        else:
            path = unquote(urlsplit(source).path) if source.startswith("file:") else source
            name, text = path, Path(path).read_bytes()
        found = json.loads(text)
        pair = found["client_id"], found["client_secret"]
    except OSError as error:
        raise CredentialsError(f"the key file {source}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, binascii.Error):
        pair = None, None
    if not all(isinstance(part, str) and part for part in pair):
        where = "the data: URL" if source.startswith("data:") else f"the key file {name}"
        raise CredentialsError(f"{where} must have a JSON object with client_id and client_secret")
    return str(pair[0]), str(pair[1])
