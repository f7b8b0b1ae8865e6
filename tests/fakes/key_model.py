"""A model of a Key_Shared subscription: consumers join, leave, acknowledge and return messages."""

from dataclasses import dataclass, field
from typing import Any

from fakes.connection import RecordingConnection
from fakes.topics import KEY_SHARED, TopicWorld
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.subscriptions.skipping import skip_messages, skip_runs
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from magnetar_proto.sticky_key import sticky_key

QUARTERS = tuple((start, start + 16383) for start in range(0, 65536, 16384))
WAITING = {
    Blocker.NO_CONSUMER, Blocker.NO_PERMITS, Blocker.SLOW_CONNECTION, Blocker.UNACKED_CONSUMER,
    Blocker.UNACKED_SUBSCRIPTION, Blocker.DRAINING_KEY, Blocker.LOOK_AHEAD, Blocker.NO_OWNER,
    Blocker.CAUGHT_UP,
}  # fmt: skip
"""The reasons that are possible when no task and no timer has anything left to do."""


def keyed(key: str, payload: bytes = b"", **fields: Any) -> bytes:
    """Return an entry with a key."""
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, partition_key=key, **fields
    )
    return encode_entry(metadata, payload)


@dataclass
class Client:
    """A consumer, and its pending entries in the order of their arrival."""

    consumer: Consumer
    connection: RecordingConnection
    held: list[int] = field(default_factory=list)


