"""What must be true of deliveries, whatever the dispatcher does: safety and liveness."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fakes.connection import Got, RecordingConnection
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.consumer import Consumer
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.selection import pick_active
from magnetar_proto.ids import ack_set_to_mask


@dataclass
class Client:
    """One consumer as its application sees it."""

    consumer: Consumer
    connection: RecordingConnection
    permits: int = 0
    outstanding: set[int] = field(default_factory=set)
    """Delivered to it, and neither acknowledged nor asked for again."""


@dataclass
class Published:
    """One entry, and what its subscription has done with it."""

    payload: bytes
    count: int
    left: int = 0
    """The mask of messages that are not acknowledged."""
    nacks: int = 0
    most_nacks: int = 0
    """Since it was last durable."""
    safe: tuple[int, int] = (0, 0)
    """The most of `left`, and the least of `nacks`, that a crash may bring back."""

    def __post_init__(self) -> None:
        self.restore()

    @property
    def whole(self) -> int:
        """The mask of all its messages."""
        return (1 << self.count) - 1

    def restore(self) -> None:
        """Nothing of it is acknowledged (any more), and that is durable."""
        self.left, self.nacks = self.whole, 0
        self.settle()

    def asked_again(self) -> None:
        """A consumer wants it once more."""
        self.nacks += 1
        self.most_nacks = max(self.most_nacks, self.nacks)

    def settle(self) -> None:
        """What was done with it is durable now."""
        self.safe, self.most_nacks = (self.left, self.nacks), self.nacks


class Oracle:
    """What one subscription of a `TopicWorld` should have done so far."""

    def __init__(self, world: TopicWorld, sub_type: int) -> None:
        self.world = world
        self.type = sub_type
        self.shared = sub_type == SHARED
        self.entries: list[Published] = []
        self.clients: list[Client] = []
        self.position = 0
        """Single active: where delivery has got to since the last rewind."""
        self._offsets: dict[bytes, int] = {}

    # Safety ---------------------------------------------------------------------------

    def check(self) -> None:
        """Look at everything that was delivered since the last look."""
        for again in (False, True):
            for client in self.clients:
                for message in client.connection.take(client.consumer.id):
                    self._delivered(client, message)
            if not again:
                self.world.clock.pump()

    def _delivered(self, client: Client, message: Got) -> None:
        offset = self._offsets[message.payload]
        entry = self.entries[offset]
        assert self.world.topic.log.offset_of(message.ledger, message.entry) == offset
        assert entry.left, "it was acknowledged"
        assert client.permits > 0, "it has no permits"
        client.permits -= entry.left.bit_count()
        assert client.consumer.permits == client.permits or self._more_to_look_at(client)
        sent = ack_set_to_mask(message.ack_set)
        assert sent == (0 if entry.left == entry.whole else entry.left)
        if self.shared:
            assert not any(offset in c.outstanding for c in self.clients), "delivered twice"
            assert message.redelivery_count == entry.nacks
        else:
            assert client is self.active()
            assert offset == self.next_unacked(self.position), "out of order"
            assert message.redelivery_count == 0
            self.position = offset + 1
        client.outstanding.add(offset)

    def _more_to_look_at(self, client: Client) -> bool:
        """The consumer was sent more in the same turn, so its permits are lower already."""
        return client.consumer.permits < client.permits

    def acked(self, offset: int, left: int) -> None:
        """So much of an entry is not acknowledged now."""
        entry = self.entries[offset]
        entry.left = left
        if left == 0:
            entry.nacks = 0
            for client in self.clients:
                client.outstanding.discard(offset)

    def survived(self) -> None:
        """After a crash: what was durable holds, what was undone meanwhile is known again."""
        counts = self.world.subscription().cursor.redelivered
        for offset, entry in enumerate(self.entries):
            found, nacks = self._left_of(offset, entry), counts.get(offset, 0)
            assert entry.left & ~found == 0, "acknowledged by nobody"
            assert found & ~entry.safe[0] == 0, "an acknowledgement that was durable is gone"
            assert nacks <= entry.most_nacks if found else nacks == 0, "counted by nobody"
            assert not entry.left or nacks >= entry.safe[1], "a count that was durable is gone"
            entry.left, entry.nacks = found, nacks
            entry.settle()
        assert self.world.topic.log.end == len(self.entries)

    def _left_of(self, offset: int, entry: Published) -> int:
        cursor = self.world.subscription().cursor
        if cursor.is_acked(offset) or offset < self.world.topic.log.first_offset:
            return 0
        return cursor.partial.get(offset, entry.whole)

    def durable(self) -> None:
        """Everything so far survives a crash."""
        for entry in self.entries:
            entry.settle()

    # Liveness -------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can; then what is not delivered has a true reason."""
        self.world.clock.advance(5)
        self.check()
        self.durable()
        blocker = self.world.subscription().dispatcher.blocker()
        assert self.reasons()[blocker](), f"{blocker} is not true"
        backlog = self.world.do(self.world.subscription().backlog())
        assert backlog.messages == sum(entry.left.bit_count() for entry in self.entries)
        assert backlog.entries == sum(bool(entry.left) for entry in self.entries)

    def reasons(self) -> dict[Blocker, Callable[[], bool]]:
        """What each reason claims; one that is missing here must never be given."""
        limits = self.world.limits
        unacked = {id(c): self._unacked(c) for c in self.clients}
        deciding = [c for c in self.clients if self.shared or c is self.active()]
        free = [c for c in deciding if not c.consumer.blocked]
        willing = [c for c in free if c.permits > 0]
        return {
            Blocker.NO_CONSUMER: lambda: not self.clients,
            Blocker.CAUGHT_UP: lambda: bool(self.clients) and not self.undelivered(),
            Blocker.NO_PERMITS: lambda: bool(self.undelivered()) and bool(free) and not willing,
            Blocker.SLOW_CONNECTION: lambda: (
                bool(self.undelivered())
                and bool(willing)
                and not any(c.connection.room for c in willing)
            ),
            Blocker.UNACKED_CONSUMER: lambda: (
                not free
                and all(2 * unacked[id(c)] > limits.max_unacked_per_consumer for c in self.clients)
            ),
            Blocker.UNACKED_SUBSCRIPTION: lambda: (
                bool(self.undelivered())
                and 2 * sum(unacked.values()) >= limits.max_unacked_per_subscription > 0
            ),
        }

    def undelivered(self) -> set[int]:
        """What is neither acknowledged nor with a consumer."""
        unacked = {offset for offset, entry in enumerate(self.entries) if entry.left}
        if self.shared:
            return unacked.difference(*(c.outstanding for c in self.clients))
        return {offset for offset in unacked if offset >= self.position}

    # Looking --------------------------------------------------------------------------

    def active(self) -> Client | None:
        """Who receives, if only one does."""
        name = self.world.name
        picked = pick_active([c.consumer for c in self.clients], str(name), name.partition)
        return next((c for c in self.clients if c.consumer is picked), None)

    def next_unacked(self, position: int) -> int:
        """The first entry from `position` on of which something is left, else the end."""
        end = len(self.entries)
        return next((o for o in range(position, end) if self.entries[o].left), end)

    def held(self, *clients: Client) -> list[int]:
        """What these have and did not acknowledge, in order."""
        return sorted(o for c in clients for o in c.outstanding if self.entries[o].left)

    def _unacked(self, client: Client) -> int:
        return sum(self.entries[offset].left.bit_count() for offset in client.outstanding)
