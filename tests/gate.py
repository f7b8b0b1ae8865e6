"""A way to a port that a test closes or makes hang, as a network or a server that is away does."""

import selectors
import socket
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Self

BUFFER_BYTES = 1 << 16


class Gate:
    """Forwards connections to a port on this machine, in threads; used as `with`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._goes_on = Event()
        """Unset while bytes are held back."""
        self._refuses = False
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self.accepted = 0
        """The connections so far, refused ones included."""

    def __enter__(self) -> Self:
        self._goes_on.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.refuse()
        self._goes_on.set()

    @property
    def endpoint(self) -> str:
        """The address for HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def refuse(self) -> None:
        """End all connections, and every new one at once, until `reopen`."""
        with self._lock:
            self._refuses = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Keep connections, and accept new ones, but forward nothing until `reopen`."""
        self._goes_on.clear()

    def reopen(self) -> None:
        """Forward everything again, also what was held back."""
        self._refuses = False
        self._goes_on.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # it was closed
            self.accepted += 1
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            self._goes_on.wait()
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            with server:
                with self._lock:
                    if self._refuses:
                        return
                    self._open |= {client, server}
                with suppress(OSError):  # either side may end it
                    self._forward(client, server)
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(BUFFER_BYTES)
                    self._goes_on.wait()
                    if not data:
                        return
                    target.sendall(data)
