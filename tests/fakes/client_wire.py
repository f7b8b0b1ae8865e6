"""The transport of a client's connection, without a socket."""

import asyncio
from typing import Any

from magnetar.connections.connection import Connection
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode
from magnetar_proto.frames import FrameDecoder


class Wire(asyncio.Transport):
    """The broker's side: it records what the client sent, and whether it disconnected."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self.is_closed = False
        self.is_aborted = False
        self._decoder = FrameDecoder(2**23)
        self._sent = b""

    def write(self, data: Any) -> None:
        self._sent += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def take(self) -> list[pb.BaseCommand]:
        """Return the commands since the last call, also those of this turn."""
        self._connection._send_outgoing()
        data, self._sent = self._sent, b""
        return [decode(buf, start, mid) for _, buf, start, mid, _ in self._decoder.feed(data)]
