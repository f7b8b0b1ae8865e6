"""The invariants of deliveries with any dispatcher: safety and liveness."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fakes.connection import Got, RecordingConnection
from fakes.pace import Pace
from fakes.topics import KEY_SHARED, SHARED, TopicWorld
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.dispatch.selection import pick_active
from magnetar_proto.ids import ack_set_to_mask
from magnetar_proto.sticky_key import sticky_key

TICK_MS = 1000
"""How early a delayed entry may be delivered if delays are not strict."""


@dataclass
class Client:
    """A consumer as its application sees it."""

    consumer: Consumer
    connection: RecordingConnection
    permits: int = 0
    outstanding: set[int] = field(default_factory=set)
    """The entries delivered to it, and neither acknowledged nor returned."""


@dataclass
class Published:
    """One entry, and its state in the subscription."""

    payload: bytes
    count: int
    key: int = 0
    deliver_at_ms: int = 0
    chunk: tuple[str, int] | None = None
    """The message and the number of a chunk."""
    left: int = 0
    """The mask of messages that are not acknowledged."""
    nacks: int = 0
    most_nacks: int = 0
    """The highest `nacks` since the last durable state."""
    fresh: bool = True
    """Whether so far only the entry itself is certainly durable."""
    forgotten: bool = False
    """Whether its delay was lost in an early crash, and may be found only when it is read."""
    safe: tuple[int, int] = (0, 0)
    """The highest `left`, and the lowest `nacks`, that a crash may restore."""

    def __post_init__(self) -> None:
        self.restore()
        self.fresh = True

    @property
    def whole(self) -> int:
        """The mask of all its messages."""
        return (1 << self.count) - 1

    def restore(self) -> None:
        """Make all of it unacknowledged, durably."""
        self.left, self.nacks = self.whole, 0
        self.settle()

    def asked_again(self) -> None:
        """Count a request for its redelivery."""
        self.nacks += 1
        self.most_nacks = max(self.most_nacks, self.nacks)

    def settle(self) -> None:
        """Record that its state is durable."""
        self.safe, self.most_nacks = (self.left, self.nacks), self.nacks
        self.fresh = False


class Oracle:
    """The expected behaviour of one subscription of a `TopicWorld` so far."""

    def __init__(self, world: TopicWorld, sub_type: int) -> None:
        self.world = world
        self.type = sub_type
        self.shared = sub_type in (SHARED, KEY_SHARED)
        self.by_key = sub_type == KEY_SHARED
        self.meta = KeySharedMeta()
        """The Key_Shared policy."""
        self.entries: list[Published] = []
        self.clients: list[Client] = []
        self.position = 0
        """The next offset of a single active consumer since the last rewind."""
        self.begun: dict[str, Client] = {}
        """The client that was last sent a chunk, by message."""
        self.pace = Pace(0, 0)
        self._offsets: dict[bytes, int] = {}

    # Safety ---------------------------------------------------------------------------

    def check(self) -> None:
        """Check everything that was delivered since the last check."""
        came = 0
        for again in (False, True):
            for client in self.clients:
                for message in client.connection.take(client.consumer.id):
                    came += self._delivered(client, message)
            if not again:
                self.world.clock.pump()
        self.pace.came(came, self.world.clock.now_ms())

    def pass_time(self, seconds: int) -> None:
        """Check each second; afterwards everything so far is durable."""
        for _ in range(seconds):
            self.world.clock.advance(1)
            self.check()
        self.durable()

    def _delivered(self, client: Client, message: Got) -> int:
        """Check one entry; return how many of its messages were delivered."""
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
            assert not self._is_early(entry), "it was to be delivered later"
            others = {o for c in self.clients if c is not client for o in c.outstanding}
            if entry.chunk is not None and not self.by_key:
                self.begun[entry.chunk[0]] = client
                assert not any(self._goes_with(entry, other) for other in others), "torn apart"
            if self.by_key and not self.meta.out_of_order:
                self._delivered_by_key(offset, others)
        else:
            assert client is self.active()
            assert offset == self.next_unacked(self.position), "out of order"
            assert message.redelivery_count == 0
            self.position = offset + 1
        client.outstanding.add(offset)
        return entry.left.bit_count()

    def _delivered_by_key(self, offset: int, with_others: set[int]) -> None:
        key = self.entries[offset].key
        assert all(self.entries[o].key != key for o in with_others), "a key at two consumers"
        for before in self.undelivered():
            overtaken = before < offset and self.entries[before].key == key
            delayed = self.entries[before].deliver_at_ms  # such an entry has no place in the order
            assert not overtaken or delayed, "out of order"

    def _goes_with(self, entry: Published, other: int) -> bool:
        """Tell whether an entry is a chunk of the same message as another one."""
        chunk = self.entries[other].chunk
        return chunk is not None and entry.chunk is not None and chunk[0] == entry.chunk[0]

    def _is_early(self, entry: Published) -> bool:
        """Tell whether an entry may not be delivered yet."""
        tick_ms = 0 if self.world.limits.strict_delays else TICK_MS
        return entry.deliver_at_ms > self.world.clock.now_ms() + tick_ms

    def _may_wait(self, entry: Published) -> bool:
        """Tell whether an entry need not be delivered yet: it may come a tick late."""
        return entry.deliver_at_ms > self.world.clock.now_ms() - TICK_MS

    def _more_to_look_at(self, client: Client) -> bool:
        """Tell whether the consumer was sent more in this turn, so that its permits are lower."""
        return client.consumer.permits < client.permits

    def acked(self, offset: int, left: int) -> None:
        """Record an acknowledgement of an entry without the messages of the mask `left`."""
        entry = self.entries[offset]
        entry.left = left
        if left == 0:
            entry.nacks = 0
            for client in self.clients:
                client.outstanding.discard(offset)

    def survived(self) -> None:
        """Check after a crash that durable state exists, and accept the loss of the rest."""
        counts = self.world.subscription().cursor.redelivered
        for offset, entry in enumerate(self.entries):
            found, nacks = self._left_of(offset, entry), counts.get(offset, 0)
            assert entry.left & ~found == 0, "acknowledged without an ACK"
            assert found & ~entry.safe[0] == 0, "an acknowledgement that was durable is gone"
            assert nacks <= entry.most_nacks if found else nacks == 0, (
                "counted without a redelivery"
            )
            assert not entry.left or nacks >= entry.safe[1], "a count that was durable is gone"
            entry.left, entry.nacks = found, nacks
            entry.forgotten |= entry.fresh
            entry.settle()
        assert self.world.topic.log.end == len(self.entries)

    def _left_of(self, offset: int, entry: Published) -> int:
        cursor = self.world.subscription().cursor
        if cursor.is_acked(offset):
            return 0
        return cursor.partial.get(offset, entry.whole)

    def durable(self) -> None:
        """Record that everything so far survives a crash."""
        for entry in self.entries:
            entry.settle()

    # Liveness -------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can; then check why the rest is not delivered."""
        self.pass_time(5)
        blocker = self.world.subscription().dispatcher.blocker()
        assert self.reasons()[blocker](), f"{blocker} is not true"
        backlog = self.world.do(self.world.subscription().backlog())
        assert backlog.messages == sum(entry.left.bit_count() for entry in self.entries)
        assert backlog.entries == sum(bool(entry.left) for entry in self.entries)
        waits = self.shared or not self.clients
        late = [entry for entry in self.entries if waits and entry.left]
        least = sum(e.left.bit_count() for e in late if self._is_early(e) and not e.forgotten)
        most = sum(e.count for e in late if self._may_wait(e))
        assert least <= backlog.delayed <= most

    def reasons(self) -> dict[Blocker, Callable[[], bool]]:
        """Return for each possible reason whether it holds; other reasons must not occur."""
        if self.by_key:
            return self._reasons_by_key()
        limits = self.world.limits
        unacked = {id(c): self._unacked(c) for c in self.clients}
        deciding = [c for c in self.clients if self.shared or c is self.active()]
        free = [c for c in deciding if not c.consumer.blocked]
        willing = [c for c in free if c.permits > 0]
        return {
            Blocker.NO_CONSUMER: lambda: not self.clients,
            Blocker.CAUGHT_UP: lambda: bool(self.clients) and not self.undelivered(),
            Blocker.DELAY: self._all_wait,
            Blocker.RATE: self._rate_is_spent,
            Blocker.CHUNK: lambda: all(
                self._has_unwilling_owner(entry) or self._may_wait(entry)
                for entry in map(self.entries.__getitem__, self.undelivered())
            ),
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

    def _reasons_by_key(self) -> dict[Blocker, Callable[[], bool]]:
        """Accept any reason, as long as no consumer could be sent anything."""
        some = bool(self.undelivered())
        busy = any(self._stuck_at(client) for client in self.clients)
        full = 2 * sum(map(self._unacked, self.clients))
        most = self.world.limits.max_unacked_per_subscription
        fair = bool(self.clients) and some and not self.deliverable_by_key()
        ahead = self.world.limits.key_shared_look_ahead_per_subscription
        return {
            Blocker.NO_CONSUMER: lambda: not self.clients,
            Blocker.CAUGHT_UP: lambda: bool(self.clients) and not some,
            Blocker.DELAY: self._all_wait,
            Blocker.RATE: self._rate_is_spent,
            Blocker.NO_PERMITS: lambda: fair and busy,
            Blocker.SLOW_CONNECTION: lambda: fair and busy,
            Blocker.UNACKED_CONSUMER: lambda: fair and busy,
            Blocker.DRAINING_KEY: lambda: fair and any(c.outstanding for c in self.clients),
            Blocker.UNACKED_SUBSCRIPTION: lambda: some and full >= most > 0,
            Blocker.LOOK_AHEAD: lambda: len(self.undelivered()) >= ahead,
        }

    def deliverable_by_key(self) -> list[int]:
        """Return the next entries of their keys whose owners could receive them."""
        heads: dict[int, int] = {}
        for offset in sorted(self.undelivered()):
            if not self._may_wait(self.entries[offset]):
                heads.setdefault(self.entries[offset].key, offset)
        return [offset for key, offset in heads.items() if self._could_have(key, offset)]

    def _could_have(self, key: int, offset: int) -> bool:
        dispatcher = self.world.subscription().dispatcher
        assert isinstance(dispatcher, KeyShared)
        slots = dispatcher.queues.slots
        owner = slots.owner(slots.slot_of(sticky_key(self.entries[offset].payload)))
        client = next((c for c in self.clients if c.consumer is owner), None)
        if client is None or self._stuck_at(client):
            return False
        others = {o for c in self.clients if c is not client for o in c.outstanding}
        return self.meta.out_of_order or all(self.entries[o].key != key for o in others)

    @staticmethod
    def _stuck_at(client: Client) -> bool:
        """Tell whether a consumer has no room."""
        return client.permits <= 0 or client.consumer.blocked or not client.connection.room

    def _all_wait(self) -> bool:
        """Tell whether all remaining entries are to be delivered later."""
        left = [self.entries[offset] for offset in self.undelivered()]
        return bool(left) and all(map(self._may_wait, left))

    def _rate_is_spent(self) -> bool:
        return bool(self.undelivered()) and self.pace.may_be_spent(self.world.clock.now_ms())

    def _has_unwilling_owner(self, entry: Published) -> bool:
        """Tell whether an entry continues a message of a consumer that accepts nothing."""
        owner = None if entry.chunk is None else self.begun.get(entry.chunk[0])
        return owner in self.clients and self._stuck_at(owner)

    def undelivered(self) -> set[int]:
        """Return the entries that are neither acknowledged nor with a consumer."""
        unacked = {offset for offset, entry in enumerate(self.entries) if entry.left}
        if self.shared:
            return unacked.difference(*(c.outstanding for c in self.clients))
        return {offset for offset in unacked if offset >= self.position}

    # Queries --------------------------------------------------------------------------

    def active(self) -> Client | None:
        """Return the client that receives, if only one does."""
        name = self.world.name
        picked = pick_active([c.consumer for c in self.clients], str(name), name.partition)
        return next((c for c in self.clients if c.consumer is picked), None)

    def next_unacked(self, position: int) -> int:
        """Return the first entry from `position` on that is not fully acknowledged, or the end."""
        end = len(self.entries)
        return next((o for o in range(position, end) if self.entries[o].left), end)

    def held(self, *clients: Client) -> list[int]:
        """Return the entries that these clients have and did not acknowledge, in order."""
        return sorted(o for c in clients for o in c.outstanding if self.entries[o].left)

    def _unacked(self, client: Client) -> int:
        return sum(self.entries[offset].left.bit_count() for offset in client.outstanding)
