"""The Key_Shared dispatcher: each key is delivered to one consumer at a time, in order."""

from bisect import bisect_left
from collections.abc import Sequence

from magnetar_broker.dispatch.base import Blocker, DispatchLimits, Stream, entries_within, runs_of
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.entry_source import blocker_of
from magnetar_broker.dispatch.key_queues import KeyQueues
from magnetar_broker.dispatch.key_selection import (
    ChosenRanges,
    HashRing,
    KeySharedMeta,
    RangeHalving,
    SlotOwners,
)
from magnetar_broker.dispatch.multi_consumer import MultiConsumerDispatcher
from magnetar_broker.dispatch.offset_queue import OffsetQueue, discard_acked
from magnetar_broker.dispatch.unsent_buffer import Entry, UnsentBuffer
from magnetar_proto.chunks import chunks_among
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.interfaces import Run

READ_TOGETHER = 200
"""The most entries waiting for a consumer that are read together."""
ROUTED_AT_ONCE = 5000
"""The most entries that are routed, delivered or not, before other work gets a turn."""


def slot_owners(meta: KeySharedMeta, limits: DispatchLimits) -> SlotOwners[Consumer]:
    """Return the division of slots among the consumers of a subscription with this policy."""
    if meta.sticky:
        return ChosenRanges()
    return HashRing(limits.key_shared_ring_points) if limits.key_shared_ring else RangeHalving()


