"""What a dispatcher is, whatever the subscription type."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Protocol

from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.dispatch.throttle import Throttle
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_proto.ids import mask_to_ack_set
from magnetar_proto.names import TopicName
from magnetar_storage.cursor import Cursor
from magnetar_storage.interfaces import Run
from magnetar_storage.log import Log
from magnetar_storage.offsets import OffsetSet, ranges_of


class Blocker(StrEnum):
    """Why a subscription delivers nothing at the moment."""

    NO_CONSUMER = "no_consumer"
    """No consumer is connected."""
    NO_PERMITS = "no_permits"
    """No consumer that may receive has permits."""
    SLOW_CONNECTION = "slow_connection"
    """The consumers' connections are full."""
    UNACKED_CONSUMER = "unacked_consumer"
    """Every consumer reached its limit of unacknowledged messages."""
    UNACKED_SUBSCRIPTION = "unacked_subscription"
    """The subscription reached its limit of unacknowledged messages."""
    UNACKED_BROKER = "unacked_broker"
    """The broker reached its limit, and the subscription has more than its share of it."""
    DRAINING_KEY = "draining_key"
    """The keys that come next are held by consumers that they do not belong to any more."""
    LOOK_AHEAD = "look_ahead"
    """So many entries wait for consumers that cannot take them that no further ones are read."""
    NO_OWNER = "no_owner"
    """The keys that come next belong to no consumer."""
    CHUNK = "chunk"
    """The next entries continue messages of which a consumer without room has the beginning."""
    RATE = "rate"
    """So much was delivered that a dispatch rate lets nothing go for a moment."""
    DELAY = "delay"
    """Only messages are left that are to be delivered later."""
    SWITCHING = "switching"
    """The active consumer has just changed."""
    READING = "reading"
    """Entries are being read from disk."""
    DAMAGE = "damage"
    """The next entries cannot be read."""
    CAUGHT_UP = "caught_up"
    """Everything was delivered."""


@dataclass(frozen=True)
class DispatchLimits:
    """Bounds that every dispatcher keeps to."""

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
    """Entries that may be read ahead of consumers that cannot take them; 0 is no limit."""
    unacked_budget: UnackedBudget = field(default_factory=UnackedBudget)
    """Shared by all subscriptions of a broker."""
    count_lost_as_redelivery: bool = False
    """Whether what a consumer held whose connection was lost counts as asked for again."""


class Delays(Protocol):
    """Which entries of a topic are to be delivered later."""

    @property
    def waiting(self) -> OffsetSet:
        """Their offsets; who comes due leaves it, and dispatchers are told."""

    def catch(self, first: int, payloads: Sequence[bytes]) -> None:
        """Entries were read: those that nobody knew to be delayed wait from now on."""


class NoDelays:
    """A topic without any."""

    waiting = OffsetSet()

    def catch(self, first: int, payloads: Sequence[bytes]) -> None:
        """None of these."""


@dataclass(frozen=True)
class Stream:
    """What a dispatcher works on: one subscription's view of one topic."""

    topic: TopicName
    log: Log
    frames: FrameCache
    cursor: Cursor
    limits: DispatchLimits
    durable: bool
    delays: Delays = field(default_factory=NoDelays)
    throttle: Throttle | None = None


def unacked(cursor: Cursor, run: Run) -> Iterator[tuple[Run, tuple[int, ...]]]:
    """What of a run is not acknowledged, with its ack set: () for runs of whole entries.

    An entry that is acknowledged in part comes alone, and counts the messages that are left.
    """
    if cursor.is_plain and run.first > cursor.mark_delete:
        yield run, ()
        return
    first, stop = max(run.first, cursor.mark_delete + 1), run.first + len(run.payloads)
    for start, end in cursor.acked.missing(first, stop):
        whole = start  # where whole entries begin that were not handed out
        for offset in range(start, end) if cursor.partial else ():
            mask = cursor.partial.get(offset)
            if mask is not None:
                if whole < offset:
                    yield part_of(run, whole, offset), ()
                left = [mask.bit_count()]
                yield part_of(run, offset, offset + 1)._replace(counts=left), mask_to_ack_set(mask)
                whole = offset + 1
        if whole < end:
            yield part_of(run, whole, end), ()


def part_of(run: Run, start: int, stop: int) -> Run:
    """The entries of a run from offset `start` to before `stop`."""
    at, end = start - run.first, stop - run.first
    return Run(start, run.payloads[at:end], run.counts[at:end])


def runs_of(offsets: Iterable[int]) -> Iterator[range]:
    """Offsets as ranges of those that follow each other."""
    if isinstance(offsets, range) and offsets.step == 1:
        yield offsets
    else:
        for start, stop in ranges_of(offsets):
            yield range(start, stop)


def entries_within(counts: Sequence[int], messages: int) -> int:
    """How many entries to send where so many messages are wanted: the last may exceed them."""
    return min(bisect_left(list(accumulate(counts)), messages) + 1, len(counts))


class Dispatcher(Protocol):
    """Decides which consumer gets which entry, and sends it."""

    exclusive_acks: bool
    """Whether cumulative acknowledgements make sense."""

    def add(self, consumer: Consumer) -> None:
        """A consumer joined; the subscription has checked that it may."""

    def remove(self, consumer: Consumer) -> None:
        """A consumer left; what it had goes to the others."""

    def receivers(self) -> list[Consumer]:
        """Who may hold entries that were not acknowledged."""

    def dispatch(self) -> None:
        """Send all that can be sent now; called whenever anything changed."""

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """An entry that a consumer acknowledges; `messages_left` of it are not yet."""

    def acked_whole(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Entries that a consumer acknowledges, each with all its messages."""

    def skipped(self) -> None:
        """The cursor counts entries as acknowledged that no consumer did: nobody holds them now."""

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """The consumer wants entries again; None: all that it has not acknowledged."""

    def due(self, offsets: Iterable[int]) -> None:
        """Entries that were to be delivered later may be delivered from now on."""

    def rewind(self) -> None:
        """The cursor was moved: start again from it."""

    def keep_to(self, stream: Stream) -> None:
        """Its limits and its throttle are others from now on."""

    def blocker(self) -> Blocker:
        """Why nothing is being delivered."""

    @property
    def read_offset(self) -> int:
        """The next entry to be delivered for the first time."""

    @property
    def in_replay(self) -> int:
        """Entries that wait to be delivered again."""
