"""Sends clients' sockets to another worker of this broker, which serves them.

    departure  ── origin and frame, with the socket as SCM_RIGHTS ──>  arrival
               <──      one byte: ready, or one socket taken      ──

The channel is a pair of UNIX stream sockets.  The sender keeps each socket open until the receiver
has taken it: if the receiver ends before, nothing was read from the client since, and its next
process is sent the socket again.
"""

import asyncio
import logging
import socket

from magnetar_broker.base.errors import NotReady
from magnetar_broker.server.client_socket import refuse
from magnetar_broker.server.origin import Origin
from magnetar_broker.server.outgoing import Outgoing
from magnetar_broker.server.stretches import Stretches

logger = logging.getLogger(__name__)

HELD = 4096
"""Clients that are kept for one worker while it cannot take them; more are refused."""
HELD_SECONDS = 30.0
"""How long a client is kept; then it is refused."""
WINDOW = 64
"""Clients that are sent before the first of them must be taken."""
RETRY_SECONDS = 1.0
"""Until the next attempt when the system has no room for descriptors on their way."""
BYTES_AT_ONCE = 4096


class Departure:
    """The way to one other worker.

    Clients are kept while that worker's process does not run; not all clients repeat a CONNECT that
    is refused.
    """

    def __init__(
        self, worker: str, stretches: Stretches, limit: int = HELD, seconds: float = HELD_SECONDS
    ) -> None:
        """`worker` names it to people.  Clients are kept until `replace` is called."""
        self._worker = worker
        self._run = stretches.run
        self._outgoing: Outgoing[tuple[socket.socket, bytes]] = Outgoing(limit, WINDOW, seconds)
        self._loop = asyncio.get_running_loop()
        self._channel: socket.socket | None = None
        self._rest = b""  # of what was sent in part
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """The clients that are kept: the worker has not taken them yet."""
        return len(self._outgoing)

    def send(self, client: socket.socket, frame: bytes, origin: Origin) -> None:
        """Give a client and its first frame to the worker, or refuse it in the end."""
        if self._outgoing.add((client, origin.encoded() + frame), self._loop.time()):
            self._flush()
        else:
            refuse(client, NotReady(f"too many clients wait for {self._worker}: try again"))

    def replace(self, channel: socket.socket) -> None:
        """The worker has a new process, which `channel` leads to."""
        self._drain()
        self._close()
        channel.setblocking(False)
        self._channel = channel
        self._loop.add_reader(channel, self._run, "read", self._read)
        self._read()

    def stop(self) -> None:
        """Refuse the clients that wait; those that were sent are the worker's."""
        waiting, sent = self._outgoing.clear()
        for client, _ in waiting:
            refuse(client, NotReady("the broker stops: try again"))
        for client, _ in sent:
            client.close()
        self._close()
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()

    # The channel ---------------------------------------------------------------------

    def _read(self) -> None:
        self._drain()
        self._flush()

    def _drain(self) -> None:
        """Read acknowledgements to the end: uvloop reports the end of a broken channel once."""
        while self._channel is not None:
            try:
                data = self._channel.recv(BYTES_AT_ONCE)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            for client, _ in self._outgoing.acknowledged(len(data)):
                client.close()
            if not data:
                self._ended()

    def _ended(self) -> None:
        if self.held:
            logger.warning(
                "%s has ended: %d clients wait for its next process", self._worker, self.held
            )
        self._close()

    def _flush(self) -> None:
        if self._channel is not None:
            self._send_all(self._channel)
        self._watch_deadline()

    def _send_all(self, channel: socket.socket) -> None:
        """Send what may be sent, as far as there is room."""
        try:
            while self._send_some(channel):
                pass
        except BlockingIOError:
            self._loop.add_writer(channel, self._run, "write", self._writable, channel)
        except ConnectionError:
            self._drain()
        except OSError as error:
            self._try_later(error)

    def _send_some(self, channel: socket.socket) -> bool:
        """Whether there was something to send."""
        if self._rest:
            self._rest = self._rest[channel.send(self._rest) :]
            return True
        following = self._outgoing.following()
        if following is None:
            return False
        client, data = following
        count = socket.send_fds(channel, [data], [client.fileno()])
        self._outgoing.sent()
        self._rest = data[count:]
        return True

    def _writable(self, channel: socket.socket) -> None:
        self._loop.remove_writer(channel)
        self._flush()

    def _try_later(self, error: OSError) -> None:
        logger.warning("clients wait %g s for %s: %s", RETRY_SECONDS, self._worker, error)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(RETRY_SECONDS, self._flush)

    def _close(self) -> None:
        """The channel is of no more use; what was not acknowledged waits for the next one."""
        if self._channel is not None:
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None
        self._rest = b""
        self._outgoing.lost()
        self._watch_deadline()

    # Clients that wait too long --------------------------------------------------------

    def _watch_deadline(self) -> None:
        deadline = self._outgoing.deadline
        if deadline is not None and self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        refusal = NotReady(f"{self._worker} has not started in time: try again")
        for client, _ in self._outgoing.expire(self._loop.time()):
            refuse(client, refusal)
        self._watch_deadline()
