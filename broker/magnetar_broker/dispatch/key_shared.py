"""Key_Shared: every key goes to one consumer at a time, in order."""

from bisect import bisect_left
from collections.abc import Sequence

from magnetar_broker.dispatch.base import Blocker, DispatchLimits, Stream, entries_within, runs_of
from magnetar_broker.dispatch.chunked import ChunkedMessages
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
from magnetar_broker.dispatch.replay import ReplayQueue, discard_acked
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_proto.chunks import chunks_among
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.interfaces import Run

GATHERED = 200
"""So many entries that wait for a consumer are read together."""
ROUTED_AT_ONCE = 5000
"""After so many entries others have their turn, even if nothing could be delivered."""


def slot_owners(meta: KeySharedMeta, limits: DispatchLimits) -> SlotOwners[Consumer]:
    """How consumers with these wishes divide the slots."""
    if meta.sticky:
        return ChosenRanges()
    return HashRing(limits.key_shared_ring_points) if limits.key_shared_ring else RangeHalving()


class KeyShared(ManyActive):
    """Entries are read ahead of consumers that cannot take them, for the sake of those that can.

    What waits goes before what is new; a consumer gets its entries in the order of the log but for
    those that waited for a draining slot or come again.
    """

    def __init__(self, stream: Stream, meta: KeySharedMeta) -> None:
        super().__init__(stream)
        self.meta = meta
        self._slots = slot_owners(meta, stream.limits)
        self.queues = KeyQueues(self._slots, not meta.sticky and not meta.out_of_order)
        self._kept = KeptEntries()
        self._unrouted = ReplayQueue()  # entries whose slots are not known
        self._chunked = ChunkedMessages()  # what of one message was given together
        self._returned: set[int] = set()  # entries that wait and were delivered before

    @property
    def in_replay(self) -> int:
        return len(self.queues.waiting) + len(self._unrouted) + self.queues.unowned.covered()

    # Consumers and what waits ---------------------------------------------------------

    def rival(self, wanted: KeySharedMeta) -> Consumer | None:
        """Who has to go before a consumer with these wishes may join; `ConsumerUnassigned`."""
        return self._slots.check(wanted)

    def _joined(self, consumer: Consumer) -> None:
        self._unrouted.restore()
        self.queues.add(consumer)
        for start, stop in self.queues.take_unowned():
            self._unrouted.add_all(range(start, stop))

    def _left(self, consumer: Consumer) -> None:
        self.queues.remove(consumer)
        self._chunked.left(consumer, self._unrouted)

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """As for all; some clients name one chunk of a message that they want again."""
        if offsets is not None and self._chunked.are_held:
            offsets = self._chunked.with_their_messages(offsets)
        super().redeliver(consumer, offsets)

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

    def _settled(self, offsets: Sequence[int]) -> None:
        if self._chunked.are_held:
            for run in runs_of(offsets):
                self._chunked.discard_all(run)
        not_held, drained = self.queues.settle(offsets)
        waited = len(self.queues.waiting)
        for offset in not_held:
            self._forget(offset)
        if drained or len(self.queues.waiting) < waited:  # more may be read ahead
            self._wake_soon()

    def _forget(self, offset: int) -> None:
        """An entry that waited, if at all, does so no longer."""
        self.queues.waiting.pop(offset, None)
        self._kept.discard(offset)
        self._returned.discard(offset)
        self._unrouted.discard(offset)
        self.queues.unowned.remove(offset, offset + 1)

    def _forget_acked(self) -> None:
        self._unrouted.discard_acked(self._cursor)
        self._chunked.discard_acked(self._cursor)
        discard_acked(self.queues.unowned, self._cursor)
        for offset in [one for one in self.queues.waiting if self._cursor.is_acked(one)]:
            self._forget(offset)

    def _forget_waiting(self) -> None:
        self.queues.clear()
        self._kept.clear()
        self._returned.clear()
        self._unrouted.clear()
        self._chunked.clear()

    # Delivering what waits --------------------------------------------------------------

    def dispatch(self) -> None:
        routed = 0
        while True:
            for consumer in self._with_waiting():
                while self.queues.first(consumer) is not None and consumer.can_take():
                    if not self._serve(consumer):
                        break
            if routed >= ROUTED_AT_ONCE:
                self._wake_soon()
                return
            some = self._route_again() or self._read_on()
            if not some:
                return
            routed += some

    def _with_waiting(self) -> list[Consumer]:
        """For whom something waits, the oldest first: one at a time is read for."""
        firsts = [(self.queues.first(consumer), consumer) for consumer in self._held.consumers]
        waiting = [(first, consumer) for first, consumer in firsts if first is not None]
        return [consumer for _, consumer in sorted(waiting, key=lambda one: one[0])]

    def _serve(self, consumer: Consumer) -> bool:
        """Give what waits for a consumer, as far as it has room and the entries are in memory.

        False if that was nothing.  Entries that are acknowledged in part leave room for more.
        """
        if not self._held.may_go():
            return False
        queues, used = self.queues, 0
        offsets, payloads, counts = list[int](), list[bytes](), list[int]()
        room, room_for_new = self._held.room(consumer), self._held.room_for_new(consumer)
        if self._held.full is not None:
            room_for_new = 0
        while (offset := queues.first(consumer)) is not None:
            again = offset in self._returned
            if used >= (room if again else room_for_new):
                break
            entry = self._entry(offset)
            if entry is None:
                break
            if offset not in queues.waiting:
                continue
            queues.give_first(consumer)
            self._kept.discard(offset)
            self._returned.discard(offset)
            offsets.append(offset)
            payloads.append(entry[0])
            counts.append(entry[1])
            used += entry[1]
        if offsets:
            self._give(consumer, offsets, payloads, counts)
        return bool(offsets)

    def _entry(self, offset: int) -> Entry | None:
        """An entry that waits; None while it is being read.

        If it is gone, or cannot be read, it does not wait any more, and what comes back is empty.
        """
        if offset < self._log.first_offset or self._cursor.is_acked(offset):
            self._forget(offset)
            return b"", 0
        entry = self._kept.get(offset)
        if entry is not None:
            return entry
        size = self._limits.max_read_bytes
        run = self._replay_feed.take(offset, 1, size, lambda: self._wanted_from(offset))
        if run is not None:
            return run.payloads[0], run.counts[0]
        lost = self._replay_feed.give_up()
        if not lost:
            return None
        # What is behind the damage must not wait for it.
        self._unrouted.add_all(self.queues.drop(lost))
        self._unrouted.set_aside(lost)
        # It may be another entry that was read when the damage was met.
        return (b"", 0) if offset in lost else self._entry(offset)

    def _wanted_from(self, offset: int) -> list[tuple[int, int]]:
        """What will be wanted with an entry by those that can take something, one by one."""
        takers = [consumer for consumer in self._held.consumers if consumer.can_take()]
        wanted = {
            one for taker in takers for one in self.queues.next(taker, GATHERED) if one >= offset
        }
        return [(one, one + 1) for one in sorted(wanted)]

    # Reading and routing ------------------------------------------------------------------

    def _wanted(self) -> int:
        """How many entries to read, by what consumers can take and how many wait already."""
        if self._held.full is not None or not self._held.may_go():
            return 0
        takers = [consumer for consumer in self._held.consumers if consumer.can_take()]
        room = sum(max(self._held.room(consumer), 0) for consumer in takers)
        most = self._limits.max_read_entries * len(takers)
        ahead = self._look_ahead() - len(self.queues.waiting)
        return min(room, self._held.room_left, most, ahead)

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
        if self.read_offset >= self._log.end:
            self._feed.clear()
            return 0
        wanted = self._wanted()
        if wanted <= 0 or self._unrouted.ready:
            return 0
        offset = self.read_offset = self._next_new()
        size = self._held.bytes_of(self._limits.max_read_bytes)
        run = self._feed.take(offset, wanted, size)
        if run is None:
            return self._pass_over(self._unrouted)
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
            size = self._limits.max_read_bytes
            run = self._replay_feed.take(offset, length, size, self._unrouted.__iter__)
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
        if not self.queues.waiting and not self._unrouted.ready:
            self._replay_feed.clear()
        return 0

    def _route(self, run: Run) -> None:
        """Give entries to the owners of their slots, or let them wait."""
        ends, owners, slot_of = self._slots.ends, self._slots.owners, self._slots.slot_of
        slots = [slot_of(sticky_key(payload)) for payload in run.payloads]
        draining = self.queues.draining
        by_owner: dict[Consumer | None, list[int]] = {}
        for index, slot in enumerate(slots):
            owner = None if slot in draining else owners[bisect_left(ends, slot)]
            if owner in by_owner:
                by_owner[owner].append(index)
            else:
                by_owner[owner] = [index]
        for owner, indexes in by_owner.items():
            given = 0 if owner is None else self._give_first(owner, run, slots, indexes)
            for index in indexes[given:]:
                self.queues.wait(run.first + index, slots[index])
                if owner is not None or slots[index] in draining:
                    self._kept.add(run.first + index, run.payloads[index], run.counts[index])

    def _give_first(self, owner: Consumer, run: Run, slots: list[int], indexes: list[int]) -> int:
        """Give entries of a run to their owner, as far as it has room; how many."""
        if not owner.can_take() or self.queues.first(owner) is not None:
            return 0
        room = self._held.room_for_new(owner)
        if room <= 0:
            return 0
        counts = [run.counts[index] for index in indexes]
        given = entries_within(counts, room) if sum(counts) > room else len(counts)
        first, payloads, chosen = run.first, run.payloads, indexes[:given]
        offsets = [first + index for index in chosen]
        self.queues.give(offsets, [slots[index] for index in chosen])
        self._give(owner, offsets, [payloads[index] for index in chosen], counts[:given])
        return given

    def _give(
        self, consumer: Consumer, offsets: list[int], payloads: list[bytes], counts: list[int]
    ) -> None:
        """Send entries, the lowest first: whole ones that are sent for the first time together."""
        for index, chunk in chunks_among(payloads).items():
            self._chunked.given(chunk, consumer, offsets[index])
        redelivered, partial = self._cursor.redelivered, self._cursor.partial
        at = 0
        for index, offset in enumerate(offsets) if redelivered or partial else ():
            if offset not in redelivered and offset not in partial:
                continue
            self._give_whole(consumer, offsets[at:index], payloads[at:index], counts[at:index])
            mask = partial.get(offset, 0)
            left = mask.bit_count() or counts[index]
            ack_set = mask_to_ack_set(mask) if mask else ()
            self._give_one(consumer, offset, payloads[index], left, ack_set)
            at = index + 1
        self._give_whole(consumer, offsets[at:], payloads[at:], counts[at:])

    def _give_whole(
        self, consumer: Consumer, offsets: list[int], payloads: list[bytes], counts: list[int]
    ) -> None:
        """Send whole entries, those of one ledger together."""
        while offsets:
            first = offsets[0]
            n = bisect_left(offsets, self._log.segment_end(first))
            ledger, entry = self._log.position(first)
            entries = [entry + offset - first for offset in offsets[:n]]
            messages = sum(counts[:n])
            self._held.give_scattered(consumer, offsets[:n], counts[:n], messages)
            consumer.give_scattered(self._frames, ledger, entries, payloads[:n], messages)
            offsets, payloads, counts = offsets[n:], payloads[n:], counts[n:]

    # Telling why ------------------------------------------------------------------

    def blocker(self) -> Blocker:
        if not self._held.consumers:
            return Blocker.NO_CONSUMER
        reason = self._nothing_goes()
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