class KeyShared(MultiConsumerDispatcher):
    """The dispatcher of Key_Shared: reads on while the owners of some keys have no room.

    So the other consumers do not wait for them.  Entries that wait are sent before new ones.  A
    consumer gets its entries in the order of the log, except for those that waited for a draining
    slot or are redelivered.
    """

    def __init__(self, stream: Stream, meta: KeySharedMeta) -> None:
        super().__init__(stream)
        self.meta = meta
        self._slots = slot_owners(meta, stream.limits)
        self.queues = KeyQueues(self._slots, not meta.sticky and not meta.out_of_order)
        self._unsent = UnsentBuffer(self._log.engine.reading)
        self._unrouted = OffsetQueue()  # entries whose slots must be computed first
        self._returned: set[int] = set()  # waiting entries that were sent before

    @property
    def in_replay(self) -> int:
        return len(self.queues.waiting) + len(self._unrouted) + self.queues.unowned.covered()

    # Consumers and what waits ---------------------------------------------------------

    def competing(self, wanted: KeySharedMeta) -> Consumer | None:
        """Return a consumer whose hash ranges overlap the wanted ones, and which has to leave.

        `ConsumerUnassigned` if the ranges themselves are wrong.
        """
        return self._slots.check(wanted)

    def _joined(self, consumer: Consumer) -> None:
        self._unrouted.restore()
        self.queues.add(consumer)
        # promise: keys without an owner go to the consumer that takes them
        for start, stop in self.queues.take_unowned():
            self._unrouted.add_all(range(start, stop))

    def _left(self, consumer: Consumer) -> None:
        self.queues.remove(consumer)
        self._chunked.consumer_left(consumer, self._unrouted)

    def _wait(self, offsets: Sequence[int]) -> None:
        unknown = []
        for offset in offsets:
            slot, _ = self.queues.release(offset)
            if slot is not None:
                self._returned.add(offset)
                self.queues.wait(offset, slot)
            elif offset not in self.queues.waiting:
                unknown.append(offset)
        self._unrouted.add_all(unknown)

    def _forget(self, offsets: Sequence[int]) -> None:
        if self._chunked.are_held:
            for run in runs_of(offsets):
                self._chunked.discard_all(run)
        not_pending, drained = self.queues.settle(offsets)
        waited = len(self.queues.waiting)
        for offset in not_pending:
            self._drop(offset)
        # promise: a waiter is woken when a slot is drained
        if drained or len(self.queues.waiting) < waited:  # more may be read ahead
            self._receivers.wake_soon()

    def _drop(self, offset: int) -> None:
        """Drop an entry that may be waiting."""
        self.queues.waiting.pop(offset, None)
        self._unsent.discard(offset)
        self._returned.discard(offset)
        self._unrouted.discard(offset)
        self.queues.unowned.remove(offset, offset + 1)

    def _forget_acked(self) -> None:
        self._unrouted.discard_acked(self._cursor)
        self._chunked.discard_acked(self._cursor)
        discard_acked(self.queues.unowned, self._cursor)
        is_acked = self._cursor.is_acked
        # An entry whose slot lost its owner left `waiting`, but not the two others.
        for known in (self.queues.waiting, self._returned, self._unsent):
            for offset in [one for one in known if is_acked(one)]:
                self._drop(offset)

    def _forget_all(self) -> None:
        self.queues.clear()
        self._unsent.clear()
        self._returned.clear()
        self._unrouted.clear()
        self._chunked.clear()

    # Delivering what waits --------------------------------------------------------------

    def _send_all(self) -> None:
        routed = 0
        while True:
            for consumer in self._consumers_with_waiting():
                while self.queues.first(consumer) is not None and consumer.can_take():
                    if not self._serve(consumer):
                        break
            if routed >= ROUTED_AT_ONCE:
                self._receivers.wake_soon()
                return
            some = self._route_again() or self._read_on()
            if not some:
                break
            routed += some

    def _consumers_with_waiting(self) -> list[Consumer]:
        """Return the consumers with waiting entries, the one with the oldest entry first."""
        firsts = [(self.queues.first(consumer), consumer) for consumer in self._receivers.consumers]
        waiting = [(first, consumer) for first, consumer in firsts if first is not None]
        return [consumer for _, consumer in sorted(waiting, key=lambda one: one[0])]

    def _serve(self, consumer: Consumer) -> bool:
        """Send entries that wait for a consumer, while it has room and they are in memory.

        Return False if nothing was sent.
        """
        if not self._receivers.admit_or_wait():
            return False
        queues, used = self.queues, 0
        offsets, payloads, counts = list[int](), list[bytes](), list[int]()
        room, room_for_new = self._receivers.room(consumer), self._receivers.room_for_new(consumer)
        if self._receivers.full is not None:
            room_for_new = 0
        while (offset := queues.first(consumer)) is not None:
            # The limits of subscription and broker stop new entries only: redelivery must continue,
            # or returned entries could never be acknowledged and free them.
            again = offset in self._returned
            if used >= (room if again else room_for_new):
                break
            entry = self._entry(offset)
            if entry is None:
                break
            # `_entry` has dropped it: it is trimmed, acknowledged or unreadable.
            if offset not in queues.waiting:
                continue
            queues.give_first(consumer)
            self._unsent.discard(offset)
            self._returned.discard(offset)
            offsets.append(offset)
            payloads.append(entry[0])
            counts.append(entry[1])
            used += entry[1]
        if offsets:
            self._send(consumer, offsets, payloads, counts)
        return bool(offsets)

    def _entry(self, offset: int) -> Entry | None:
        """Return a waiting entry; None while it is being read.

        If it was trimmed, acknowledged or cannot be read it does not wait any more, and the result
        is empty.
        """
        if offset < self._log.first_offset or self._cursor.is_acked(offset):
            self._drop(offset)
            return b"", 0
        entry = self._unsent.get(offset)
        if entry is not None:
            return entry
        size = self._limits.max_read_bytes
        run = self._scattered.take(offset, 1, size, lambda: self._wanted_from(offset))
        if run is not None:
            return run.payloads[0], run.counts[0]
        lost = self._notices.give_up(self._scattered)
        if not lost:
            return None
        # Entries after the damage must not wait for it.
        self._unrouted.add_all(self.queues.drop(lost))
        self._unrouted.set_aside(lost)
        # The damage may be at another entry that was read together with this one.
        return (b"", 0) if offset in lost else self._entry(offset)

    def _wanted_from(self, offset: int) -> list[tuple[int, int]]:
        """Return the entries that will be needed next by consumers with room, from `offset` on."""
        takers = [consumer for consumer in self._receivers.consumers if consumer.can_take()]
        wanted = {
            one
            for taker in takers
            for one in self.queues.next(taker, READ_TOGETHER)
            if one >= offset
        }
        return [(one, one + 1) for one in sorted(wanted)]

    # Reading and routing ------------------------------------------------------------------

    def _wanted(self) -> int:
        """Return how many entries to read, from the consumers' room and the number that wait."""
        if self._receivers.full is not None or not self._receivers.admit_or_wait():
            return 0
        # For all consumers with room together: an entry must be read before its owner is known.
        takers = [consumer for consumer in self._receivers.consumers if consumer.can_take()]
        room = sum(max(self._receivers.room(consumer), 0) for consumer in takers)
        most = self._limits.max_read_entries * len(takers)
        ahead = self._look_ahead() - len(self.queues.waiting)
        return min(room, self._receivers.room_left, most, ahead)

    def _look_ahead(self) -> int:
        """Return the limit of entries that wait for room or for draining slots."""
        limits = self._limits
        bounds = (
            limits.key_shared_look_ahead_per_consumer * len(self._receivers.consumers),
            limits.key_shared_look_ahead_per_subscription,
        )
        return min((bound for bound in bounds if bound > 0), default=1 << 31)

    def _read_on(self) -> int:
        """Route the next new entries; return their number."""
        new = self._new
        if new.read_offset >= self._log.visible_end:
            new.source.clear()
            return 0
        wanted = self._wanted()
        # New entries must not overtake older ones of the same slots that are not routed yet.
        if wanted <= 0 or self._unrouted.ready:
            return 0
        offset = new.read_offset = new.next()
        run = new.take(offset, wanted, self._receivers.bytes_of(self._limits.max_read_bytes))
        if run is None:
            return new.pass_over_damage(self._unrouted, self._notices)
        # Before routing, which lets entries wait: only those below `read_offset` may.
        new.read_offset = run.first + len(run.payloads)
        for part, _ in self._stream.deliverable(run):
            self._route(part)
        return len(run.payloads)

    def _route_again(self) -> int:
        """Route entries whose slots must be computed again; return their number."""
        wanted = self._wanted() if self._unrouted else 0
        while wanted > 0 and (found := self._unrouted.first_run(wanted)) is not None:
            offset, length = found
            if offset < self._log.first_offset or self._cursor.is_acked(offset):
                self._unrouted.discard(offset)
                continue
            size = self._limits.max_read_bytes
            run = self._scattered.take(offset, length, size, self._unrouted.__iter__)
            if run is None:
                lost = self._notices.give_up(self._scattered)
                if not lost:
                    return 0
                self._unrouted.set_aside(lost)
                continue
            # `_route` decides again whether they wait, and keeps the bytes of those that do.
            for one in range(offset, offset + len(run.payloads)):
                self._unsent.discard(one)
                self._returned.discard(one)
            self._unrouted.discard_all(range(offset, offset + len(run.payloads)))
            for part, _ in self._stream.deliverable(run):
                self._route(part)
            return len(run.payloads)
        if not self.queues.waiting and not self._unrouted.ready:
            self._scattered.clear()
        return 0

    def _route(self, run: Run) -> None:
        """Send entries to the owners of their slots, or let them wait."""
        ends, owners, slot_of = self._slots.ends, self._slots.owners, self._slots.slot_of
        slots = [slot_of(sticky_key(payload)) for payload in run.payloads]
        # Other consumers have pending entries of these slots: sending more would break the order.
        draining = self.queues.draining
        # Grouped first, so that each owner gets its entries of the run in one piece.
        by_owner: dict[Consumer | None, list[int]] = {}
        for index, slot in enumerate(slots):
            # promise[without None if slot in draining else]: new entries of a draining slot wait
            owner = None if slot in draining else owners[bisect_left(ends, slot)]
            if owner in by_owner:
                by_owner[owner].append(index)
            else:
                by_owner[owner] = [index]
        for owner, indexes in by_owner.items():
            given = 0 if owner is None else self._send_new(owner, run, slots, indexes)
            for index in indexes[given:]:
                self.queues.wait(run.first + index, slots[index])
                # Entries without an owner may wait for hours: their bytes are not kept.
                if owner is not None or slots[index] in draining:
                    self._unsent.add(run.first + index, run.payloads[index], run.counts[index])

    def _send_new(self, owner: Consumer, run: Run, slots: list[int], indexes: list[int]) -> int:
        """Send entries of a run to their owner, while it has room; return their number."""
        # The entries that wait for this consumer are older, and may have the same key.
        # promise[without or self.queues.first(owner) is not None]: a new entry never passes those
        #   that wait for its consumer
        if not owner.can_take() or self.queues.first(owner) is not None:
            return 0
        room = self._receivers.room_for_new(owner)
        if room <= 0:
            return 0
        counts = [run.counts[index] for index in indexes]
        given = entries_within(counts, room) if sum(counts) > room else len(counts)
        first, payloads, chosen = run.first, run.payloads, indexes[:given]
        offsets = [first + index for index in chosen]
        self.queues.give(offsets, [slots[index] for index in chosen])
        self._send(owner, offsets, [payloads[index] for index in chosen], counts[:given])
        return given

    def _send(
        self, consumer: Consumer, offsets: list[int], payloads: list[bytes], counts: list[int]
    ) -> None:
        """Send entries in ascending order; whole ones with redelivery count 0 go together."""
        for index, chunk in chunks_among(payloads).items():
            self._chunked.sent(chunk, consumer, offsets[index])
        redelivered, partial = self._cursor.redelivered, self._cursor.partial
        at = 0
        # A redelivery count or an ack set needs a frame of its own; what lies between goes
        # together.
        for index, offset in enumerate(offsets) if redelivered or partial else ():
            if offset not in redelivered and offset not in partial:
                continue
            self._send_whole(consumer, offsets[at:index], payloads[at:index], counts[at:index])
            mask = partial.get(offset, 0)
            left = mask.bit_count() or counts[index]
            ack_set = mask_to_ack_set(mask) if mask else ()
            self._receivers.deliver_entry(consumer, offset, payloads[index], left, ack_set)
            at = index + 1
        self._send_whole(consumer, offsets[at:], payloads[at:], counts[at:])

    def _send_whole(
        self, consumer: Consumer, offsets: list[int], payloads: list[bytes], counts: list[int]
    ) -> None:
        """Send whole entries; those of one segment go together."""
        while offsets:
            n = bisect_left(offsets, self._log.segment_end(offsets[0]))
            self._receivers.deliver_scattered(consumer, offsets[:n], payloads[:n], counts[:n])
            offsets, payloads, counts = offsets[n:], payloads[n:], counts[n:]

    # Diagnosis --------------------------------------------------------------------

    def _entries_blocker(self) -> Blocker:
        takers = [consumer for consumer in self._receivers.consumers if consumer.can_take()]
        new = self._new.next() < self._log.visible_end
        ready = any(self.queues.first(consumer) is not None for consumer in takers)
        if ready or new or self._unrouted.ready:
            if self._receivers.full is not None:
                return self._receivers.full
            if not ready and self._look_ahead() <= len(self.queues.waiting):
                return Blocker.LOOK_AHEAD
            return blocker_of(self.read_error)
        return self._waiting_blocker()

    def _waiting_blocker(self) -> Blocker:
        """Return the reason why no waiting entry can be sent to the consumers with room."""
        if any(draining.waiting for draining in self.queues.draining.values()):
            return Blocker.DRAINING_KEY
        late = [c for c in self._receivers.consumers if self.queues.first(c) is not None]
        if late:
            return self._receivers.blocker(late) or Blocker.READING
        return Blocker.NO_OWNER if self.queues.unowned else Blocker.DAMAGE
