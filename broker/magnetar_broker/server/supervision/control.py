"""The messages between the supervisor and a child process, over their control socket.

A message is a line of JSON; the sockets of a `Peer` travel beside its line (SCM_RIGHTS).
"""

import errno
import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from socket import MSG_CTRUNC, MSG_DONTWAIT, recv_fds, send_fds, socket, socketpair
from typing import get_args

READ_BYTES = 64 << 10
MAX_SOCKETS = 16
"""The most sockets that one read takes; a read ends after the sockets of one message."""


@dataclass(frozen=True)
class Peer:
    """Tells a child that another process has started, and brings the sockets that lead to it.

    A higher generation of the same process replaces the lower one, which has ended.  The
    receiver closes the sockets.
    """

    worker: int | None
    """The number of the worker; None is the controller."""
    generation: int
    """The number of starts of that process, the present one included."""
    link: socket
    """The socket for requests and answers, in both directions."""
    clients_out: socket | None = None
    """The socket that passes clients to that worker; None unless both are workers."""
    clients_in: socket | None = None
    """The socket that brings clients from that worker; None unless both are workers."""

    @property
    def sockets(self) -> list[socket]:
        """The sockets of this message, in the order of the fields."""
        return [one for one in (self.link, self.clients_out, self.clients_in) if one is not None]


@dataclass(frozen=True)
class Stop:
    """Asks a child to finish and to return from `run`.

    The end of the control socket is read as this message, so that no child outlives the supervisor.
    """

    reason: str


@dataclass(frozen=True)
class Drain:
    """Asks the controller to let other workers own all bundles of this one, until `Undrain`."""

    worker: int


@dataclass(frozen=True)
class Drained:
    """Answers `Drain`: the worker owns no bundle any more."""

    worker: int


@dataclass(frozen=True)
class Undrain:
    """Asks the controller to give the worker back the bundles that it owned before `Drain`."""

    worker: int


@dataclass(frozen=True)
class Undrained:
    """Answers `Undrain`: the worker owns its bundles again."""

    worker: int


@dataclass(frozen=True)
class Lost:
    """Tells the supervisor that the controller's link to this process of a worker has ended.

    If the process still runs, it must end: for the controller its topics are no longer loaded.
    """

    worker: int
    generation: int


@dataclass(frozen=True)
class Reloaded:
    """Tells the controller that all workers have been restarted with these settings."""

    values: dict[str, tuple[str, str]]
    """The text and the source (`Given`) of each setting, by key."""


@dataclass(frozen=True)
class CheckFiles:
    """Asks a child to check now whether the files of TLS have changed."""


@dataclass(frozen=True)
class Ready:
    """Tells the supervisor that the start of the child is complete."""


@dataclass(frozen=True)
class Alive:
    """Tells the supervisor, every `Context.report_seconds`, that the child's event loop runs."""


@dataclass(frozen=True)
class Failed:
    """Tells the supervisor, in words for people, why the child is about to end."""

    text: str


Message = (
    Peer
    | Stop
    | Drain
    | Drained
    | Undrain
    | Undrained
    | Lost
    | Reloaded
    | CheckFiles
    | Ready
    | Alive
    | Failed
)
KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


@dataclass(eq=False)
class Control:
    """One end of a control socket; pass it to `select`, or its `fileno` to `add_reader`."""

    end: socket
    _read: bytearray = field(default_factory=bytearray)
    _sockets: deque[socket] = field(default_factory=deque)

    def fileno(self) -> int:
        """Return the descriptor, which is readable when `receive` has something to return."""
        return self.end.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raises OSError if the other end is closed or does not read.

        The caller still owns the sockets of a `Peer`, and may close them now.
        """
        if isinstance(message, Peer):
            sockets = message.sockets
            fields = {"worker": message.worker, "generation": message.generation}
            line = _line("Peer", fields | {"sockets": len(sockets)})
            send_fds(self.end, [line], [one.fileno() for one in sockets])
        else:
            self.end.sendall(_line(type(message).__name__, vars(message)))

    def report_alive(self) -> None:
        """Send `Alive`, unless the socket has no room because the other end does not read."""
        with suppress(BlockingIOError, ConnectionError):
            # A line this short is sent whole or not at all.
            self.end.send(_line(Alive.__name__, {}), MSG_DONTWAIT)

    def receive(self) -> list[Message]:
        """Read once and return the messages that are complete; `Stop` when the other end is closed.

        Blocks if nothing has come and the socket is a blocking one.
        """
        try:
            data, numbers, flags, _ = recv_fds(self.end, READ_BYTES, MAX_SOCKETS)
        except BlockingIOError:
            return []
        except ConnectionError:
            data, numbers, flags = b"", [], 0
        self._sockets.extend(socket(fileno=number) for number in numbers)
        if flags & MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not data:
            return [Stop("the other end of the control socket is closed")]
        self._read += data
        *lines, rest = self._read.split(b"\n")
        self._read = rest
        return [self._message(line) for line in lines]

    def close(self) -> None:
        """Close this end of the socket."""
        self.end.close()

    def _message(self, line: bytearray) -> Message:
        name, fields = json.loads(line)
        if name == "Peer":
            sockets = [self._sockets.popleft() for _ in range(fields.pop("sockets"))]
            return Peer(fields["worker"], fields["generation"], *sockets)
        return KINDS[name](**fields)


def _line(name: str, fields: Mapping[str, object]) -> bytes:
    return json.dumps([name, fields]).encode() + b"\n"


def control_pair() -> tuple[Control, Control]:
    """Return the supervisor's end, which never blocks, and the child's, which does."""
    ours, theirs = socketpair()
    ours.setblocking(False)
    return Control(ours), Control(theirs)
