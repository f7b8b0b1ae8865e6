"""What the supervisor and a child process tell each other over their control socket.

A message is a line of JSON; the socket of a `Peer` travels beside its line (SCM_RIGHTS).
"""

import errno
import json
import os
import socket
from collections import deque
from dataclasses import dataclass, field

READ_BYTES = 64 << 10
MAX_SOCKETS = 16
"""Sockets that one read takes; a system delivers one, or few, at a time."""


@dataclass(frozen=True)
class Peer:
    """To a child: another process has started, and this socket leads to it.

    The socket is a stream with a process of this generation at its other end; who receives it
    closes it.  A higher generation of the same process replaces the lower one, which has ended.
    """

    worker: int | None
    """The number of the worker; None is the controller."""
    generation: int
    """How many times that process was started, this one included."""
    socket: socket.socket


@dataclass(frozen=True)
class Stop:
    """To a child: finish and return from `run`.  The end of the control socket reads as this too,
    so that no child outlives the supervisor."""

    reason: str


@dataclass(frozen=True)
class Ready:
    """To the supervisor: the start is complete."""


@dataclass(frozen=True)
class Failed:
    """To the supervisor: why the child is about to end, for people to read."""

    text: str


Message = Peer | Stop | Ready | Failed
KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in (Peer, Stop, Ready, Failed)}


@dataclass(eq=False)
class Control:
    """One end of a control socket; pass it to `select`, or its `fileno` to `add_reader`."""

    end: socket.socket
    _read: bytearray = field(default_factory=bytearray)
    _sockets: deque[socket.socket] = field(default_factory=deque)

    def fileno(self) -> int:
        """The descriptor, which is readable when `receive` has something to return."""
        return self.end.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raises OSError if the other end is closed or does not read.

        The caller still owns the socket of a `Peer`, and may close it now.
        """
        fields = {name: value for name, value in vars(message).items() if name != "socket"}
        line = json.dumps([type(message).__name__, fields]).encode() + b"\n"
        if isinstance(message, Peer):
            socket.send_fds(self.end, [line], [message.socket.fileno()])
        else:
            self.end.sendall(line)

    def receive(self) -> list[Message]:
        """Read once and return the messages that are complete; `Stop` when the other end is closed.

        Blocks if nothing has come and the socket is a blocking one.
        """
        try:
            data, numbers, flags, _ = socket.recv_fds(self.end, READ_BYTES, MAX_SOCKETS)
        except BlockingIOError:
            return []
        except ConnectionError:
            data, numbers, flags = b"", [], 0
        self._sockets.extend(socket.socket(fileno=number) for number in numbers)
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not data:
            return [Stop("the other end of the control socket is closed")]
        self._read += data
        *lines, rest = self._read.split(b"\n")
        self._read = rest
        return [self._message(line) for line in lines]

    def close(self) -> None:
        """Close this end."""
        self.end.close()

    def _message(self, line: bytearray) -> Message:
        name, fields = json.loads(line)
        if name == Peer.__name__:
            fields["socket"] = self._sockets.popleft()
        return KINDS[name](**fields)


def control_pair() -> tuple[Control, Control]:
    """The supervisor's end, which never blocks, and the child's, which does."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return Control(ours), Control(theirs)
