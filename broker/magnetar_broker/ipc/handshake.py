"""The beginning of a link between machines: each side says who it is, then accepts or refuses.

Both sides send a greeting at once, and answer the other one's with a verdict: blank, or the reason
for which they refuse.  What follows an accepting verdict belongs to the link.  A greeting names its
fields, so that later versions may add some.  So both sides know why there is no link, whichever of
them refuses it, as long as both read greetings.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from magnetar_broker.ipc.frames import BadFrame, Message, encode, first_message

MAGIC = "magnetar-link"
GREETING_BYTES = 4096
"""The most bytes of a greeting or a verdict: what comes from a peer that is not known yet."""
LEAST_LEVEL, LEVEL = 1, 1
"""The feature levels that this version speaks.  A link uses the highest one that both sides speak;
a message that earlier versions do not have needs a higher level."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """One side of a link, as it describes itself."""

    cluster: str
    """The id of the cluster, which all its brokers read from its metadata store."""
    broker: str
    """The id of the broker, which its links are known by."""
    process: str
    """The name of the process, such as worker-0."""
    version: str
    """The version of the software, for people."""
    least_level: int = LEAST_LEVEL
    level: int = LEVEL

    def __str__(self) -> str:
        return f"{self.process} of broker {self.broker} (version {self.version})"


Check = Callable[[Greeting], str]
"""Returns why a peer is refused; blank if it is accepted."""


def objection(own: Greeting, peer: Greeting) -> str:
    """Return why two sides cannot have a link, the same for both; blank if they can."""
    both = sorted((own, peer), key=str)
    # promise: brokers of two clusters have no links
    if own.cluster != peer.cluster:
        return (
            f"{_and(f'{one} belongs to cluster {one.cluster}' for one in both)}: "
            "all brokers of a cluster use the same metadata store"
        )
    # promise: versions that do not understand each other have no links
    if min(own.level, peer.level) < max(own.least_level, peer.least_level):
        levels = (f"{one} has feature levels {one.least_level} to {one.level}" for one in both)
        return f"{_and(levels)}: upgrade the broker with the lower ones to a version in between"
    return ""


def _and(texts: Any) -> str:
    return ", and ".join(texts)


class Handshake:
    """One side of the beginning of a link; `is_over` when the link may begin, or is refused."""

    def __init__(self, own: Greeting, write: Callable[[bytes], None], check: Check) -> None:
        """`check` refuses a peer for reasons of this side alone."""
        self.peer: Greeting | None = None
        self.is_over = False
        self.refusal = ""
        """Why there is no link; blank if there is one, or the handshake is not over."""
        self._own = own
        self._write = write
        self._check = check
        self._left = bytearray()

    def begin(self) -> None:
        """Send the greeting; call it once the stream is there."""
        self._write(encode((MAGIC, asdict(self._own))))

    def receive(self, data: bytes) -> bytes:
        """Handle the bytes of one read; returns those that belong to the link."""
        self._left += data
        try:
            # promise: an answer that comes with the greeting is read
            while not self.is_over:
                found = first_message(self._left, GREETING_BYTES)
                if found is None:
                    return b""
                message, rest = found
                self._left = bytearray(rest)
                self._on_message(message)
        except BadFrame as error:
            self._end(f"it does not greet as a broker does: it has sent {error}")
        rest, self._left = bytes(self._left), bytearray()
        return b"" if self.refusal else rest

    def _on_message(self, message: Message) -> None:
        if self.peer is None:
            self.peer = greeting_of(message)
            reason = objection(self._own, self.peer) or self._check(self.peer)
            self._write(encode((reason,)))  # promise: the refused side knows why
            # promise: a peer that is refused gets no link
            if reason:
                self._end(reason)
        else:
            self._end(verdict_of(message, self.peer))

    def _end(self, refusal: str) -> None:
        self.refusal = refusal
        self.is_over = True


def greeting_of(message: Message) -> Greeting:
    """Return the greeting that has arrived; `BadFrame` if it is none."""
    if message[0] != MAGIC or len(message) != 2 or not isinstance(message[1], dict):
        raise BadFrame("a message that is not a greeting")
    given: dict[Any, Any] = message[1]
    known: dict[str, Any] = {field.name: given.get(field.name) for field in fields(Greeting)}
    for name, value in known.items():
        if type(value) is not (int if "level" in name else str):
            raise BadFrame(f"a greeting without {name}")
    return Greeting(**known)


def verdict_of(message: Message, peer: Greeting) -> str:
    """Return why the peer refuses the link; blank if it accepts it."""
    if len(message) != 1 or not isinstance(message[0], str):
        raise BadFrame("a message that is not a verdict")
    return f"{peer} refuses it: {message[0]}" if message[0] else ""
