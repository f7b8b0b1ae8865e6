"""Key_Shared: every key goes to one consumer at a time, in order."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from magnetar_broker.consumer import Consumer
from magnetar_broker.dispatch.base import Blocker, DispatchLimits, Stream
from magnetar_broker.dispatch.kept import Entry, KeptEntries
from magnetar_broker.dispatch.key_queues import KeyQueues
from magnetar_broker.dispatch.key_selection import (
    ChosenRanges,
    HashRing,
    KeySharedMeta,
    RangeHalving,
    SlotOwners,
)
from magnetar_broker.dispatch.many_active import ManyActive
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.interfaces import Run

ROUTED_AT_ONCE = 5000
"""After so many entries others have their turn, even if nothing could be delivered."""


def slot_owners(meta: KeySharedMeta, limits: DispatchLimits) -> SlotOwners[Consumer]:
    """How consumers with these wishes divide the slots."""
    if meta.sticky:
        return ChosenRanges()
    return HashRing(limits.key_shared_ring_points) if limits.key_shared_ring else RangeHalving()


@dataclass
class Share:
    """What one consumer gets of a run; `room` counts messages."""

    room: int
    offsets: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, offset: int, payload: bytes, count: int) -> None:
        self.offsets.append(offset)
        self.payloads.append(payload)
        self.counts.append(count)
        self.room -= count


class KeyShared(ManyActive):
    """Entries are read ahead of consumers that cannot take them, for the sake of those that can.

    What waits goes before what is new; a consumer gets its entries in the order of the log but for
    those that waited for a draining slot or come again.
    """

    def __init__(self, stream: Stream, meta: KeySharedMeta) -> None:
        super().__init__(stream)
        self.meta = meta
        drains = not meta.sticky and not meta.out_of_order
        self.queues = KeyQueues(slot_owners(meta, stream.limits), drains)
        self._kept = KeptEntries()
        self._unrouted = ReplayQueue()  # entries whose slots are not known
        self._returned: set[int] = set()  # entries that wait and were delivered before

    @property
    def in_replay(self) -> int:
        return len(self.queues.waiting) + len(self._unrouted) + self.queues.unowned.covered()

    # Consumers and what waits ---------------------------------------------------------

    def rival(self, wanted: KeySharedMeta) -> Consumer | None:
        """Who has to go before a consumer with these wishes may join; `ConsumerUnassigned`."""
        return self.queues.slots.check(wanted)

    def _joined(self, consumer: Consumer) -> None:
        self._unrouted.restore()
        self.queues.add(consumer)
        for start, stop in self.queues.take_unowned():
            self._unrouted.add_all(range(start, stop))

    def _left(self, consumer: Consumer) -> None:
        self.queues.remove(consumer)

    def _wait(self, offsets: Sequence[int]) -> None:
        unknown = []
        for offset in offsets:
            slot, _ = self.queues.let_go(offset)
            if slot is not None:
                self._returned.add(offset)
                self.queues.wait(offset, slot)
            elif offset not in self.queues.waiting:
                unknown.append(offset)
        self._unrouted.add_all(unknown)

    def _settled(self, offsets: range) -> None:
        not_held, drained = self.queues.settle(offsets)
        for offset in not_held:
            self._forget(offset)
        if drained:
            self._wake_soon()

    def _forget(self, offset: int) -> None:
        """An entry that waited, if at all, does so no longer."""
        self.queues.waiting.pop(offset, None)
        self._kept.discard(offset)
        self._returned.discard(offset)
        self._unrouted.discard(offset)
        self.queues.unowned.remove(offset, offset + 1)

    def _forget_waiting(self) -> None:
        self.queues.clear()
        self._kept.clear()
        self._returned.clear()
        self._unrouted.clear()

    # Delivering what waits --------------------------------------------------------------

    def dispatch(self) -> None:
        routed = 0
        while True:
            for consumer in self._held.consumers:
                if self.queues.first(consumer) is not None and consumer.can_take():
                    self._serve(consumer)
            if routed >= ROUTED_AT_ONCE:
                self._wake_soon()
                return
            some = self._route_again() or self._read_on()
            if not some:
                return
            routed += some

    def _serve(self, consumer: Consumer) -> None:
        """Give what waits for a consumer, as far as it has room and the entries are in memory."""
        queues, share = self.queues, Share(0)
        room, room_for_new = self._held.room(consumer), self._held.room_for_new(consumer)
        if self._held.full is not None:
            room_for_new = 0
        while (offset := queues.first(consumer)) is not None:
            again = offset in self._returned
            if share.room + (room if again else room_for_new) <= 0:
                break
            entry = self._entry(offset)
            if entry is None:
                break
            if offset not in queues.waiting:
                continue
            queues.give_first(consumer)
            self._kept.discard(offset)
            self._returned.discard(offset)
            share.add(offset, *entry)
        if share.offsets:
            self._give(consumer, share)

    def _entry(self, offset: int) -> Entry | None:
        """An entry that waits; None while it is being read.

        If it is gone, or cannot be read, it does not wait any more, and what comes back is empty.
        """
        entry = self._kept.get(offset)
        if entry is not None:
            return entry
        if offset < self._log.first_offset or self._cursor.is_acked(offset):
            self.queues.drop(range(offset, offset + 1))
            return b"", 0
        size = self._limits.max_read_bytes
        run = self._log.recent(offset, 1, size) or self._replay_feed.take(offset, 1, size)
        if run is not None:
            return run.payloads[0], run.counts[0]
        lost = self._replay_feed.give_up()
        if not lost:
            return None
        # What is behind the damage must not wait for it.
        self._unrouted.add_all(self.queues.drop(lost))
        self._unrouted.set_aside(lost)
        return b"", 0

    # Reading and routing ------------------------------------------------------------------

    def _wanted(self) -> int:
        """How many entries to read, by what consumers can take and how many wait already."""
        if self._held.full is not None:
            return 0
        takers = [consumer for consumer in self._held.consumers if consumer.can_take()]
        room = sum(max(self._held.room_for_new(consumer), 0) for consumer in takers)
        most = self._limits.max_read_entries * len(takers)
        return min(room, most, self._look_ahead() - len(self.queues.waiting))

    def _look_ahead(self) -> int:
        """How many entries may wait, whether for room or for draining slots."""
        limits = self._limits
        bounds = (
            limits.key_shared_look_ahead_per_consumer * len(self._held.consumers),
            limits.key_shared_look_ahead_per_subscription,
        )
        return min((bound for bound in bounds if bound > 0), default=1 << 31)

    def _read_on(self) -> int:
        """Route the next new entries; how many there were."""
        wanted = self._wanted()
        if wanted <= 0 or self._unrouted.ready:
            return 0
        offset = self.read_offset = self._next_new()
        run = self._feed.take(offset, wanted, self._limits.max_read_bytes)
        if run is None:
            return 0
        self.read_offset = run.first + len(run.payloads)
        for part, _ in self._deliverable(run):
            self._route(part)
        return len(run.payloads)

    def _route_again(self) -> int:
        """Route entries that were passed by, or whose slots belonged to nobody; how many."""
        wanted = self._wanted() if self._unrouted else 0
        while wanted > 0 and (found := self._unrouted.first_run(wanted)) is not None:
            offset, length = found
            if offset < self._log.first_offset or self._cursor.is_acked(offset):
                self._unrouted.discard(offset)
                continue
            run = self._replay_feed.take(offset, length, self._limits.max_read_bytes)
            if run is None:
                lost = self._replay_feed.give_up()
                if not lost:
                    return 0
                self._unrouted.set_aside(lost)
                continue
            for one in range(offset, offset + len(run.payloads)):
                self._kept.discard(one)
                self._returned.discard(one)
            self._unrouted.discard_all(range(offset, offset + len(run.payloads)))
            for part, _ in self._deliverable(run):
                self._route(part)
            return len(run.payloads)
        return 0

    def _route(self, run: Run) -> None:
        """Give entries to the owners of their slots, or let them wait."""
        slots = self.queues.slots
        slot_of, ends, owners = slots.slot_of, slots.ends, slots.owners
        draining, left = self.queues.draining, self._held.room_left
        shares: dict[Consumer | None, Share] = {}
        for offset, (payload, count) in enumerate(
            zip(run.payloads, run.counts, strict=True), run.first
        ):
            slot = slot_of(sticky_key(payload))
            owner = owners[bisect_left(ends, slot)]
            share = shares.get(owner)
            if share is None:
                share = shares[owner] = Share(self._room_at_once(owner))
            if share.room > 0 and left > 0 and slot not in draining:
                left -= count
                share.slots.append(slot)
                share.add(offset, payload, count)
            else:
                self.queues.wait(offset, slot)
                if owner is not None:
                    self._kept.add(offset, payload, count)
        for owner, share in shares.items():
            if owner is not None and share.offsets:
                self.queues.give(share.offsets, share.slots)
                self._give(owner, share)

    def _room_at_once(self, owner: Consumer | None) -> int:
        """How many messages a consumer may be sent for which nothing waits."""
        if owner is None or not owner.can_take() or self.queues.first(owner) is not None:
            return 0
        return self._held.room_for_new(owner)

    def _give(self, consumer: Consumer, share: Share) -> None:
        """Send entries, the lowest first: whole ones that are sent for the first time together."""
        redelivered, partial = self._cursor.redelivered, self._cursor.partial
        offsets, at = share.offsets, 0
        alone = [
            index
            for index, offset in enumerate(offsets)
            if offset in redelivered or offset in partial
        ] if redelivered or partial else []  # fmt: skip
        for index in alone:
            self._give_whole(consumer, share, at, index)
            mask = partial.get(offsets[index], 0)
            left = mask.bit_count() or share.counts[index]
            ack_set = mask_to_ack_set(mask) if mask else ()
            self._give_one(consumer, offsets[index], share.payloads[index], left, ack_set)
            at = index + 1
        self._give_whole(consumer, share, at, len(offsets))

    def _give_whole(self, consumer: Consumer, share: Share, at: int, stop: int) -> None:
        """Send whole entries at `at` to before `stop` of a share, those of one ledger together."""
        offsets = share.offsets
        while at < stop:
            first = offsets[at]
            end = bisect_left(offsets, self._log.segment_end(first), at, stop)
            ledger, entry = self._log.position(first)
            entries = [entry + offset - first for offset in offsets[at:end]]
            counts = share.counts[at:end]
            messages = sum(counts)
            self._held.give_scattered(consumer, offsets[at:end], counts, messages)
            payloads = share.payloads[at:end]
            consumer.give_scattered(self._frames, ledger, entries, payloads, messages)
            at = end

    # Telling why ------------------------------------------------------------------

    def blocker(self) -> Blocker:
        if not self._held.consumers:
            return Blocker.NO_CONSUMER
        reason = self._nothing_left() or self._nobody_takes(self._held.consumers)
        if reason is not None:
            return reason
        takers = [consumer for consumer in self._held.consumers if consumer.can_take()]
        new = self._next_new() < self._log.end
        ready = any(self.queues.first(consumer) is not None for consumer in takers)
        if ready or new or self._unrouted.ready:
            if self._held.full is not None:
                return self._held.full
            if not ready and self._look_ahead() <= len(self.queues.waiting):
                return Blocker.LOOK_AHEAD
            failed = self._feed.failure or self._replay_feed.failure
            return Blocker.DAMAGE if failed else Blocker.READING
        return self._waiting_blocker()

    def _waiting_blocker(self) -> Blocker:
        """Why what waits does not go to the consumers that can take something."""
        if any(draining.waiting for draining in self.queues.draining.values()):
            return Blocker.DRAINING_KEY
        late = [c for c in self._held.consumers if self.queues.first(c) is not None]
        if late:
            return self._nobody_takes(late) or Blocker.READING
        return Blocker.NO_OWNER if self.queues.unowned else Blocker.DAMAGE
