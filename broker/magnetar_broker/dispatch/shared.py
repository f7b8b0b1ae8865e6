"""Shared: every entry goes to whichever consumer has room, round robin."""

from collections.abc import Sequence
from itertools import repeat

from magnetar_broker.consumer import Consumer
from magnetar_broker.dispatch.base import Blocker, Stream, entries_within, unacked
from magnetar_broker.dispatch.feed import Feed
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.dispatch.selection import RoundRobin
from magnetar_storage.interfaces import Run


class Shared:
    """Entries to be delivered again go before new ones.

    A consumer that leaves gives its pending entries back without their redelivery count
    rising; only a consumer's own request to redeliver raises it.
    """

    exclusive_acks = False

    def __init__(self, stream: Stream) -> None:
        self._topic = stream.topic
        self._cursor = stream.cursor
        self._log = stream.log
        self._frames = stream.frames
        self._limits = stream.limits
        self._durable = stream.durable
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self._consumers: list[Consumer] = []
        self._feed = Feed(self._log, self.dispatch)
        self._replay_feed = Feed(self._log, self.dispatch)
        self._replay = ReplayQueue()
        self._redelivered: dict[int, int] = {}
        self._unacked = 0
        self._full = False  # the subscription's limit was reached; until half is acknowledged
        self.read_offset = self._cursor.next_unacked(0)

    @property
    def in_replay(self) -> int:
        return len(self._replay)

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        self._consumers.append(consumer)
        self._turns.add(consumer)
        self._feed.retry()
        self._replay_feed.retry()
        self._replay.restore()

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        self._turns.remove(consumer)
        self._give_back(consumer, list(consumer.pending))
        if not self._consumers:
            self.rewind()
            self._feed.clear()
            self._replay_feed.clear()
        self.dispatch()

    def receivers(self) -> list[Consumer]:
        return list(self._consumers)

    def rewind(self) -> None:
        self._feed.retry()
        self._replay_feed.retry()
        self._replay.clear()
        self._redelivered.clear()
        for consumer in self._consumers:
            self._give_back(consumer, list(consumer.pending))
        self._replay.clear()
        self.read_offset = self._cursor.next_unacked(self._log.first_offset)

    def _give_back(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        for offset in offsets:
            left = consumer.pending.pop(offset)
            self._unacked -= left
            consumer.unacked -= left
            if not self._cursor.is_acked(offset):
                self._replay.add(offset)
        self._unblock(consumer)

    # Delivering -------------------------------------------------------------------

    def dispatch(self) -> None:
        while (consumer := self._turns.next()) is not None:
            if not self._replay_to(consumer) and not self._advance_to(consumer):
                return

    def _room(self, consumer: Consumer) -> int:
        """How many messages it may be sent: by its permits, and by what it holds already."""
        limit = self._limits.max_unacked_per_consumer
        if limit <= 0 or not self._durable:
            return consumer.permits
        return min(consumer.permits, limit - consumer.unacked)

    def _room_for_new(self, consumer: Consumer) -> int:
        """The same for what nobody holds yet: the subscription's limit counts as well."""
        room, limit = self._room(consumer), self._limits.max_unacked_per_subscription
        return min(room, limit - self._unacked) if limit > 0 and self._durable else room

    def _replay_to(self, consumer: Consumer) -> bool:
        """Give a run from the replay queue; False when that is empty or not in memory yet."""
        room = self._room(consumer)
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        while (found := self._replay.first_run(limit)) is not None:
            offset, length = found
            if offset < self._log.first_offset or self._cursor.is_acked(offset):
                self._replay.discard(offset)
                continue
            run = self._replay_feed.take(offset, length, self._limits.max_read_bytes)
            if run is None:
                lost = self._replay_feed.give_up()
                if not lost:
                    return False
                self._replay.set_aside(lost)  # what is behind the damage must not wait for it
                continue
            self._give_again(consumer, run)
            return True
        return False

    def _advance_to(self, consumer: Consumer) -> bool:
        """Give new entries; False when there are none or the subscription is full."""
        if self._full:
            return False
        limit = max(1, min(self._limits.max_round_robin_entries, self._room_for_new(consumer)))
        offset = self._cursor.next_unacked(max(self.read_offset, self._log.first_offset))
        self.read_offset = offset
        run = self._feed.take(offset, limit, self._limits.max_read_bytes)
        if run is None:
            return False
        for part, ack_set in unacked(self._cursor, run):
            room = self._room_for_new(consumer)
            if room <= 0:
                break
            if ack_set:
                self._give_one(consumer, part.first, part.payloads[0], part.counts[0], ack_set)
                self.read_offset = part.first + 1
            else:
                self._give_run(consumer, part, room)
        return self.read_offset > offset

    def _give_run(self, consumer: Consumer, run: Run, room: int) -> None:
        """Send whole entries that are new, as far as there is room."""
        payloads, counts, messages = run.payloads, run.counts, sum(run.counts)
        if messages > room:
            n = entries_within(counts, room)
            payloads, counts, messages = payloads[:n], counts[:n], sum(counts[:n])
        self.read_offset = run.first + len(payloads)
        consumer.pending.update(zip(range(run.first, self.read_offset), counts, strict=True))
        ledger, entry = self._log.position(run.first)
        consumer.give_run(self._frames, ledger, entry, payloads, messages)
        self._given(consumer, messages)

    def _give_again(self, consumer: Consumer, run: Run) -> None:
        """Send entries of the replay queue, as far as there is room."""
        for part, ack_set in unacked(self._cursor, run):
            entries = zip(part.payloads, part.counts, strict=True)
            for offset, (payload, left) in enumerate(entries, part.first):
                if self._room(consumer) <= 0:
                    return
                self._replay.discard(offset)
                self._give_one(consumer, offset, payload, left, ack_set)

    def _give_one(
        self, consumer: Consumer, offset: int, payload: bytes, left: int, ack_set: tuple[int, ...]
    ) -> None:
        """Send an entry of which so many messages are `left`."""
        consumer.pending[offset] = left
        ledger, entry = self._log.position(offset)
        redelivered = self._redelivered.get(offset, 0)
        partition = self._topic.partition
        consumer.give_entry(ledger, entry, partition, payload, left, redelivered, ack_set)
        self._given(consumer, left)

    def _given(self, consumer: Consumer, messages: int) -> None:
        limits = self._limits
        self._turns.served(consumer)
        consumer.unacked += messages
        self._unacked += messages
        if not self._durable:
            return
        if 0 < limits.max_unacked_per_consumer <= consumer.unacked:
            consumer.blocked = True
        if 0 < limits.max_unacked_per_subscription <= self._unacked:
            self._full = True

    # Acknowledging ----------------------------------------------------------------

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        owner = consumer if offset in consumer.pending else self._owner(offset)
        if messages_left == 0:
            self._redelivered.pop(offset, None)
            self._replay.discard(offset)
        if owner is None:
            return
        before = owner.pending[offset]
        messages_left = min(messages_left, before)  # whatever the client says
        if messages_left:
            owner.pending[offset] = messages_left
        else:
            del owner.pending[offset]
        owner.unacked -= before - messages_left
        self._unacked -= before - messages_left
        if owner.blocked or self._full:
            self._unblock(owner)

    def acked_whole(self, consumer: Consumer, offsets: range) -> None:
        pending = consumer.pending
        before = len(pending)
        messages = sum(map(pending.pop, offsets, repeat(0)))
        consumer.unacked -= messages
        self._unacked -= messages
        if before - len(pending) < len(offsets):  # some are not this consumer's
            for offset in offsets:
                self.acked(consumer, offset, 0)
        elif self._redelivered or self._replay:
            for offset in offsets:
                self._redelivered.pop(offset, None)
                self._replay.discard(offset)
        if consumer.blocked or self._full:
            self._unblock(consumer)

    def _owner(self, offset: int) -> Consumer | None:
        return next((c for c in self._consumers if offset in c.pending), None)

    def _unblock(self, consumer: Consumer) -> None:
        """Let go on what was stopped by a limit, once half of it is acknowledged."""
        limits = self._limits
        if consumer.blocked and consumer.unacked * 2 <= limits.max_unacked_per_consumer:
            consumer.blocked = False
            self._log.engine.clock.soon(self.dispatch)
        if self._full and self._unacked * 2 < limits.max_unacked_per_subscription:
            self._full = False
            self._log.engine.clock.soon(self.dispatch)

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        if offsets is None:
            offsets = list(consumer.pending)
        wanted = [offset for offset in dict.fromkeys(offsets) if offset in consumer.pending]
        for offset in wanted:
            self._redelivered[offset] = self._redelivered.get(offset, 0) + 1
        self._give_back(consumer, wanted)
        self.dispatch()

    def blocker(self) -> Blocker:
        if not self._consumers:
            return Blocker.NO_CONSUMER
        new = self._cursor.next_unacked(self.read_offset) < self._log.end
        if not new and not self._replay:
            return Blocker.CAUGHT_UP
        if not any(consumer.can_take() for consumer in self._consumers):
            return self._consumers_blocker()
        stuck = self._replay.stuck
        if new and self._full and (stuck or not self._replay):
            return Blocker.UNACKED_SUBSCRIPTION
        failed = self._feed.failure or self._replay_feed.failure or (stuck and not new)
        return Blocker.DAMAGE if failed else Blocker.READING

    def _consumers_blocker(self) -> Blocker:
        free = [consumer for consumer in self._consumers if not consumer.blocked]
        if not free:
            return Blocker.UNACKED_CONSUMER
        if all(consumer.permits <= 0 for consumer in free):
            return Blocker.NO_PERMITS
        return Blocker.SLOW_CONNECTION