class KeyModel:
    """Checks after every step that keys keep their order and have one consumer each."""

    def __init__(self, world: TopicWorld, sticky: bool, out_of_order: bool) -> None:
        self.world = world
        self.sticky = sticky
        self.out_of_order = out_of_order
        self.clients: list[Client] = []
        self.keys: list[str] = []
        self.acked: set[int] = set()
        self.taken: dict[int, Client] = {}  # quarters of the slots, by the client that chose them

    # Steps --------------------------------------------------------------------------------

    def publish(self, keys: list[int]) -> None:
        entries = [keyed(f"k{key}") for key in keys]
        self.keys += [f"k{key}" for key in keys]
        self.world.publish(*entries)
        self.check()

    def join(self, name: int, permits: int) -> None:
        ranges: tuple[tuple[int, int], ...] = ()
        free = [quarter for quarter in range(4) if quarter not in self.taken]
        if self.sticky:
            if not free:
                return
            ranges = (QUARTERS[free[name % len(free)]],)
        meta = KeySharedMeta(self.sticky, self.out_of_order, ranges)
        connection = RecordingConnection()
        consumer = self.world.subscribe(
            connection, sub_type=KEY_SHARED, key_shared=meta, consumer_name=f"c{name % 2}",
            earliest=True,
        )  # fmt: skip
        client = Client(consumer, connection)
        if self.sticky:
            self.taken[free[name % len(free)]] = client
        self.clients.append(client)
        self.flow(len(self.clients) - 1, permits)

    def leave(self, which: int) -> None:
        client = self._client(which)
        if client is not None:
            self.clients.remove(client)
            self.taken = {quarter: c for quarter, c in self.taken.items() if c is not client}
            client.held.clear()
            client.consumer.close()
            self.check()

    def flow(self, which: int, permits: int) -> None:
        client = self._client(which)
        if client is not None:
            self.world.flow(client.consumer, permits)
            self.check()

    def ack(self, which: int, pick: int) -> None:
        client = self._client(which)
        if client is not None and client.held:
            self.ack_entry(client.held[pick % len(client.held)])

    def ack_entry(self, offset: int) -> None:
        holder = next(c for c in self.clients if offset in c.held)
        for client in self.clients:
            if offset in client.held:
                client.held.remove(offset)
        self.acked.add(offset)
        self.world.ack(holder.consumer, offset)
        self.check()

    def nack(self, which: int, pick: int) -> None:
        client = self._client(which)
        if client is not None and client.held:
            offset = client.held[pick % len(client.held)]
            client.held.remove(offset)
            self.world.nack(client.consumer, offset)
            self.check()

    def nack_all(self, which: int) -> None:
        client = self._client(which)
        if client is not None and client.held:
            client.held.clear()
            self.world.nack(client.consumer)
            self.check()

    def skip(self, messages: int) -> None:
        """Skip the oldest messages, pending or not."""
        left = [offset for offset in range(len(self.keys)) if offset not in self.acked]
        self._skipped(left[:messages])
        self.world.do(skip_messages(self.world.subscription(), messages))
        self.check()

    def evict(self, which: int, messages: int) -> None:
        """Skip some of the oldest messages."""
        offsets = [o for o in range(min(3 * messages, len(self.keys))) if o % 5 != which]
        self._skipped(offsets)
        runs = [range(offset, offset + 1) for offset in offsets]
        self.world.do(skip_runs(self.world.subscription(), runs))
        self.check()

    def _skipped(self, offsets: list[int]) -> None:
        self.acked.update(offsets)
        for client in self.clients:
            client.held = [offset for offset in client.held if offset not in self.acked]

    def jam(self, which: int) -> None:
        client = self._client(which)
        if client is not None:
            client.connection.room = not client.connection.room
            client.consumer.subscription.wake()
            self.check()

    def restart(self) -> None:
        self.world.do(self.world.topic.close())
        self.world.reload()
        self.clients.clear()
        self.taken.clear()

    def drain(self) -> None:
        """Check that with permits, room and acks everything that has an owner is delivered."""
        for client in self.clients:
            client.connection.room = True
        for quarter in range(4) if self.sticky else (0,):
            if quarter not in self.taken:
                self.join(0, 0)
        for _ in range(len(self.keys) + 1):
            for which in range(len(self.clients)):
                self.flow(which, 1000)
            for client in self.clients:
                for offset in list(client.held):
                    self.ack_entry(offset)
        assert self.acked == set(range(len(self.keys))), "the subscription went silent"
        queues = self.dispatcher().queues
        assert not (queues.waiting or queues.draining or queues.unowned or queues._unacked)
        assert self.dispatcher().blocker() is Blocker.CAUGHT_UP
        assert len(self.dispatcher()._unsent) == 0 and not self.dispatcher()._returned

    # Properties ---------------------------------------------------------------------------

    def check(self) -> None:
        """Let everything happen that can, take what arrived, and compare all state."""
        self.world.clock.pump()
        for client in self.clients:
            for offset in self.world.offsets(client.consumer):
                self._arrived(client, offset)
            assert sorted(client.held) == sorted(client.consumer.pending)
        if not self.out_of_order:
            self._one_holder_each()
        if self.clients:
            self._draining_is_what_others_hold()
            assert self.dispatcher().blocker() in WAITING
            self._no_consumer_waits_that_could_be_served()

    def _arrived(self, client: Client, offset: int) -> None:
        assert offset not in self.acked, "delivered although it was acknowledged"
        assert offset not in client.held, "delivered twice"
        key = self.keys[offset]
        if not self.out_of_order:
            before = {o for o in range(offset) if self.keys[o] == key} - self.acked
            assert before <= set(client.held), f"{key} is out of order"
        client.held.append(offset)

    def _one_holder_each(self) -> None:
        holders: dict[str, Client] = {}
        for client in self.clients:
            for offset in client.held:
                holder = holders.setdefault(self.keys[offset], client)
                assert holder is client, f"{self.keys[offset]} is with two consumers"

    def _draining_is_what_others_hold(self) -> None:
        queues, expected = self.dispatcher().queues, dict[int, int]()
        for client in self.clients if not (self.sticky or self.out_of_order) else ():
            for offset in client.held:
                slot = self._slot(offset)
                if queues.slots.owner(slot) is not client.consumer:
                    expected[slot] = expected.get(slot, 0) + 1
        assert {slot: d.entries for slot, d in queues.draining.items()} == expected

    def _no_consumer_waits_that_could_be_served(self) -> None:
        """Check that each entry which its owner could take, and nothing blocks, was delivered."""
        dispatcher = self.dispatcher()
        if dispatcher._receivers.full is not None:
            return
        if dispatcher.blocker() is Blocker.LOOK_AHEAD:
            return
        held = {offset for client in self.clients for offset in client.held}
        for offset in range(len(self.keys)):
            if offset in held or offset in self.acked:
                continue
            slot = self._slot(offset)
            owner = dispatcher.queues.slots.owner(slot)
            if owner is None or slot in dispatcher.queues.draining:
                continue
            assert not owner.can_take(), f"{offset} could be delivered"

    def _slot(self, offset: int) -> int:
        return self.dispatcher().queues.slots.slot_of(sticky_key(keyed(self.keys[offset])))

    def dispatcher(self) -> KeyShared:
        found = self.world.subscription().dispatcher
        assert isinstance(found, KeyShared)
        return found

    def _client(self, which: int) -> Client | None:
        return self.clients[which % len(self.clients)] if self.clients else None
