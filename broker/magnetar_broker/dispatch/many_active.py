"""What Shared and Key_Shared have in common: everything but who gets what."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from magnetar_broker.dispatch.base import Blocker, Stream, part_of, unacked
from magnetar_broker.dispatch.feed import Feed
from magnetar_broker.dispatch.holdings import Holdings
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.dispatch.replay_feed import ReplayFeed
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_storage.interfaces import Run
from magnetar_storage.offsets import next_in_neither


class ManyActive(ABC):
    """Several consumers hold entries at a time; those that come back wait in the subclass.

    A consumer that leaves gives its pending entries back without their redelivery count
    rising; only a consumer's own request to redeliver raises it.  The cursor keeps the counts.
    """

    exclusive_acks = False

    def __init__(self, stream: Stream) -> None:
        self._topic = stream.topic
        self._cursor = stream.cursor
        self._log = stream.log
        self._frames = stream.frames
        self._limits = stream.limits
        self._delays = stream.delays
        self._feed = Feed(self._log, self.dispatch)
        self._replay_feed = ReplayFeed(self._log, self.dispatch)
        self._held = Holdings(stream.limits, stream.durable, self._wake_soon, stream.throttle)
        self.read_offset = self._cursor.next_unacked(0)

    # What a subclass decides --------------------------------------------------------

    @abstractmethod
    def dispatch(self) -> None:
        """Send all that can be sent now; called whenever anything changed."""

    @abstractmethod
    def _joined(self, consumer: Consumer) -> None:
        """Let a consumer take part; try again what was given up as unreadable."""

    @abstractmethod
    def _left(self, consumer: Consumer) -> None:
        """Let it take part no longer; what it holds comes to `_wait` afterwards."""

    @abstractmethod
    def _wait(self, offsets: Sequence[int]) -> None:
        """Entries below `read_offset` that nobody holds and that are to be delivered."""

    @abstractmethod
    def _settled(self, offsets: Sequence[int]) -> None:
        """Entries that are acknowledged, whether somebody held them, or they waited, or neither."""

    @abstractmethod
    def _forget_acked(self) -> None:
        """What is acknowledged waits no longer."""

    @abstractmethod
    def _forget_waiting(self) -> None:
        """Nothing waits any more: it all begins anew at the cursor."""

    @property
    @abstractmethod
    def in_replay(self) -> int:
        """Entries below `read_offset` that wait to be delivered."""

    @abstractmethod
    def blocker(self) -> Blocker:
        """Why nothing is being delivered."""

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """A consumer joined; the subscription has checked that it may."""
        self._held.consumers.append(consumer)
        self._feed.retry()
        self._replay_feed.retry()
        self._joined(consumer)

    def remove(self, consumer: Consumer) -> None:
        """A consumer left; what it had goes to the others."""
        self._held.consumers.remove(consumer)
        self._left(consumer)
        self._give_back(consumer, list(consumer.pending))
        if not self._held.consumers:
            self.rewind()
            self._feed.clear()
            self._replay_feed.clear()
        self.dispatch()

    def receivers(self) -> list[Consumer]:
        """Who may hold entries that were not acknowledged."""
        return list(self._held.consumers)

    def rewind(self) -> None:
        """The cursor was moved: start again from it."""
        self._feed.retry()
        self._replay_feed.retry()
        for consumer in self._held.consumers:
            self._give_back(consumer, list(consumer.pending))
        self._forget_waiting()
        self.read_offset = self._cursor.next_unacked(self._log.first_offset)

    def keep_to(self, stream: Stream) -> None:
        """Limits have changed; who holds too much gets no more until it holds half."""
        self._limits = stream.limits
        self._held.keep_to(stream.limits, stream.throttle)
        self._wake_soon()

    def _give_back(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        self._held.take_back(consumer, offsets)
        waiting: list[int] = []
        for offset in offsets:
            if self._cursor.is_acked(offset):
                self._settled(range(offset, offset + 1))
            else:
                waiting.append(offset)
        self._wait(waiting)

    def _wake_soon(self) -> None:
        self._log.engine.clock.soon(self.dispatch)

    # Delivering -------------------------------------------------------------------

    def _next_new(self) -> int:
        """The next entry to be delivered for the first time; not before the end if none."""
        offset = self._cursor.next_unacked(max(self.read_offset, self._log.first_offset))
        waiting = self._delays.waiting
        if waiting and offset in waiting:
            return next_in_neither(self._cursor.acked, waiting, offset)
        return offset

    def _pass_over(self, waiting: ReplayQueue) -> int:
        """Go on behind new entries that cannot be read: there they wait, set aside; how many."""
        lost = self._feed.give_up()
        for start, stop in self._cursor.acked.missing(lost.start, lost.stop):
            waiting.add_all(range(start, stop))
        waiting.set_aside(lost)
        self.read_offset = max(self.read_offset, lost.stop)
        return len(lost)

    def _deliverable(self, run: Run) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """What of a run is neither acknowledged nor delayed, as `unacked` tells it."""
        self._delays.catch(run.first, run.payloads)
        parts = unacked(self._cursor, run)
        return self._not_delayed(parts) if self._delays.waiting else parts

    def _not_delayed(
        self, parts: Iterator[tuple[Run, tuple[int, ...]]]
    ) -> Iterator[tuple[Run, tuple[int, ...]]]:
        for part, ack_set in parts:
            whole = range(part.first, part.first + len(part.payloads))
            for start, stop in self._delays.waiting.missing(whole.start, whole.stop):
                yield part_of(part, start, stop), ack_set

    def _give_run(self, consumer: Consumer, run: Run, messages: int) -> None:
        """Send whole entries in their order; `messages` is the sum of their counts."""
        offsets = range(run.first, run.first + len(run.payloads))
        redelivered = self._cursor.redelivered
        if redelivered and not redelivered.keys().isdisjoint(offsets):
            for offset, payload, left in zip(offsets, run.payloads, run.counts, strict=True):
                self._give_one(consumer, offset, payload, left, ())
            return
        self._held.give_run(consumer, run.first, run.counts, messages)
        ledger, entry = self._log.position(run.first)
        consumer.give_run(self._frames, ledger, entry, run.payloads, messages)

    def _give_one(
        self, consumer: Consumer, offset: int, payload: bytes, left: int, ack_set: tuple[int, ...]
    ) -> None:
        """Send an entry of which so many messages are `left`."""
        self._held.give(consumer, offset, left)
        ledger, entry = self._log.position(offset)
        redelivered = self._cursor.redelivered.get(offset, 0)
        partition = self._topic.partition
        consumer.give_entry(ledger, entry, partition, payload, left, redelivered, ack_set)

    def due(self, offsets: Iterable[int]) -> None:
        """Entries that were to be delivered later may be delivered from now on."""
        is_acked = self._cursor.is_acked
        passed = [o for o in offsets if o < self.read_offset and not is_acked(o)]
        held = self._held.among(passed)
        self._wait([offset for offset in passed if offset not in held])
        self.dispatch()

    # Acknowledging ----------------------------------------------------------------

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """An entry that a consumer acknowledges; `messages_left` of it are not yet."""
        self._held.acked(consumer, offset, messages_left)
        if messages_left == 0:
            self._settled(range(offset, offset + 1))

    def acked_whole(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Entries that a consumer acknowledges, each with all its messages."""
        self._held.acked_whole(consumer, offsets)
        self._settled(offsets)

    def skipped(self) -> None:
        """The cursor counts entries as acknowledged that no consumer did: nobody holds them now."""
        is_acked, partial = self._cursor.is_acked, self._cursor.partial
        for consumer in self._held.consumers:
            gone = [offset for offset in consumer.pending if is_acked(offset)]
            self._held.take_back(consumer, gone)
            self._settled(gone)
            for offset in partial.keys() & consumer.pending.keys():
                self._held.acked(consumer, offset, partial[offset].bit_count())
        self._forget_acked()
        self.dispatch()

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """The consumer wants entries again; None: all that it has not acknowledged."""
        if offsets is None:
            offsets = list(consumer.pending)
        wanted = [offset for offset in dict.fromkeys(offsets) if offset in consumer.pending]
        self._cursor.count_redelivery(wanted)
        self._give_back(consumer, wanted)
        self.dispatch()

    # Telling why ------------------------------------------------------------------

    def _nothing_left(self) -> Blocker | None:
        """Why there is nothing to deliver, if there is nothing."""
        if self.in_replay or self._next_new() < self._log.end:
            return None
        acked, first = self._cursor.acked, self._cursor.mark_delete + 1
        for start, stop in self._delays.waiting:
            if any(acked.missing(max(start, first), stop)):
                return Blocker.DELAY
        return Blocker.CAUGHT_UP

    def _nothing_goes(self) -> Blocker | None:
        """Why nobody can be given anything, whatever it is, if so."""
        reason = self._nothing_left() or self._nobody_takes(self._held.consumers)
        return reason or (Blocker.RATE if self._held.is_spent else None)

    def _nobody_takes(self, consumers: Sequence[Consumer]) -> Blocker | None:
        """Why none of these consumers can be given anything, if none can."""
        if not consumers:
            return Blocker.NO_CONSUMER
        if any(consumer.can_take() for consumer in consumers):
            return None
        free = [consumer for consumer in consumers if not consumer.blocked]
        if not free:
            return Blocker.UNACKED_CONSUMER
        if all(consumer.permits <= 0 for consumer in free):
            return Blocker.NO_PERMITS
        return Blocker.SLOW_CONNECTION
