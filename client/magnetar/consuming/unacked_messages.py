"""The unacknowledged messages of a partition, and the times at which they are due again. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from magnetar.base.statistics import ConsumerStatistics
from magnetar.consuming.ack_tracker import Ack
from magnetar.consuming.delivered import DeliveredMessages
from magnetar.consuming.due_entries import DueEntries, Position
from magnetar.consuming.last_round import LastRound
from magnetar.consuming.options import Subscription
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.messages import Entry, Message
from magnetar_proto.ids import ack_set_to_mask

NACK_TICK_S = 0.01

_entry_of = attrgetter("entry")


class Due(NamedTuple):
    """The entries whose redelivery is due."""

    nacked: list[Position]
    untouched: list[Position]
    """The entries whose ack timeout has passed."""


class UnackedMessages:
    """The messages that the application holds or has refused, and when to redeliver them.

    A message counts as unacknowledged until the broker has confirmed its acknowledgement.
    """

    def __init__(
        self,
        options: Subscription,
        is_kept: bool,
        unconfirmed: UnconfirmedAcks,
        counts: ConsumerStatistics,
    ) -> None:
        """`is_kept`: whether the topic is persistent; otherwise nothing is redelivered."""
        self._options = options
        self._unconfirmed = unconfirmed
        self._counts = counts
        self.delivered: DeliveredMessages | None = None
        """Messages that are dropped on redelivery; `ResumePosition` replaces it for readers."""
        # Without persistence all positions are the same, and nothing is redelivered.
        if is_kept and options.start is None:
            self.delivered = DeliveredMessages()
        self.holds = self.delivered is not None and options.holds
        """Whether `delivered` has all messages of the application, not only acknowledged ones."""
        self.last = LastRound()
        self._nacked = DueEntries(NACK_TICK_S)
        self._untouched = DueEntries(options.ack_timeout_tick_s)

    # -- from the application

    @property
    def counts_taken(self) -> bool:
        """Whether `taken` must be called with the messages that the application takes."""
        return self.holds or self._options.ack_timeout_s is not None

    def taken(self, items: Sequence[Any], now_s: float) -> None:
        """Start the ack timeout of messages that the application has taken."""
        if self.holds and self.delivered is not None:
            self.delivered.add(items)
        if self._options.ack_timeout_s is None:
            return
        for entry, _ in groupby(items, _entry_of):
            for position in entry.chunks or (entry.position,):
                self._untouched.add(position, now_s + self._timeout_s(entry))

    def left_unacked(self, entry: Entry, now_s: float) -> None:
        """Start the ack timeout of an entry that the application never receives."""
        if self._options.ack_timeout_s is not None:
            self._untouched.add(entry.position, now_s + self._timeout_s(entry))

    def _timeout_s(self, entry: Entry) -> float:
        backoff = self._options.ack_timeout_backoff
        if backoff is not None:
            return backoff.pause_s(entry.redelivery_count)
        assert self._options.ack_timeout_s is not None
        return self._options.ack_timeout_s

    def nack(self, messages: Iterable[Message], now_s: float) -> None:
        """Redeliver messages after the delay."""
        if self.delivered or self.last:
            messages = list(messages)
        if self.delivered:
            # promise: what was nacked before a reconnect comes again
            self.delivered.release(messages)
        if self.last:
            self.last.fail(messages)
        backoff = self._options.nack_backoff
        for entry, _ in groupby(messages, _entry_of):
            delay_s = self._options.nack_delay_s
            if backoff is not None:
                delay_s = backoff.pause_s(entry.redelivery_count)
            for position in entry.chunks or (entry.position,):
                self._untouched.discard(position)
                self._nacked.add(position, now_s + delay_s)

    def nack_entry(self, position: Position, now_s: float) -> None:
        """Redeliver an entry after the delay."""
        if self.delivered is not None:
            self.delivered.release_entry(position)
        self.last.fail_entry(position)
        self._untouched.discard(position)
        self._nacked.add(position, now_s + self._options.nack_delay_s)

    # -- outcomes of acknowledgements

    @property
    def subscription(self) -> str:
        return self._options.name

    def acked(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Forget messages whose acknowledgement the broker has confirmed."""
        self._counts.acked_entries += len(acks)
        if self.delivered:
            self.delivered.acked(acks, is_cumulative)
        if not (self._untouched or self._nacked or self.last):
            return  # most consumers, which have no ack timeout and no dead letters
        for ledger, entry, ack_set in acks:
            position = (ledger, entry)
            if is_cumulative:
                # The entry of a batch that is acknowledged in part stays due.
                end = position if not ack_set else (ledger, entry - 1)
                self._untouched.discard_up_to(end)
                self._nacked.discard_up_to(end)
                self.last.acked_up_to(end)
                continue
            left = ack_set_to_mask(ack_set) if ack_set else 0
            self.last.acked(position, left)
            if not left:
                self._untouched.discard(position)
                self._nacked.discard(position)

    def possibly_lost(self, acks: list[Ack]) -> None:
        """Drop these messages on redelivery: their acknowledgements may have arrived."""
        if self.delivered is not None:
            # promise: an acknowledgement in doubt keeps its message away
            self.delivered.add_acks(acks)

    def refused(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Accept these messages on redelivery: their acknowledgements were refused."""
        if self.delivered is not None:
            self.delivered.acked(acks, is_cumulative)

    # -- redelivery

    def next_due_s(self) -> float | None:
        """Return the time at which the next entry is due; None if none will be."""
        due = [s for s in (self._nacked.next_s(), self._untouched.next_s()) if s is not None]
        return min(due, default=None)

    def take_due(self, now_s: float) -> Due:
        """Return the entries that are due, and remove their times."""
        due = Due(self._nacked.take(now_s), self._untouched.take(now_s))
        # The application has kept these for too long: for dead letters that is a failure.
        for position in due.untouched:
            self.last.fail_entry(position)
        return due

    def requested(self) -> None:
        """Prepare for the redelivery of all unacknowledged messages, which is being requested."""
        self.forget()
        if self.delivered is not None:
            self.delivered.keep(*self._unconfirmed.all())

    def begin_again(self) -> None:
        """Prepare for the redelivery of all unacknowledged messages after a registration."""
        if self.holds:
            # promise[_nacked.clear -> forget]: an ack timeout outlives a reconnect
            self._nacked.clear()  # other messages are held, and their ack timeout continues
        else:
            self.forget()
            self.possibly_lost(self._unconfirmed.all()[0])

    def sought(self) -> None:
        """Prepare for messages from another position, which may have been delivered before."""
        self.forget()
        if self.delivered is not None:
            self.delivered.keep((), None)  # promise: after a seek nothing is left out

    def forget(self) -> None:
        """Forget which entries are due, and which were delivered for the last time."""
        self._nacked.clear()
        self._untouched.clear()
        self.last.clear()
