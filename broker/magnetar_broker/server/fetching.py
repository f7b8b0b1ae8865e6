"""Fetches small documents over HTTP, such as the keys of issuers of tokens."""

import asyncio
import http.client
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from typing import IO, Final
from urllib.parse import urlsplit

LARGEST: Final = 1 << 20
"""Bytes of a document."""
THREADS: Final = 4
REDIRECTIONS: Final = 3


class Fetcher:
    """Fetches in threads of its own; those who ask for one document at one time wait together."""

    def __init__(
        self, connect_seconds: float, read_seconds: float, authorities: str | None = None
    ) -> None:
        """`authorities` is a PEM file; None for those of the system.  Raises `OSError`."""
        self._seconds = connect_seconds + read_seconds
        self._opener = _opener(ssl.create_default_context(cafile=authorities))
        self._timeout = max(connect_seconds, read_seconds)
        self._threads = ThreadPoolExecutor(THREADS, "magnetar-issuers")
        self._running: dict[str, asyncio.Future[bytes]] = {}

    async def fetch(self, url: str) -> bytes:
        """The document; `OSError` if there is none in time."""
        running = self._running.get(url)
        if running is None:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._threads, self._fetch, url)
            self._running[url] = running
            running.add_done_callback(lambda done: self._ended(url, done))
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._seconds)
        except TimeoutError as error:
            raise OSError(f"{url} did not answer in {self._seconds:g} s") from error

    def _ended(self, url: str, done: "asyncio.Future[bytes]") -> None:
        del self._running[url]
        if not done.cancelled():
            done.exception()  # nobody may wait for it any more

    def _fetch(self, url: str) -> bytes:
        try:
            with self._opener.open(url, timeout=self._timeout) as response:
                content: bytes = response.read(LARGEST + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"{url} answered {error.code}") from None
        except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
            raise OSError(f"{url}: {error}") from error
        if len(content) > LARGEST:
            raise OSError(f"{url} has more than {LARGEST} bytes")
        return content


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows few redirections, and none to another scheme."""

    max_redirections = REDIRECTIONS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise urllib.error.URLError("it redirects to another scheme")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """It knows http and https alone: no files, no FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SameScheme(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
