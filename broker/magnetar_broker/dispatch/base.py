"""The interface of dispatchers: the stream that they deliver, limits, reasons for a block."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Protocol

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.throttling.dispatch_throttle import DispatchThrottle
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet, ranges_of


class Blocker(StrEnum):
    """The reason why a subscription delivers nothing at the moment."""

    NO_CONSUMER = "no_consumer"
    """No consumer is connected."""
    NO_PERMITS = "no_permits"
    """No consumer that may receive has permits."""
    SLOW_CONNECTION = "slow_connection"
    """The output buffers of the consumers' connections are full."""
    UNACKED_CONSUMER = "unacked_consumer"
    """Every consumer reached its limit of unacknowledged messages."""
    UNACKED_SUBSCRIPTION = "unacked_subscription"
    """The subscription reached its limit of unacknowledged messages."""
    UNACKED_BROKER = "unacked_broker"
    """The broker reached its limit, and the subscription has more than its share of it."""
    DRAINING_KEY = "draining_key"
    """The next keys have a new owner, whose predecessor has not acknowledged all of them."""
    LOOK_AHEAD = "look_ahead"
    """The limit of entries read ahead of consumers that have no room is reached."""
    NO_OWNER = "no_owner"
    """No consumer has the hash ranges of the next keys."""
    CHUNK = "chunk"
    """The next entries are further chunks for a consumer that has no room."""
    RATE = "rate"
    """A dispatch rate is used up for the moment."""
    TRANSACTION = "transaction"
    """All entries that are left lie after the first message of an open transaction."""
    DELAY = "delay"
    """All entries that are left are delayed."""
    SWITCHING = "switching"
    """The active consumer has just changed."""
    READING = "reading"
    """Entries are being read from disk."""
    READ_ERROR = "read_error"
    """The next entries cannot be read at present; reads are retried every second."""
    DAMAGE = "damage"
    """The next entries are damaged or missing."""
    CAUGHT_UP = "caught_up"
    """All entries have been delivered."""


@dataclass(frozen=True)
class DispatchLimits:
    """Limits that apply to every dispatcher."""

    max_read_entries: int = 100
    max_read_bytes: int = 5 << 20
    max_round_robin_entries: int = 20
    max_unacked_per_consumer: int = 50_000
    max_unacked_per_subscription: int = 200_000
    failover_delay_ms: int = 1000
    key_shared_ring: bool = True
    """Key_Shared consumers divide the keys by a hash ring; else each takes half of a range."""
    key_shared_ring_points: int = 100
    key_shared_look_ahead_per_consumer: int = 2000
    key_shared_look_ahead_per_subscription: int = 20_000
    """The most entries read ahead while the consumers of their keys lack room; 0 means no limit."""
    count_lost_as_redelivery: bool = False
    """Whether losing a consumer's connection raises the redelivery count of what it held."""


class Delays(Protocol):
    """The delayed entries of a topic.  A Protocol, because `delays/` is a room above this one."""

    @property
    def waiting(self) -> OffsetSet:
        """The offsets of delayed entries; due ones leave it before `Dispatcher.due` is called."""

    def catch(self, first: int, payloads: Sequence[bytes]) -> None:
        """Add to `waiting` those of the entries read that are delayed.

        Call it before the entries are delivered: after a crash the index may not have them all.
        """


