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
from dataclasses import dataclass
from functools import partial

from magnetar_broker.base.connection import host_of
from magnetar_broker.base.errors import NotReady
from magnetar_broker.limits.admission import Admission, AdmittedConnection
from magnetar_broker.server.clients.client_socket import refuse
from magnetar_broker.server.clients.origin import Origin
from magnetar_broker.server.clients.outgoing import Outgoing
from magnetar_broker.server.runtime.loop_timer import LoopTimer

logger = logging.getLogger(__name__)

HELD = 4096
"""The most clients kept for a worker that cannot take them; further clients are refused."""
HELD_SECONDS = 30.0
"""The time that a client is kept for; then it is refused."""
WINDOW = 64
"""The most clients that are sent and not yet taken."""
RETRY_SECONDS = 1.0
"""The time until the next attempt when the system has no room for descriptors in transit."""
BYTES_AT_ONCE = 4096


@dataclass(eq=False, slots=True)
class _Departing:
    """A client that waits to be passed on."""

    client: socket.socket
    data: bytes
    host: str
    """The client's host; empty for an upstream, whose client is counted where it is connected."""
    place: AdmittedConnection | None = None
    """The place under which the client is counted; None before it is counted."""

    def close(self) -> None:
        """Close this process's copy of the socket, and free the place."""
        self._leave()
        self.client.close()

    def refuse(self, refusal: NotReady) -> None:
        """Refuse the client, which no worker takes."""
        self._leave()
        refuse(self.client, refusal)

    def _leave(self) -> None:
        if self.place is not None:
            self.place.leave()  # promise: a client that a worker has taken is counted no longer


class SocketSender:
    """Sends clients to one other worker.

    Clients are kept while that worker's process does not run: not all clients repeat a CONNECT that
    is refused.  Meanwhile they count as connections that are not accepted yet.
    """

    def __init__(
        self, worker: str, loop_timer: LoopTimer, limit: int = HELD, seconds: float = HELD_SECONDS
    ) -> None:
        """`worker` names the worker for people. Clients are kept until `replace` is called."""
        self._worker = worker
        self._run = loop_timer.run
        self._outgoing: Outgoing[_Departing] = Outgoing(limit, WINDOW, seconds)
        self._admission: Admission | None = None
        self._loop = asyncio.get_running_loop()
        self._channel: socket.socket | None = None
        self._rest = b""  # the rest of what was sent in part
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """The number of clients that are kept: the worker has not taken them yet."""
        return len(self._outgoing)

    def start(self, admission: Admission) -> None:
        """Apply these limits of connections to clients from now on."""
        self._admission = admission

    def send(self, client: socket.socket, frame: bytes, origin: Origin) -> None:
        """Pass a client and its first frame to the worker; refuse it after a long wait."""
        one = _Departing(client, origin.encoded() + frame, _host(client, origin))
        if self._outgoing.add(one, self._loop.time()):
            self._flush()
            # promise: clients of an address that wait for a worker are limited
            if not self._outgoing.is_ready:
                self._count(one)
        else:
            refuse(client, NotReady(f"too many clients wait for {self._worker}: try again"))

    def replace(self, channel: socket.socket) -> None:
        """Use `channel`, which leads to the worker's new process."""
        self._drain()  # promise: a replaced channel is read to its end
        self._close()
        channel.setblocking(False)
        self._channel = channel
        self._loop.add_reader(channel, self._run, "read", self._read)
        self._read()

    def stop(self) -> None:
        """Refuse the clients that wait; clients that were sent belong to the worker."""
        waiting, sent = self._outgoing.clear()
        for one in waiting:
            one.refuse(NotReady("the broker stops: try again"))
        for one in sent:
            one.close()
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
                data = b""  # promise[data = b"" -> return]: the end of a channel is noticed at once
            for one in self._outgoing.acknowledged(len(data)):
                # promise[one.close() -> one.client.shutdown(socket.SHUT_RDWR)]: a client that was
                #   passed on stays open
                one.close()
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
        """Send as many clients as the window and the socket's buffer allow."""
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
        """Send some bytes; return whether there was anything to send."""
        if self._rest:
            self._rest = self._rest[channel.send(self._rest) :]
            return True
        following = self._outgoing.following()
        if following is None:
            return False
        count = socket.send_fds(channel, [following.data], [following.client.fileno()])
        self._outgoing.sent()
        # promise[following.data[count:] -> b""]: the rest of a frame is sent
        self._rest = following.data[count:]
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
        """Close the channel; clients that were not acknowledged wait for the next one."""
        if self._channel is not None:
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None
        self._rest = b""  # promise: the next process is not sent the rest of another's frame
        self._outgoing.lost()
        # promise: clients that a dead worker has not taken are counted
        for one in self._outgoing.items():
            self._count(one)
        self._watch_deadline()

    # Clients that are too many, or wait too long -----------------------------------------

    def _count(self, one: _Departing) -> None:
        """Count a client that waits for the worker's next process."""
        if one.host and one.place is None and self._admission is not None:
            one.place = self._admission.enter(one.host, partial(self._give_up, one), is_timed=False)

    def _give_up(self, one: _Departing) -> None:
        """Refuse a client to make room, unless it was sent in the meantime."""
        if self._outgoing.remove(one):
            one.refuse(NotReady(f"too many clients wait for {self._worker}: try again"))

    def _watch_deadline(self) -> None:
        deadline = self._outgoing.deadline
        if deadline is not None and self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        refusal = NotReady(f"{self._worker} has not started in time: try again")
        for one in self._outgoing.expire(self._loop.time()):
            one.refuse(refusal)
        self._watch_deadline()


def _host(client: socket.socket, origin: Origin) -> str:
    """Return the client's host; empty for an upstream, and for a client that has left."""
    if origin.is_upstream:
        return ""
    if origin.address:
        return host_of(origin.address)
    try:
        return str(client.getpeername()[0])
    except OSError:
        return ""
