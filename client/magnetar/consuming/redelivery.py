"""Redelivery of messages of one partition: after `nack`, after the ack timeout, or on request."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.log_fields import about
from magnetar.clock import Timer
from magnetar.consuming.due_entries import Position
from magnetar.consuming.epochs import Epochs
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.redelivery_requests import RedeliveryRequests
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.unacked_messages import UnackedMessages
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.messages import Entry, Message
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)


class DeadLetterSink(Protocol):
    """Receives messages that have been delivered too often."""

    async def move(self, messages: Sequence[Message]) -> None:
        """Store the messages elsewhere, and acknowledge them."""


class Redelivery:
    """Requests messages again when they are due, or moves them to the dead letter topic."""

    def __init__(
        self,
        subscriber: Subscriber[Any],
        unacked: UnackedMessages,
        unconfirmed: UnconfirmedAcks,
        requests: RedeliveryRequests,
        epochs: Epochs,
    ) -> None:
        self._subscriber = subscriber
        self._options = subscriber.options
        self._clock = subscriber.clock
        self._unacked = unacked
        self._unconfirmed = unconfirmed
        self._requests = requests
        self._epochs = epochs
        self._interceptors = ConsumerInterceptors(self._options.interceptors)
        self._timer: Timer | None = None
        self._timer_s = 0.0
        self.dead_letters: DeadLetterSink | None = None
        self._moves: set[asyncio.Task[None]] = set()

    # -- from the application

    def taken(self, items: Sequence[Any]) -> None:
        """Start the ack timeout of messages that the application has taken."""
        self._unacked.taken(items, self._clock.now_s())
        self._schedule()

    def left_unacked(self, entry: Entry) -> None:
        """Start the ack timeout of an entry that the application never receives."""
        self._unacked.left_unacked(entry, self._clock.now_s())
        self._schedule()

    def nack(self, messages: Iterable[Message]) -> None:
        """Redeliver messages after the delay."""
        self._unacked.nack(messages, self._clock.now_s())
        self._schedule()

    def nack_entry(self, position: Position) -> None:
        """Redeliver an entry after the delay."""
        self._unacked.nack_entry(position, self._clock.now_s())
        self._schedule()

    def all(self) -> None:
        """Request the redelivery of all unacknowledged messages now."""
        self._unacked.requested()
        self._requests.all()

    def stop(self) -> None:
        """Stop requesting redeliveries."""
        self._unacked.forget()
        if self._timer is not None:
            self._timer.cancel()
        for move in self._moves:
            move.cancel()

    # -- transactions

    def transaction_aborts(self) -> None:
        """Called before the broker redelivers messages acknowledged in a transaction.

        If the subscription is not shared, this includes all later ones, also those queued here.
        """
        if not self._options.is_shared:
            self._epochs.abort_begins()

    def transaction_aborted(self, rest: list[Position]) -> None:
        """Request the redelivery of messages that the application does not have, and of `rest`."""
        if self._options.is_shared:
            self._requests.entries(rest)
        else:
            self._epochs.abort_ends()
            self._requests.all()

    # -- due messages

    def _schedule(self) -> None:
        due_s = self._unacked.next_due_s()
        if due_s is None:
            return
        if self._timer is not None:
            if self._timer_s <= due_s:
                return  # the timer sets the next one when it fires
            self._timer.cancel()
        self._timer_s = due_s
        self._timer = self._clock.at(due_s, self._now_due)

    def _now_due(self) -> None:
        self._timer = None
        nacked, untouched = self._unacked.take_due(max(self._clock.now_s(), self._timer_s))
        counts = self._subscriber.counts
        counts.nacked_entries += len(nacked)
        counts.timed_out_entries += len(untouched)
        if self._interceptors:
            topic = self._subscriber.topic
            self._interceptors.on_nack(topic, self._ids(nacked))
            self._interceptors.on_ack_timeout(topic, self._ids(untouched))
        self._again(sorted({*nacked, *untouched}))
        self._schedule()

    def _ids(self, positions: list[Position]) -> list[MessageId]:
        return [MessageId(*position, -1, self._subscriber.partition) for position in positions]

    def _again(self, positions: list[Position]) -> None:
        rest = []
        # Acknowledged entries are not requested: their acknowledgement is sent again.
        acked = self._unconfirmed.acked_entries(positions) if positions else ()
        for position in positions:
            if position in acked:  # promise: the ack timeout leaves out what was acknowledged
                continue
            if self.dead_letters is not None and position in self._unacked.last:
                self._last_due(position)
            else:
                rest.append(position)
        if rest and not self._options.is_shared:
            self.all()  # the broker of an exclusive consumer cannot deliver single messages again
            return
        self._requests.entries(rest)

    # -- dead letters

    def gives_up(self, items: Sequence[Any]) -> bool:
        """Return whether these items reached the redelivery limit and become dead letters."""
        policy = self._options.dead_letter
        if policy is None or self.dead_letters is None or not items:
            return False
        entry = items[0].entry
        if not isinstance(entry, Entry) or entry.redelivery_count < policy.max_redeliveries:
            return False
        last = self._unacked.last
        if entry.redelivery_count == policy.max_redeliveries:
            # The application gets them once more; if it fails again, they are moved.
            last.add(items)
            return False
        # If an entry is redelivered because of one message, the application still has others.
        has = {message.batch_index for message in last.of(entry.position)}
        failed = [item for item in items if item.batch_index not in has]
        if failed:
            self._give_up(failed)
        return True

    def _last_due(self, position: Position) -> None:
        """Move the failed messages of an entry to the dead letter topic; others may yet succeed."""
        last = self._unacked.last
        failed = last.take(position, self._unconfirmed.unacked_in(position))
        if failed:
            self._give_up(failed)
        rest = last.of(position)
        if rest:
            self.left_unacked(rest[0].entry)

    def _give_up(self, messages: list[Message]) -> None:
        task = asyncio.create_task(self._move(messages))
        self._moves.add(task)  # the event loop itself holds tasks weakly
        task.add_done_callback(self._moves.discard)

    async def _move(self, messages: list[Message]) -> None:
        assert self.dead_letters is not None
        try:
            await self.dead_letters.move(messages)
        except Exception as error:  # they are redelivered, and moved then
            if not isinstance(error, MagnetarError):
                fields = about(topic=self._subscriber.topic, subscription=self._options.name)
                what = "messages could not be moved to the dead letter topic"
                logger.exception(what, extra=fields)
            self.nack(messages)
