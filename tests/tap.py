"""A proxy to a broker's port that counts the connections and commands of its clients."""

import socket
from collections import Counter
from contextlib import suppress
from threading import Lock, Thread

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.frames import FrameDecoder

READ_BYTES = 1 << 18
MAX_FRAME = 16 << 20


class Tap:
    """Forwards every connection to a port on this machine until it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent: Counter[int] = Counter()
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    @property
    def service_url(self) -> str:
        """The URL for clients; they also reach the broker's processes through it."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def lookups(self) -> int:
        """The number of LOOKUPs that clients have sent so far."""
        with self._lock:
            return self._sent[pb.BaseCommand.LOOKUP]

    @property
    def connections(self) -> int:
        """The number of connections that clients have opened so far."""
        with self._lock:
            return len(self._sockets) // 2

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            ended = [self._listening, *self._sockets]
        for one in ended:
            with suppress(OSError):  # its peer has ended it
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the end of `close`
            while True:
                client = self._listening.accept()[0]
                broker = socket.create_connection(("127.0.0.1", self._port))
                with self._lock:
                    self._sockets += [client, broker]
                decoder = FrameDecoder(MAX_FRAME)
                Thread(target=self._copy, args=(client, broker, decoder), daemon=True).start()
                Thread(target=self._copy, args=(broker, client, None), daemon=True).start()

    def _copy(
        self, source: socket.socket, target: socket.socket, decoder: FrameDecoder | None
    ) -> None:
        with suppress(OSError):  # either side may end it
            while data := source.recv(READ_BYTES):
                if decoder is not None:
                    frames = decoder.feed(data)
                    assert decoder.error is None, decoder.error
                    with self._lock:
                        self._sent.update(frame[0] for frame in frames)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
