"""Receives clients' sockets that another worker of this broker accepted; see `socket_sender`."""

import asyncio
import logging
import os
import socket
from contextlib import suppress

from magnetar_broker.server.clients.client_socket import Take
from magnetar_broker.server.clients.origin import PassedClient
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer

logger = logging.getLogger(__name__)

ACKNOWLEDGEMENT = b"\0"


class SocketReceiver:
    """Receives clients from one other worker, until that worker's process ends."""

    def __init__(
        self, channel: socket.socket, take: Take, descriptors: Descriptors, loop_timer: LoopTimer
    ) -> None:
        """Begin to receive: clients must be served from now on.  `stop` closes `channel`."""
        self._channel = channel
        self._take = take
        self._descriptors = descriptors
        self._passed = PassedClient()
        self._client: socket.socket | None = None  # the client that `_passed` describes
        self._loop = asyncio.get_running_loop()
        channel.setblocking(False)
        self._loop.add_reader(channel, loop_timer.run, "read", self._read)
        self._acknowledge()

    def stop(self) -> None:
        """Stop receiving, and close a client that was received in part."""
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
            self._channel.close()
        if self._client is not None:
            self._client.close()

    def _read(self) -> None:
        """Read until nothing is left: uvloop reports the end of a broken channel only once."""
        while (data := self._receive()) is not None:
            if not data:
                self.stop()
                return
            self._passed.add(data)
            if not self._passed.lacks:
                self._complete()

    def _receive(self) -> bytes | None:
        """Return bytes of a client: b"" at the channel's end, None if nothing has arrived yet."""
        try:
            data, numbers, _, _ = socket.recv_fds(self._channel, self._passed.lacks, 1)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""
        for number in numbers:
            # promise: a child of the broker does not inherit a client's connection
            os.set_inheritable(number, False)
            self._client = socket.socket(fileno=number)
            self._client.setblocking(False)
        return data

    def _complete(self) -> None:
        client, passed = self._client, self._passed
        self._client, self._passed = None, PassedClient()
        # Before anything is read or written: a client that is sent again must not have been served.
        # promise[self._acknowledge() -> self._loop.call_soon(self._acknowledge)]: a client is
        #   acknowledged before it is served
        self._acknowledge()
        if client is None:
            logger.warning("a client is disconnected: no file descriptor is left for it")
        elif self._descriptors.admits(client.fileno()):
            self._take(client, passed.frame, passed.origin)
        else:
            client.close()

    def _acknowledge(self) -> None:
        with suppress(ConnectionError):  # the sender has ended, which `_read` notices
            self._channel.send(ACKNOWLEDGEMENT)
