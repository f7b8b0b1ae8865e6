"""The authentication of a client: the credentials that it sends to brokers.

magnetar.connect(url, auth=magnetar.auth.Token(path))

No representation, log line or error of these classes contains a secret.
"""

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from magnetar.base.base_errors import CredentialsError


class Authentication(ABC):
    """A way to authenticate; one object may serve several clients."""

    method: ClassVar[str]
    """The `auth_method_name` on the wire."""
    takes_time: bool = False
    """Whether `credentials` reads files or asks a server, and must be called in a thread."""
    certificate: tuple[str, str] | None = None
    """The paths of the files with the TLS certificate and its key."""

    @abstractmethod
    def credentials(self, *, renewed: bool = False) -> bytes:
        """Return the credentials to send to a broker; CredentialsError if they are not available.

        `renewed`: the broker no longer accepts the former credentials.
        """

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Return the headers of an HTTP request; CredentialsError if there are no credentials."""

    async def shown(self, *, renewed: bool = False) -> bytes:
        """Return the same as `credentials`, without blocking the event loop."""
        if self.takes_time:
            from asyncio import to_thread  # noqa: PLC0415 (not for requests over HTTP)

            return await to_thread(lambda: self.credentials(renewed=renewed))
        return self.credentials(renewed=renewed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Bearer(Authentication):
    """Sends a token; subclasses provide it."""

    method = "token"

    @abstractmethod
    def token(self, *, renewed: bool = False) -> str:
        """Return the token to send."""

    def credentials(self, *, renewed: bool = False) -> bytes:
        return self.token(renewed=renewed).encode()

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token()}"}


TokenSource = str | Path | Callable[[], str] | Callable[[], Awaitable[str]]


class Token(Bearer):
    """A token: its text, a file that has it, or a function that returns it.

    `file:///path` names a file as a Path does.  A file is read, and a function called, for
    every connection and whenever the broker asks for a new token.  A function runs in a thread;
    an `async` one in the event loop, so it does not serve requests over HTTP.
    """

    def __init__(self, source: TokenSource) -> None:
        if isinstance(source, str) and source.startswith("file:"):
            source = Path(unquote(urlsplit(source).path))
        self._source = _checked(source) if isinstance(source, str) else source
        self.takes_time = not isinstance(source, str)

    def token(self, *, renewed: bool = False) -> str:
        found = self._found()
        if isinstance(found, str):
            return _checked(found)
        if isinstance(found, Coroutine):
            found.close()
        raise CredentialsError("expected a str from the token's function, got an awaitable")

    def _found(self) -> str | Awaitable[str]:
        if isinstance(self._source, str):
            return self._source
        if isinstance(self._source, Path):
            return _read(self._source)
        try:
            return self._source()
        except Exception as error:
            raise CredentialsError(f"no token: its function raised {type(error).__name__}") from (
                error
            )

    async def shown(self, *, renewed: bool = False) -> bytes:
        from asyncio import to_thread  # noqa: PLC0415 (not for requests over HTTP)

        found = await to_thread(self._found) if self.takes_time else self._found()
        if not isinstance(found, str):
            try:
                found = await found
            except Exception as error:
                raise CredentialsError(
                    f"no token: its function raised {type(error).__name__}"
                ) from error
        return _checked(found).encode()


class Basic(Authentication):
    """A user and a password."""

    method = "basic"

    def __init__(self, user: str, password: str) -> None:
        if not user or ":" in user:
            raise CredentialsError(
                "the user is empty, or contains ':', which divides it from the password"
            )
        self._pair = f"{user}:{password}".encode()

    def credentials(self, *, renewed: bool = False) -> bytes:
        return self._pair

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Basic {b64encode(self._pair).decode()}"}


class Certificate(Authentication):
    """The client's certificate for TLS: files as PEM, read for every connection.

    The URL must begin with pulsar+ssl:// or https://.
    """

    method = "tls"

    def __init__(self, cert: str | Path, key: str | Path) -> None:
        self.certificate = (str(cert), str(key))

    def credentials(self, *, renewed: bool = False) -> bytes:
        return b""

    def headers(self) -> dict[str, str]:
        return {}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise CredentialsError(f"the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"the token file {path} has no token: it is not ASCII") from None


def _checked(text: str) -> str:
    """Return the token without surrounding white space; an error does not contain it."""
    token = text.strip().removeprefix("token:")
    if not token or not token.isascii() or any(char.isspace() for char in token):
        raise CredentialsError("the token is empty, or has spaces or characters outside of ASCII")
    return token
