"""Shared: every entry goes to whichever consumer has room, round robin."""

from collections.abc import Sequence

from magnetar_broker.consumer import Consumer
from magnetar_broker.dispatch.base import Blocker, Stream, entries_within, part_of
from magnetar_broker.dispatch.many_active import ManyActive
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.dispatch.selection import RoundRobin
from magnetar_storage.interfaces import Run


class Shared(ManyActive):
    """Entries to be delivered again go before new ones."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self._replay = ReplayQueue()

    @property
    def in_replay(self) -> int:
        return len(self._replay)

    # Consumers and what waits ---------------------------------------------------------

    def _joined(self, consumer: Consumer) -> None:
        self._turns.add(consumer)
        self._replay.restore()

    def _left(self, consumer: Consumer) -> None:
        self._turns.remove(consumer)

    def _wait(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._replay.add(offset)

    def _settled(self, offsets: range) -> None:
        if self._replay:
            for offset in offsets:
                self._replay.discard(offset)

    def _forget_waiting(self) -> None:
        self._replay.clear()

    # Delivering -------------------------------------------------------------------

    def dispatch(self) -> None:
        while (consumer := self._turns.next()) is not None:
            if not self._replay_to(consumer) and not self._advance_to(consumer):
                return

    def _replay_to(self, consumer: Consumer) -> bool:
        """Give a run from the replay queue; False when that is empty or not in memory yet."""
        room = self._held.room(consumer)
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
        room = self._held.room_for_new(consumer)
        if self._held.full is not None:
            return False
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        offset = self.read_offset = self._next_new()
        run = self._feed.take(offset, limit, self._limits.max_read_bytes)
        if run is None:
            return False
        for part, ack_set in self._deliverable(run):
            room = self._held.room_for_new(consumer)
            if room <= 0:
                break
            self._give_new(consumer, part, ack_set, room)
        return self.read_offset > offset

    def _give_new(self, consumer: Consumer, part: Run, ack_set: tuple[int, ...], room: int) -> None:
        """Send entries that are new, as far as there is room; the last may exceed it."""
        if ack_set:
            self._give_one(consumer, part.first, part.payloads[0], part.counts[0], ack_set)
        else:
            messages = sum(part.counts)
            if messages > room:
                part = part_of(part, part.first, part.first + entries_within(part.counts, room))
                messages = sum(part.counts)
            self._give_run(consumer, part, messages)
        self.read_offset = part.first + len(part.payloads)
        self._turns.served(consumer)

    def _give_again(self, consumer: Consumer, run: Run) -> None:
        """Send entries of the replay queue, as far as there is room."""
        for part, ack_set in self._deliverable(run):
            entries = zip(part.payloads, part.counts, strict=True)
            for offset, (payload, left) in enumerate(entries, part.first):
                if self._held.room(consumer) <= 0:
                    return
                self._replay.discard(offset)
                self._give_one(consumer, offset, payload, left, ack_set)
                self._turns.served(consumer)

    # Telling why ------------------------------------------------------------------

    def blocker(self) -> Blocker:
        if not self._held.consumers:
            return Blocker.NO_CONSUMER
        reason = self._nothing_left() or self._nobody_takes(self._held.consumers)
        if reason is not None:
            return reason
        new = self._next_new() < self._log.end
        stuck = self._replay.stuck
        if new and self._held.full is not None and (stuck or not self._replay):
            return self._held.full
        failed = self._feed.failure or self._replay_feed.failure or (stuck and not new)
        return Blocker.DAMAGE if failed else Blocker.READING
