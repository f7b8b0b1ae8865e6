"""Redelivery of messages of one partition: after `nack`, after the ack timeout, or of all."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.log_fields import about
from magnetar.base.statistics import ConsumerStatistics
from magnetar.clock import Clock, Timer
from magnetar.consuming.ack_tracker import Ack
from magnetar.consuming.delivered import DeliveredMessages
from magnetar.consuming.due_entries import DueEntries, Position
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.last_round import LastRound
from magnetar.consuming.options import Subscription
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.messages import Entry, Message
from magnetar_proto.ids import MessageId, ack_set_to_mask
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

MAX_IDS = 1000
"""The limit of the entries in one command."""
NACK_TICK_S = 0.01

_entry_of = attrgetter("entry")


class DeadLetterSink(Protocol):
    """Receives messages that have been delivered too often."""

    async def move(self, messages: Sequence[Message]) -> None:
        """Store the messages elsewhere and acknowledge them."""


class Redelivery:
    """The messages to be redelivered, and the timer for them.

    A message counts as unacknowledged until the broker has confirmed its acknowledgement.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        options: Subscription,
        unconfirmed: UnconfirmedAcks,
        counts: ConsumerStatistics,
        clock: Clock,
        request: Callable[[list[Position] | None], None],
    ) -> None:
        """`request` asks the broker to redeliver these entries, or all (None)."""
        self._topic = topic
        self._partition = partition
        self._options = options
        self._unconfirmed = unconfirmed
        self._counts = counts
        self._clock = clock
        self._request = request
        # Without persistence all positions are the same, and nothing is redelivered.
        is_kept = TopicName.parse(topic).is_persistent
        self.held: DeliveredMessages | None = (
            DeliveredMessages() if is_kept and options.start is None else None
        )
        """Messages that are dropped on redelivery; `ResumePosition` replaces it for readers."""
        self.holds = self.held is not None and options.holds
        """Whether `held` has all messages of the application, not only acknowledged ones."""
        self._has_epochs = is_kept and options.has_epochs
        self.epoch: int | None = None
        """The epoch, raised by each registration and each redelivery of all; None at first."""
        self._interceptors = ConsumerInterceptors(options.interceptors)
        self._nacked = DueEntries(NACK_TICK_S)
        self._untouched = DueEntries(self._options.ack_timeout_tick_s)
        self._timer: Timer | None = None
        self._timer_s = 0.0
        self.dead_letters: DeadLetterSink | None = None
        self._last = LastRound()
        self._moves: set[asyncio.Task[None]] = set()
        self._aborting = 0
        """The number of transactions that are being aborted and acknowledged messages here."""

    def raise_epoch(self) -> int | None:
        """Start and return a new epoch for deliveries; None if the subscription has no epochs."""
        if self._has_epochs:
            self.epoch = 0 if self.epoch is None else self.epoch + 1
        return self.epoch

    def is_stale(self, epoch: int | None) -> bool:
        """Tell whether a message was sent before the epoch was raised; older brokers do not say."""
        if self._aborting:
            return True  # it is redelivered once the transaction is aborted
        return epoch is not None and self.epoch is not None and epoch < self.epoch

    # -- received and taken messages

    @property
    def counts_taken(self) -> bool:
        """Whether `taken` must be called with the messages that the application takes."""
        return self.holds or self._options.ack_timeout_s is not None

    def gives_up(self, items: Sequence[Any]) -> bool:
        """Tell whether these were delivered too often, and are moved to the dead letter topic."""
        policy = self._options.dead_letter
        if policy is None or self.dead_letters is None or not items:
            return False
        entry = items[0].entry
        if not isinstance(entry, Entry) or entry.redelivery_count < policy.max_redeliveries:
            return False
        if entry.redelivery_count == policy.max_redeliveries:
            self._last.add(items)
            return False
        # If an entry is redelivered because of one message, the application still has others.
        has = {message.batch_index for message in self._last.of(entry.position)}
        failed = [item for item in items if item.batch_index not in has]
        if failed:
            self._give_up(failed)
        return True

    def left_unacked(self, entry: Entry) -> None:
        """Start the ack timeout of an entry that the application never receives."""
        if self._options.ack_timeout_s is not None:
            self._untouched.add(entry.position, self._clock.now_s() + self._timeout_s(entry))
            self._schedule()

    def taken(self, items: Sequence[Any]) -> None:
        """Start the ack timeout of messages that the application has taken."""
        if self.holds and self.held is not None:
            self.held.add(items)
        if self._options.ack_timeout_s is None:
            return
        now_s = self._clock.now_s()
        for entry, _ in groupby(items, _entry_of):
            for position in entry.chunks or (entry.position,):
                self._untouched.add(position, now_s + self._timeout_s(entry))
        self._schedule()

    def _timeout_s(self, entry: Entry) -> float:
        backoff = self._options.ack_timeout_backoff
        if backoff is not None:
            return backoff.pause_s(entry.redelivery_count)
        assert self._options.ack_timeout_s is not None
        return self._options.ack_timeout_s

    def nack(self, messages: Iterable[Message]) -> None:
        """Redeliver messages after the delay."""
        if self.held or self._last:
            messages = list(messages)
        if self.held:
            self.held.release(messages)  # promise: what was nacked before a reconnect comes again
        if self._last:
            self._last.fail(messages)
        now_s = self._clock.now_s()
        backoff = self._options.nack_backoff
        for entry, _ in groupby(messages, _entry_of):
            delay_s = self._options.nack_delay_s
            if backoff is not None:
                delay_s = backoff.pause_s(entry.redelivery_count)
            for position in entry.chunks or (entry.position,):
                self._untouched.discard(position)
                self._nacked.add(position, now_s + delay_s)
        self._schedule()

    def nack_entry(self, position: Position) -> None:
        """Redeliver an entry after the delay."""
        if self.held is not None:
            self.held.release_entry(position)
        self._last.fail_entry(position)
        self._untouched.discard(position)
        self._nacked.add(position, self._clock.now_s() + self._options.nack_delay_s)
        self._schedule()

    def acked(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Forget messages whose acknowledgement the broker has confirmed."""
        self._counts.acked_entries += len(acks)
        if self.held:
            self.held.acked(acks, is_cumulative)
        if not (self._untouched or self._nacked or self._last):
            return
        for ledger, entry, ack_set in acks:
            position = (ledger, entry)
            if is_cumulative:
                end = position if not ack_set else (ledger, entry - 1)
                self._untouched.discard_up_to(end)
                self._nacked.discard_up_to(end)
                self._last.acked_up_to(end)
                continue
            left = ack_set_to_mask(ack_set) if ack_set else 0
            self._last.acked(position, left)
            if not left:
                self._untouched.discard(position)
                self._nacked.discard(position)

    def doubted(self, acks: list[Ack]) -> None:
        """Drop these messages on redelivery: their acknowledgements may have been lost."""
        if self.held is not None:
            self.held.add_acks(acks)  # promise: an acknowledgement in doubt keeps its message away

    def refused(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Accept these messages on redelivery: the broker has refused their acknowledgements."""
        if self.held is not None:
            self.held.acked(acks, is_cumulative)

    # -- transactions

    @property
    def subscription(self) -> str:
        return self._options.name

    def transaction_aborts(self) -> None:
        """Called before the broker redelivers messages acknowledged in a transaction.

        If the subscription is not shared, this includes all later ones, also those queued here.
        """
        if not self._options.is_shared:
            self._aborting += 1

    def transaction_aborted(self, rest: list[Position]) -> None:
        """Request the redelivery of messages that the application does not have, and of `rest`."""
        if self._options.is_shared:
            for first in range(0, len(rest), MAX_IDS):
                self._request(rest[first : first + MAX_IDS])
        else:
            self._aborting -= 1
            self._request(None)

    # -- due messages

    def all(self) -> None:
        """Request the redelivery of all unacknowledged messages now."""
        self._forget()
        if self.held is not None:
            self.held.keep(*self._unconfirmed.all())
        self._request(None)

    def begin_anew(self) -> None:
        """Prepare for the redelivery of all unacknowledged messages by the broker."""
        if self.holds:
            # promise[_nacked.clear -> _forget]: an ack timeout outlives a reconnect
            self._nacked.clear()  # other messages are held, and their ack timeout continues
        else:
            self._forget()
            self.doubted(self._unconfirmed.all()[0])

    def sought(self) -> None:
        """Prepare for messages from another position, also those delivered before."""
        self._forget()
        if self.held is not None:
            self.held.keep((), None)  # promise: after a seek nothing is left out

    def _forget(self) -> None:
        self._nacked.clear()
        self._untouched.clear()
        self._last.clear()

    def stop(self) -> None:
        """Stop requesting redeliveries."""
        self._forget()
        if self._timer is not None:
            self._timer.cancel()
        for move in self._moves:
            move.cancel()

    def _schedule(self) -> None:
        due = [s for s in (self._nacked.next_s(), self._untouched.next_s()) if s is not None]
        if not due:
            return
        if self._timer is not None:
            if self._timer_s <= min(due):
                return
            self._timer.cancel()
        self._timer_s = min(due)
        self._timer = self._clock.at(self._timer_s, self._now_due)

    def _now_due(self) -> None:
        self._timer = None
        now_s = max(self._clock.now_s(), self._timer_s)
        nacked, untouched = self._nacked.take(now_s), self._untouched.take(now_s)
        self._counts.nacked_entries += len(nacked)
        self._counts.timed_out_entries += len(untouched)
        if self._interceptors:
            self._interceptors.on_nack(self._topic, self._ids(nacked))
            self._interceptors.on_ack_timeout(self._topic, self._ids(untouched))
        for position in untouched:
            self._last.fail_entry(position)
        self._again(sorted({*nacked, *untouched}))
        self._schedule()

    def _ids(self, positions: list[Position]) -> list[MessageId]:
        return [MessageId(*position, -1, self._partition) for position in positions]

    def _again(self, positions: list[Position]) -> None:
        rest = []
        # Acknowledged entries are not requested: their acknowledgement is sent again.
        acked = self._unconfirmed.acked_entries(positions) if positions else ()
        for position in positions:
            if position in acked:  # promise: the ack timeout leaves out what was acknowledged
                continue
            if self.dead_letters is not None and position in self._last:
                self._last_due(position)
            else:
                rest.append(position)
        if rest and not self._options.is_shared:
            self.all()  # the broker of an exclusive consumer cannot deliver single messages again
            return
        for first in range(0, len(rest), MAX_IDS):
            self._request(rest[first : first + MAX_IDS])

    def _last_due(self, position: Position) -> None:
        """Move the failed messages of an entry to the dead letter topic; others may yet succeed."""
        failed = self._last.take(position, self._unconfirmed.unacked_in(position))
        if failed:
            self._give_up(failed)
        rest = self._last.of(position)
        if rest:
            self.left_unacked(rest[0].entry)

    def _give_up(self, messages: list[Message]) -> None:
        task = asyncio.create_task(self._move(messages))
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def _move(self, messages: list[Message]) -> None:
        assert self.dead_letters is not None
        try:
            await self.dead_letters.move(messages)
        except Exception as error:  # they are redelivered, and moved then
            if not isinstance(error, MagnetarError):
                fields = about(topic=self._topic, subscription=self.subscription)
                what = "messages could not be moved to the dead letter topic"
                logger.exception(what, extra=fields)
            self.nack(messages)
