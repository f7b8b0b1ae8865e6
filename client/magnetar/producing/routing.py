"""The choice of the partition of a message. Pure."""

import base64
import random
from collections.abc import Callable

from magnetar.messages import Outgoing
from magnetar_proto.hashes import cpp_string_hash, java_string_hash, murmur3_32

ROUND_ROBIN, SINGLE = "round_robin", "single"
ROUTINGS = (ROUND_ROBIN, SINGLE)
MURMUR3, JAVA, CPP = "murmur3", "java", "cpp"
HASHES: dict[str, Callable[[str], int]] = {
    MURMUR3: lambda text: murmur3_32(text.encode()),
    JAVA: java_string_hash,
    CPP: cpp_string_hash,
}
"""The hashes of keys: murmur3 is the same in all clients; java is the default of the Java client,
String.hashCode; cpp that of the C++ client and those that wrap it, such as Python's."""

Router = Callable[[Outgoing, int], int]
"""Returns the partition, from 0, of a message; the second argument is the number of partitions."""


def partition_of(key: str | bytes, count: int, hashing: str = MURMUR3) -> int:
    """Return the partition of a key: a hash of its text; byte keys are hashed in base64."""
    text = base64.b64encode(key).decode() if isinstance(key, bytes) else key
    return HASHES[hashing](text) % count


class Routing:
    """Sends messages with the same key to the same partition; `routing` is for those without.

    round_robin: the partitions in turn, a batch at a time.  single: one partition, at random.
    A function of the message and the number of partitions decides for all messages.
    """

    def __init__(self, routing: str | Router = ROUND_ROBIN, hashing: str = MURMUR3) -> None:
        self.router = None if isinstance(routing, str) else routing
        self.is_single = routing == SINGLE
        self.hashing = hashing
        # Spreads clients over partitions; it need not be hard to guess.
        self._turn = random.randrange(1 << 16) if self.is_single else 0  # nosec B311

    def of_message(self, message: bytes | Outgoing, count: int) -> int | None:
        """Return the partition that the message determines; None if `turn` determines it."""
        if self.router is not None:
            outgoing = message if isinstance(message, Outgoing) else Outgoing(message)
            chosen = self.router(outgoing, count)
            if not 0 <= chosen < count:
                raise ValueError(f"the router chose partition {chosen}: expected 0 to {count - 1}")
            return chosen
        if isinstance(message, Outgoing) and message.key is not None:
            return partition_of(message.key, count, self.hashing)
        return None

    def turn(self, count: int) -> int:
        """Return the present partition of messages that no key or router assigns."""
        return self._turn % count

    def next_turn(self, count: int) -> int:
        """Return the partition of the next batch of such messages."""
        if not self.is_single:
            self._turn = (self._turn + 1) % count
        return self._turn % count
