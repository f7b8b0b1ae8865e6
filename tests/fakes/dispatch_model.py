"""What must be true of deliveries, whatever the dispatcher does: safety and liveness."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fakes.connection import Got, RecordingConnection
from fakes.topics import FAILOVER, SHARED, TopicWorld
from magnetar_broker.consumer import Consumer
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.selection import pick_active
from magnetar_proto.ids import ack_set_to_mask, mask_to_ack_set


@dataclass
class Client:
    """One consumer as its application sees it."""

    consumer: Consumer
    connection: RecordingConnection
    permits: int = 0
    outstanding: set[int] = field(default_factory=set)
    """Delivered to it, and neither acknowledged nor asked for again."""


class DispatchModel:
    """Drives one subscription of a `TopicWorld`; every step checks what was delivered."""

    def __init__(self, world: TopicWorld, sub_type: int) -> None:
        self.world = world
        self.type = sub_type
        self.shared = sub_type == SHARED
        self.entries: list[bytes] = []
        self.left: list[int] = []
        """Of each entry, the mask of messages that are not acknowledged."""
        self.counts: list[int] = []
        self.clients: list[Client] = []
        self.nacks: dict[int, int] = {}
        self.position = 0
        """Single active: where delivery has got to since the last rewind."""
        self.join(0)
        self.leave(0)  # the subscription exists from the start

    # Steps ----------------------------------------------------------------------------

    def publish(self, count: int) -> None:
        first = len(self.entries)
        counts = [(first + i) % 4 + 1 for i in range(count)]
        payloads = [b"entry %d" % (first + i) for i in range(count)]
        self.entries += payloads
        self.counts += counts
        self.left += [(1 << n) - 1 for n in counts]
        self.world.publish(*payloads, counts=counts)
        self.check()

    def join(self, priority: int) -> None:
        if self.clients and not self.shared and self.type != FAILOVER:
            return
        before = self.active()
        connection = RecordingConnection()
        consumer = self.world.subscribe(connection, sub_type=self.type, priority=priority)
        self.clients.append(Client(consumer, connection))
        self._changed_from(before)

    def leave(self, which: int) -> None:
        client = self._client(which)
        if client is None:
            return
        before = self.active()
        self.clients.remove(client)
        if not self.clients:
            self.nacks.clear()
        client.consumer.close()
        self._changed_from(before)

    def flow(self, which: int, permits: int) -> None:
        client = self._client(which)
        if client is not None:
            client.permits += permits
            client.consumer.subscription.flow(client.consumer, permits)
            self.check()

    def ack(self, which: int, pick: int) -> None:
        offset = self._pick(which, pick)
        if offset is not None:
            self._acked(offset, 0)
            anybody = self.clients[(which + pick) % len(self.clients)]
            self.world.ack(anybody.consumer, offset)
            self.check()

    def ack_many(self, which: int, step: int) -> None:
        """In one command, whoever holds them."""
        held = sorted(o for c in self.clients for o in c.outstanding if self.left[o])
        some = held[:: step % 3 + 1]
        if some:
            for offset in some:
                self._acked(offset, 0)
            self.world.ack(self.clients[which % len(self.clients)].consumer, *some)
            self.check()

    def ack_part(self, which: int, pick: int) -> None:
        """One message of a batch."""
        offset = self._pick(which, pick)
        if offset is not None:
            bit = 1 << pick % self.counts[offset]
            unacked = (1 << self.counts[offset]) - 1 & ~bit
            self._acked(offset, self.left[offset] & unacked)
            client = self.clients[which % len(self.clients)]
            words = mask_to_ack_set(unacked) or (0,)
            self.world.ack(client.consumer, offset, ack_set=words)
            self.check()

    def ack_up_to(self, which: int, pick: int) -> None:
        """Cumulatively; that means nothing to a shared subscription."""
        offset = self._pick(which, pick)
        if offset is not None:
            for one in range(offset + 1 if not self.shared else 0):
                self._acked(one, 0)
            client = self.clients[which % len(self.clients)]
            assert self.world.ack(client.consumer, offset, cumulative=True) == [None]
            self.check()

    def nack(self, which: int, pick: int) -> None:
        """Ask for one entry again; on a single active consumer that rewinds."""
        offset = self._pick(which, pick)
        if offset is not None:
            self._nack(self.clients[which % len(self.clients)], [offset])

    def nack_all(self, which: int, _: int) -> None:
        client = self._client(which)
        if client is not None:
            self._nack(client, [])

    def jam(self, which: int, room: int) -> None:
        """The connection is full, or has room again."""
        client = self._client(which)
        if client is not None:
            client.connection.room = bool(room % 2)
            if client.connection.room:
                client.consumer.subscription.wake()
            self.check()

    def tidy(self) -> None:
        """Trim what is acknowledged."""
        self.world.do(self.world.topic.tidy())
        self.check()

    def advance(self, seconds: int) -> None:
        self.world.clock.advance(seconds)
        self.check()

    # Safety ---------------------------------------------------------------------------

    def check(self) -> None:
        """Look at everything that was delivered since the last look."""
        for again in (False, True):
            for client in self.clients:
                for message in client.connection.take():
                    self._delivered(client, message)
            if not again:
                self.world.clock.pump()

    def _delivered(self, client: Client, message: Got) -> None:
        offset = int(message.payload.split()[1])
        assert message.payload == self.entries[offset]
        assert self.world.topic.log.offset_of(message.ledger, message.entry) == offset
        assert message.consumer_id == client.consumer.id
        assert self.left[offset], "it was acknowledged"
        assert client.permits > 0, "it has no permits"
        client.permits -= self.left[offset].bit_count()
        assert client.consumer.permits == client.permits or self._more_to_look_at(client)
        whole = self.left[offset] == (1 << self.counts[offset]) - 1
        assert ack_set_to_mask(message.ack_set) == (0 if whole else self.left[offset])
        if self.shared:
            assert not any(offset in c.outstanding for c in self.clients), "delivered twice"
            assert message.redelivery_count == self.nacks.get(offset, 0)
        else:
            assert client is self.active()
            assert offset == self.next_unacked(self.position), "out of order"
            assert message.redelivery_count == 0
            self.position = offset + 1
        client.outstanding.add(offset)

    def _more_to_look_at(self, client: Client) -> bool:
        """The consumer was sent more in the same turn, so its permits are lower already."""
        return client.consumer.permits < client.permits

    # Liveness -------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can; then what is not delivered has a true reason."""
        self.world.clock.advance(5)
        self.check()
        blocker = self.world.subscription().dispatcher.blocker()
        assert self.reasons()[blocker](), f"{blocker} is not true"
        backlog = self.world.do(self.world.subscription().backlog())
        assert backlog.messages == sum(mask.bit_count() for mask in self.left)
        assert backlog.entries == sum(map(bool, self.left))

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
        unacked = {offset for offset, mask in enumerate(self.left) if mask}
        if self.shared:
            return unacked.difference(*(c.outstanding for c in self.clients))
        return {offset for offset in unacked if offset >= self.position}

    def drain(self) -> None:
        """With consumers that do all they can, everything gets acknowledged."""
        if not self.clients:
            self.join(0)
        for _ in range(4 * len(self.entries) + 8):
            for which, client in enumerate(self.clients):
                self.jam(which, 1)
                if client.permits < 10:
                    self.flow(which, 10)
                for offset in sorted(client.outstanding):
                    if self.left[offset]:
                        self._acked(offset, 0)
                        self.world.ack(client.consumer, offset)
            self.settle()
            if not any(self.left):
                break
        assert not any(self.left), "the subscription went silent"
        cursor = self.world.subscription().cursor
        assert (cursor.mark_delete, cursor.is_plain) == (len(self.entries) - 1, True)
        assert all(client.consumer.unacked == 0 for client in self.clients)

    # Looking at the model ----------------------------------------------------------------------

    def active(self) -> Client | None:
        """Who receives, if only one does."""
        name = self.world.name
        picked = pick_active([c.consumer for c in self.clients], str(name), name.partition)
        return next((c for c in self.clients if c.consumer is picked), None)

    def next_unacked(self, position: int) -> int:
        return next(o for o in range(position, len(self.left) + 1) if self._is_left(o))

    def _is_left(self, offset: int) -> bool:
        return offset == len(self.left) or bool(self.left[offset])

    def _changed_from(self, before: Client | None) -> None:
        if self.active() is not before:
            self.position = 0
        self.check()

    def _client(self, which: int) -> Client | None:
        return self.clients[which % len(self.clients)] if self.clients else None

    def _pick(self, which: int, pick: int) -> int | None:
        """One of the entries that a client holds."""
        client = self._client(which)
        held = sorted(o for o in client.outstanding if self.left[o]) if client else []
        return held[pick % len(held)] if held else None

    def _acked(self, offset: int, left: int) -> None:
        self.left[offset] = left
        if left == 0:
            self.nacks.pop(offset, None)
            for client in self.clients:
                client.outstanding.discard(offset)

    def _nack(self, client: Client, offsets: list[int]) -> None:
        wanted = offsets or sorted(client.outstanding)
        if self.shared:
            for offset in wanted:
                self.nacks[offset] = self.nacks.get(offset, 0) + 1
            client.outstanding -= set(wanted)
        elif client is self.active():
            self.position = 0
            client.outstanding.clear()
        self.world.nack(client.consumer, *offsets, *offsets)  # named twice is named once
        self.check()

    def _unacked(self, client: Client) -> int:
        return sum(self.left[offset].bit_count() for offset in client.outstanding)
