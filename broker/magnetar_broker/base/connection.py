"""The interface through which topics reach a client: frames to write, reading to pause."""

from collections.abc import Callable
from typing import Protocol

from magnetar_storage.log.damage import Damage


def host_of(address: str) -> str:
    """Return the host of a connection's address."""
    return address.rpartition(":")[0]


class Connection(Protocol):
    """The connection of one client, as producers and consumers see it."""

    @property
    def address(self) -> str:
        """Host and port of the peer, for people."""

    @property
    def client_version(self) -> str:
        """The name and version that the client sent in CONNECT."""

    @property
    def app_id(self) -> str | None:
        """The client's role; None while authentication is off."""

    @property
    def takes_broker_metadata(self) -> bool:
        """Whether consumers are sent broker entry metadata: the client asked, and it is allowed."""

    def has_room(self) -> bool:
        """Whether the client keeps up; once it does again, dispatch to its consumers is resumed."""

    def send(self, frames: bytes) -> None:
        """Queue whole frames; they are written at the end of the turn."""

    def send_all(self, buffers: list[bytes], size: int) -> None:
        """Send many buffers, of `size` bytes together, in order and without joining them."""

    def release_pending(self, entries: int, size: int) -> None:
        """Note that entries of this client were answered: they no longer count as pending."""

    def hold_reading(self) -> Callable[[], None]:
        """Stop reading from the client; return what resumes it, which is safe to call late."""

    async def is_alive(self) -> bool:
        """Return whether the client answers a PING."""

    def active_changed(self, consumer_id: int, is_active: bool) -> None:
        """Notify a Failover consumer that it became active or inactive (ACTIVE_CONSUMER_CHANGE)."""

    def damaged(self, consumer_id: int, partition: int, damage: Damage) -> None:
        """Notify a consumer of damaged, undelivered entries, if its client supports that."""

    def reached_end(self, consumer_id: int) -> None:
        """Send REACHED_END_OF_TOPIC to a consumer, if its client supports the command."""

    def close_producer(self, producer_id: int, new_owner: str = "") -> None:
        """Send CLOSE_PRODUCER; the client will reconnect.

        `new_owner` is the URL that a lookup of the topic answers now, if the topic has moved to
        another process of this broker.
        """

    def drop_producer(self, producer_id: int) -> None:
        """Remove a producer without notice: a later SEND for it closes the connection."""

    def close_consumer(self, consumer_id: int, new_owner: str = "") -> None:
        """Send CLOSE_CONSUMER; the client will reconnect.  `new_owner`: as in `close_producer`."""
