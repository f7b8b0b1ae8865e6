"""Accepts clients of a broker of several workers, and passes each to the worker that it names.

All workers accept from one listening socket.  A client names the worker in its first frame, so that
frame is read before there is a session, and no byte after it: the rest stays in the socket for
the worker that serves the client.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

from magnetar_broker.base.errors import NotReady
from magnetar_broker.limits.admission import Admission, AdmittedConnection
from magnetar_broker.server.clients.client_socket import Take, refuse
from magnetar_broker.server.clients.origin import ON_ITS_OWN
from magnetar_broker.server.runtime.accepting import Accepting
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.session.first_frame import FirstFrame, named_broker

logger = logging.getLogger(__name__)


class ClientRouter:
    """Reads the first frame of each client, then passes the client to the worker that it names."""

    def __init__(
        self,
        listening: socket.socket,
        destinations: Mapping[str, Take],
        descriptors: Descriptors,
        loop_timer: LoopTimer,
    ) -> None:
        """`listening` is a bound socket, which `stop` closes.

        `destinations` maps each "host:port" that clients name to the function that takes these
        clients; "" is the key for clients that name none.
        """
        self._accepting = Accepting(listening, self._accepted, descriptors, loop_timer)
        self._destinations = destinations
        self._run = loop_timer.run
        self._loop = asyncio.get_running_loop()
        self._openings: set[_Opening] = set()
        self._admission: Admission

    def start(self, admission: Admission) -> None:
        """Begin to accept clients within the limits of `admission`."""
        self._admission = admission
        self._accepting.start()

    def stop(self) -> None:
        """Stop accepting, and close the connections whose first frame is not complete."""
        self._accepting.stop()
        for opening in list(self._openings):
            opening.close()

    def _accepted(self, client: socket.socket, host: str) -> None:
        opening = _Opening(client, self._give, self._openings, self._run)
        opening.begin(self._admission, host)

    def _give(self, client: socket.socket, frame: bytes) -> None:
        name = named_broker(frame)
        # promise[name -> name, self._destinations[""]]: who names an unknown broker is not served
        take = self._destinations.get(name)
        if take is not None:
            take(client, frame, ON_ITS_OWN)
        else:
            refuse(client, unknown(name))


def unknown(name: str) -> NotReady:
    """Return the refusal of a client that names a process that does not exist."""
    return NotReady(f"no broker {name!r} is known here: look the topic up again")


class _Opening:
    """A connection until its first frame is complete."""

    def __init__(
        self,
        client: socket.socket,
        give: Callable[[socket.socket, bytes], None],
        openings: set["_Opening"],
        run: Callable[..., None],
    ) -> None:
        self._client = client
        self._give = give
        self._openings = openings
        self._frame = FirstFrame()
        self._loop = asyncio.get_running_loop()
        self._run = run
        self._place: AdmittedConnection

    def begin(self, admission: Admission, host: str) -> None:
        """Take a place, and read the first frame."""
        # promise[self.close -> lambda: None]: a client without a first frame has limited time
        self._place = admission.enter(host, self.close)
        self._loop.add_reader(self._client, self._run, "read", self._read)
        self._openings.add(self)

    def close(self) -> None:
        """Close the connection."""
        self._leave()
        self._client.close()

    def _read(self) -> None:
        try:
            while size := self._frame.lacks:
                # promise[recv(size) -> recv(1 << 16)[:size]]: only the first frame is read before a
                #   client is passed on
                data = self._client.recv(size)
                if not data:
                    self.close()
                    return
                self._frame.add(data)
        except BlockingIOError:
            return
        except OSError:  # the client reset the connection
            self.close()
            return
        self._leave()
        self._give(self._client, self._frame.data)

    def _leave(self) -> None:
        self._loop.remove_reader(self._client)
        self._place.leave()
        self._openings.discard(self)
