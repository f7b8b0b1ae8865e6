"""Delivers messages of one partition again: after `nack`, after the ack timeout, or all."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.acks import Ack
from magnetar.errors import MagnetarError
from magnetar.messages import Entry, Message
from magnetar.redelivery import DueEntries, Position
from magnetar_proto.ids import ack_set_to_mask

if TYPE_CHECKING:
    from magnetar.partition_consumer import PartitionConsumer

logger = logging.getLogger(__name__)

MAX_IDS = 1000
"""Entries that one command names."""
NACK_TICK_S = 0.01

_entry_of = attrgetter("entry")


class DeadLetterSink(Protocol):
    """Takes messages that have been delivered too often."""

    async def move(self, messages: Sequence[Message]) -> None:
        """Store the messages elsewhere and acknowledge them."""


class Redelivering:
    """What is due, and the timer for it.

    A message whose acknowledgement the broker has not confirmed counts as not acknowledged.
    """

    def __init__(self, consumer: "PartitionConsumer[Any]") -> None:
        self._consumer = consumer
        self._options = consumer.subscription
        self._loop = asyncio.get_running_loop()
        self._nacked = DueEntries(NACK_TICK_S)
        self._untouched = DueEntries(self._options.ack_timeout_tick_s)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self.dead_letters: DeadLetterSink | None = None
        self._last: dict[Position, list[Message]] = {}
        """Messages in the application's hands that will not be delivered again."""
        self._moves: set[asyncio.Task[None]] = set()
        self.epoch = 0
        """Raised by each redelivery of all: messages of an earlier epoch are stale."""

    def is_stale(self, epoch: int | None) -> bool:
        """Whether a message was sent before all was asked for again."""
        return self._options.has_epochs and (epoch or 0) < self.epoch

    # -- what is received and taken

    def gives_up(self, items: Sequence[Any]) -> bool:
        """Whether these were delivered too often, and the dead letter topic gets them."""
        policy = self._options.dead_letter
        if policy is None or self.dead_letters is None or not items:
            return False
        entry = items[0].entry
        if not isinstance(entry, Entry) or entry.redelivery_count < policy.max_redeliveries:
            return False
        if entry.redelivery_count == policy.max_redeliveries:
            self._last[entry.position] = list(items)
            return False
        self._give_up(list(items))
        return True

    def taken(self, items: Iterable[Any]) -> None:
        """The application has these: the ack timeout begins."""
        now_s = self._loop.time()
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
        """Deliver these again, later."""
        now_s = self._loop.time()
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
        """Deliver an entry again, after the delay."""
        self._untouched.discard(position)
        self._nacked.add(position, self._loop.time() + self._options.nack_delay_s)
        self._schedule()

    def acked(self, acks: list[Ack], is_cumulative: bool) -> None:
        """The broker has confirmed these."""
        if not (self._untouched or self._nacked or self._last):
            return
        for ledger, entry, ack_set in acks:
            position = (ledger, entry)
            if is_cumulative:
                end = position if not ack_set else (ledger, entry - 1)
                self._untouched.discard_up_to(end)
                self._nacked.discard_up_to(end)
                for known in [known for known in self._last if known <= end]:
                    del self._last[known]
            elif not ack_set or not ack_set_to_mask(ack_set):
                self._untouched.discard(position)
                self._nacked.discard(position)
                self._last.pop(position, None)

    # -- when it is due

    def all(self) -> None:
        """Deliver all again that is not acknowledged, now."""
        epoch = None
        if self._options.has_epochs:
            self.epoch += 1
            epoch = self.epoch
        self.begin_anew()
        self._consumer.ask_again(None, epoch)

    def begin_anew(self) -> None:
        """All that is not acknowledged will be delivered again."""
        self._nacked.clear()
        self._untouched.clear()
        self._last.clear()

    def stop(self) -> None:
        """Ask for nothing any more."""
        self.begin_anew()
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
        self._timer = self._loop.call_at(self._timer_s, self._now_due)

    def _now_due(self) -> None:
        self._timer = None
        now_s = max(self._loop.time(), self._timer_s)
        positions = sorted({*self._nacked.take(now_s), *self._untouched.take(now_s)})
        self._again(positions)
        self._schedule()

    def _again(self, positions: list[Position]) -> None:
        rest = []
        for position in positions:
            if self.dead_letters is not None and position in self._last:
                self._give_up(self._last.pop(position))
            else:
                rest.append(position)
        if rest and not self._options.is_shared:
            self.all()  # the broker of an exclusive consumer cannot deliver single messages again
            return
        for first in range(0, len(rest), MAX_IDS):
            self._consumer.ask_again(rest[first : first + MAX_IDS], None)

    def _give_up(self, messages: list[Message]) -> None:
        task = self._loop.create_task(self._move(messages))
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def _move(self, messages: list[Message]) -> None:
        assert self.dead_letters is not None
        try:
            await self.dead_letters.move(messages)
        except Exception as error:  # they come again, and so does the next attempt
            if not isinstance(error, MagnetarError):
                logger.exception("messages could not be moved to the dead letter topic")
            self.nack(messages)
