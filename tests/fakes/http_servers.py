"""HTTP servers of tests: each has a thread of its own, and ends without delay."""

from collections.abc import Callable
from socketserver import BaseServer
from threading import Thread
from typing import Final

POLL_SECONDS: Final = 0.01
"""The longest wait until a server ends; with Python's default each test would end 0.5 s later."""


def serve(server: BaseServer) -> Callable[[], None]:
    """Serve requests from now on; return a function that ends that and closes the server."""
    thread = Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return close
