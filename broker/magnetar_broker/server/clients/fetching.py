"""Fetches small documents over HTTP, such as the keys of issuers of tokens."""

import asyncio
import http.client
import ssl
import time
import urllib.error
import urllib.request
from contextlib import suppress
from email.message import Message
from threading import Thread
from typing import IO, Final
from urllib.parse import urlsplit

LARGEST: Final = 1 << 20
"""The largest document, in bytes."""
AT_ONCE: Final = 64 << 10
REDIRECTIONS: Final = 3


class Fetcher:
    """Fetches documents in threads; concurrent requests for one document share one fetch.

    A thread that hangs does not hold up the end of the process, or fetches from other addresses.
    """

    def __init__(
        self, connect_seconds: float, read_seconds: float, authorities: str | None = None
    ) -> None:
        """`authorities` is a PEM file, or None for the system's.  Raises `OSError`.

        A fetch takes at most the sum of both times, and none of its steps more than the longer one.
        """
        self._seconds = connect_seconds + read_seconds
        self._opener = _opener(ssl.create_default_context(cafile=authorities))
        self._timeout = max(connect_seconds, read_seconds)
        self._running: dict[str, asyncio.Future[bytes]] = {}

    async def fetch(self, url: str) -> bytes:
        """Return the document; `OSError` if it cannot be fetched in time."""
        running = self._running.get(url)
        if running is None:
            loop = asyncio.get_running_loop()
            running = self._running[url] = loop.create_future()
            Thread(target=self._work, args=(loop, url), name="magnetar-issuer", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._seconds)
        except TimeoutError as error:
            raise OSError(f"{url} did not answer in {self._seconds:g} s") from error

    def _work(self, loop: asyncio.AbstractEventLoop, url: str) -> None:
        """Fetch in this thread, and report the result in the loop's thread."""
        found: bytes | OSError
        try:
            found = self._read(url)
        except OSError as error:
            found = error
        except Exception as error:  # whatever an answer makes the library raise
            found = OSError(f"{url}: {type(error).__name__}")
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(self._ended, url, found)

    def _ended(self, url: str, found: bytes | OSError) -> None:
        running = self._running.pop(url)
        if isinstance(found, bytes):
            running.set_result(found)
        else:
            running.set_exception(found)
            running.exception()  # nobody may wait for it any more

    def _read(self, url: str) -> bytes:
        deadline = time.monotonic() + self._seconds
        content = bytearray()
        try:
            with self._opener.open(url, timeout=self._timeout) as response:
                while part := response.read1(AT_ONCE):
                    content += part
                    if len(content) > LARGEST:
                        raise OSError(f"{url} has more than {LARGEST} bytes")
                    if time.monotonic() > deadline:
                        raise OSError(f"{url} was not read in {self._seconds:g} s")
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"{url} answered {error.code}") from None
        except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
            raise OSError(f"{url}: {error}") from error
        return bytes(content)


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
            fp.close()
            raise urllib.error.URLError("it redirects to another scheme")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Return an opener that knows http and https only: no files, no FTP."""
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
