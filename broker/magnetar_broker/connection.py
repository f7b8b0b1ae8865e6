"""What topics know of a client: something to write frames to, with limited room."""

from collections.abc import Callable
from typing import Protocol


def host_of(address: str) -> str:
    """The host of a connection's address."""
    return address.rpartition(":")[0]


class Connection(Protocol):
    """One client's connection, as producers and consumers see it."""

    @property
    def address(self) -> str:
        """Host and port of the peer, for people."""

    def has_room(self) -> bool:
        """Whether the client keeps up; when it does again, its consumers are told to go on."""

    def send(self, frames: bytes) -> None:
        """Queue whole frames; they are written at the end of the turn."""

    def send_all(self, buffers: list[bytes], size: int) -> None:
        """The same for many buffers of `size` bytes together."""

    def published(self, entries: int, size: int) -> None:
        """Entries that this client sent were answered: they no longer count as pending."""

    def hold_reading(self) -> Callable[[], None]:
        """Read nothing from the client until what comes back is called, which is safe later."""

    async def is_alive(self) -> bool:
        """Ask with a PING whether anybody is there."""

    def active_changed(self, consumer_id: int, is_active: bool) -> None:
        """Tell a Failover consumer whether it receives."""

    def reached_end(self, consumer_id: int) -> None:
        """Tell a consumer that nothing will come any more, if its client can hear that."""

    def close_producer(self, producer_id: int) -> None:
        """Tell the client that its producer is gone; it will reconnect."""

    def drop_producer(self, producer_id: int) -> None:
        """A producer is gone without a word: what its client still sends ends the connection."""

    def close_consumer(self, consumer_id: int) -> None:
        """Tell the client that its consumer is gone; it will reconnect."""