@dataclass(frozen=True)
class Stream:
    """The stream that a dispatcher delivers: a subscription's view of a topic, and its limits."""

    topic: TopicName
    log: Log
    frames: FrameCache
    cursor: Cursor
    limits: DispatchLimits
    unacked_budget: UnackedBudget
    """The budget that all subscriptions of a broker share."""
    durable: bool
    delays: Delays
    throttle: DispatchThrottle | None

    def deliverable(self, run: Run) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Return the parts of a run that are neither acknowledged nor delayed; see `unacked`."""
        # After a crash the index of delays may lack the latest entries: they are found here, on
        # their way to a consumer, and not delivered early.
        # promise: delayed entries are known before they can be delivered
        self.delays.catch(run.first, run.payloads)
        parts, waiting = unacked(self.cursor, run), self.delays.waiting
        return _outside(waiting, parts) if waiting else parts


def unacked(cursor: Cursor, run: Run) -> Iterator[tuple[Run, tuple[int, ...]]]:
    """Yield the unacknowledged parts of a run, each with an ack set: () for whole entries.

    An entry that is acknowledged in part is a run of its own, whose count is the messages left.
    """
    # The usual case: nothing above the mark-delete is acknowledged, and the run goes on as it is.
    if cursor.is_plain and run.first > cursor.mark_delete:
        yield run, ()
        return
    first, stop = max(run.first, cursor.mark_delete + 1), run.first + len(run.payloads)
    for start, end in cursor.acked.missing(first, stop):
        whole = start  # the first whole entry that was not yielded yet
        # Entry by entry only where there are masks: few subscriptions acknowledge parts of batches.
        for offset in range(start, end) if cursor.partial else ():
            mask = cursor.partial.get(offset)
            if mask is not None:
                if whole < offset:
                    yield part_of(run, whole, offset), ()
                # Permits and limits count the messages that are left, not those of the batch.
                left = [mask.bit_count()]
                yield part_of(run, offset, offset + 1)._replace(counts=left), mask_to_ack_set(mask)
                whole = offset + 1
        if whole < end:
            yield part_of(run, whole, end), ()


def _outside(
    waiting: OffsetSet, parts: Iterator[tuple[Run, tuple[int, ...]]]
) -> Iterator[tuple[Run, tuple[int, ...]]]:
    """Yield what remains of the parts without these offsets."""
    for part, ack_set in parts:
        for start, stop in waiting.missing(part.first, part.first + len(part.payloads)):
            yield part_of(part, start, stop), ack_set


def caught_up(log: Log, cursor: Cursor) -> Blocker:
    """Return the reason why nothing is delivered when every deliverable entry was delivered."""
    # Entries after `visible_end` are durable, but follow the first message of an open transaction.
    is_held_back = cursor.next_unacked(log.visible_end) < log.end
    return Blocker.TRANSACTION if is_held_back else Blocker.CAUGHT_UP


def part_of(run: Run, start: int, stop: int) -> Run:
    """Return the entries of a run from offset `start` to before `stop`."""
    at, end = start - run.first, stop - run.first
    return Run(start, run.payloads[at:end], run.counts[at:end])


def runs_of(offsets: Iterable[int]) -> Iterator[range]:
    """Yield consecutive offsets, joined to ranges."""
    # Most acknowledgements are a range already, which needs no walk through its offsets.
    if isinstance(offsets, range) and offsets.step == 1:
        yield offsets
    else:
        for start, stop in ranges_of(offsets):
            yield range(start, stop)


def entries_within(counts: Sequence[int], messages: int) -> int:
    """Return how many entries hold `messages` messages; the last entry may exceed them."""
    # The last entry may exceed, as it cannot be divided: a batch with more messages than any
    # consumer has permits for would never be delivered.
    return min(bisect_left(list(accumulate(counts)), messages) + 1, len(counts))


class Dispatcher(Protocol):
    """Decides which consumer gets which entry, and sends it."""

    exclusive_acks: bool
    """Whether one consumer receives everything in order, so that cumulative ACKs make sense."""

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which the caller has admitted."""

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that left; its unacknowledged entries go to the others."""

    def receivers(self) -> list[Consumer]:
        """Return the consumers that may have entries that are not acknowledged."""

    def dispatch(self) -> None:
        """Send everything that can be sent now; call it whenever something has changed."""

    def entries_acked(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Count whole entries that a consumer has acknowledged."""

    def messages_acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Count acknowledged messages of an entry, of which `messages_left` are still pending."""

    def skipped(self) -> None:
        """Drop pending entries over which the cursor advanced without an acknowledgement."""

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """Send entries to a consumer again; None means all unacknowledged ones."""

    def restore(self, offsets: Sequence[int]) -> None:
        """Deliver entries again whose acknowledgements were taken back."""

    def due(self, offsets: Iterable[int]) -> None:
        """Deliver delayed entries that have reached their delivery time."""

    def rewind(self) -> None:
        """Start again from the cursor, which was moved."""

    def apply_limits(self, stream: Stream) -> None:
        """Follow the limits, the throttle and the cursor of another stream of the subscription."""

    def blocker(self) -> Blocker:
        """Return the reason why nothing is delivered at this moment."""

    @property
    def read_error(self) -> StorageError | None:
        """The reason why the next entries cannot be read; None while nothing is wrong."""

    @property
    def unacked(self) -> int:
        """The number of messages sent and not acknowledged; always 0 with `exclusive_acks`."""

    @property
    def read_offset(self) -> int:
        """The next entry to be delivered for the first time."""

    @property
    def in_replay(self) -> int:
        """Entries below `read_offset` that wait to be delivered, again or for the first time."""
