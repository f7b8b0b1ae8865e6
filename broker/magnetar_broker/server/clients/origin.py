"""The origin of a client that one worker of a broker passes to another.

On the channel between workers (`socket_sender`, `socket_receiver`) each client's first frame has a
head with its origin.  Only processes of this broker write to that channel: a client cannot forge
a head.
"""

import marshal
from typing import Any, NamedTuple

from magnetar_broker.authentication.identity import Roles
from magnetar_broker.session.first_frame import FirstFrame
from magnetar_proto.frames import SIZE


class Origin(NamedTuple):
    """Facts about a client that only the process that accepted it can know.

    The defaults are those of a TCP connection without TLS whose socket itself is passed on.
    """

    address: str = ""
    """The client's address, `host:port`; empty if it is the address of the socket's peer."""
    is_upstream: bool = False
    """Whether the accepting process keeps the session with the client, and relays its commands."""
    certificate: bytes = b""
    """The client's TLS certificate, which was verified, as DER; empty if it showed none."""
    roles: Roles | None = None
    """The roles that the accepting process has authenticated; they are not checked again."""

    def encoded(self) -> bytes:
        """Return the encoded head."""
        roles = None if self.roles is None else tuple(self.roles)
        data = marshal.dumps((self.address, self.is_upstream, self.certificate, roles))
        return SIZE.pack(len(data)) + data


ON_ITS_OWN = Origin()
"""The origin of a TCP connection without TLS."""


class PassedClient:
    """Collects a head and the first frame after it: read at most `lacks` bytes, and `add` them."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._frame = FirstFrame()

    @property
    def lacks(self) -> int:
        """The number of bytes to read next; 0 when everything has been read."""
        return self._head_lacks() or self._frame.lacks

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        if self._head_lacks():
            self._head += data
        else:
            self._frame.add(data)

    @property
    def frame(self) -> bytes:
        """The client's first frame."""
        return self._frame.data

    @property
    def origin(self) -> Origin:
        """The origin in the head."""
        # The head comes from a process of this broker, over a socket that nobody else can open.
        fields: Any = marshal.loads(self._head[SIZE.size :])  # nosec B302
        address, is_upstream, certificate, roles = fields
        return Origin(address, is_upstream, certificate, None if roles is None else Roles(*roles))

    def _head_lacks(self) -> int:
        if len(self._head) < SIZE.size:
            return SIZE.size - len(self._head)
        size: int = SIZE.unpack_from(self._head)[0]
        return SIZE.size + size - len(self._head)
