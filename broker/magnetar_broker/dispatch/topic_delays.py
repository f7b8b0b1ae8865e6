"""Delayed delivery of one topic: the delayed entries, and the timer that releases them."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from magnetar_broker.policies.values import DelayedDelivery
from magnetar_proto.entries import DELIVER_AT_TAG, deliver_times_ms
from magnetar_storage.cursors.attached_state import DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.delays.delay_block import MAX_TIME
from magnetar_storage.delays.delay_index import DelayIndex
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.runtime.execution import Timer, yield_turn

logger = logging.getLogger(__name__)

LONGEST_SLEEP_MS = 60_000
"""The longest sleep of the timer: the wall clock may be set while the timer runs."""
LOOKED_THROUGH = 20_000
"""The most entries that are read at a load because a crash may have kept them out of the index; of
more, each is looked at when it is read for delivery."""
RETRY_MS = 1000
READ_ENTRIES = 1000
READ_BYTES = 1 << 20


class TopicDelays:
    """The delays of a topic, shared by all its subscriptions.

    Entries that are due leave `waiting`, and `on_due` is called with them.  With `strict` that is
    at their delivery time or up to a tick later, so that the timer releases many together;
    without, up to a tick before it.
    """

    def __init__(self, log: Log, index: DelayIndex, policy: DelayedDelivery, strict: bool) -> None:
        self.policy = policy
        self.on_due: Callable[[Sequence[int]], None] = lambda offsets: None
        """Called with due entries, in order, some thousand at a time."""
        self._log = log
        self._clock = log.engine.clock
        self._index = index
        self._strict = strict
        self._timer: Timer | None = None
        self._fires_ms = 0
        self._released_ms = 0
        self._releasing = self._closed = False
        if not policy.active:
            index.suspend()

    @classmethod
    async def open(
        cls,
        log: Log,
        recent: RecentDelays,
        cursors: CursorLog,
        policy: DelayedDelivery,
        strict: bool,
    ) -> "TopicDelays":
        """Load the delayed entries; `recent` is the attached state that `cursors` was opened with.

        Set `on_due`, then call `start`.
        """
        forgot = partial(
            logger.error,
            "the index of delayed messages of %s is damaged; the delays are read from the messages "
            "again: %s",
            log.key,
        )
        changed = partial(cursors.state_changed, DELAYS)
        index = await DelayIndex.open(log, recent, changed, forgot)
        return cls(log, index, policy, strict)

    def start(self) -> None:
        """Release the entries that came due meanwhile, and read those that the index may have
        missed.

        In a topic that never had delays those are left to `catch`.
        """
        self._arm()
        unsure = self._index.unsure
        # In the background: the topic serves its clients meanwhile, and `catch` covers for it.
        if unsure.start > 0 and 0 < len(unsure) <= LOOKED_THROUGH and self.policy.active:
            self._log.engine.tasks.spawn(self._look(unsure))

    @property
    def waiting(self) -> OffsetSet:
        """The entries that Shared and Key_Shared subscriptions do not deliver yet."""
        return self._index.waiting

    @property
    def next_due_ms(self) -> int | None:
        """The release time of the next delayed message, unless the clock is set; or None."""
        next_at = self._index.next_at
        return None if next_at is None else self._clock.now_ms() + next_at - self._horizon()

    # Delaying ---------------------------------------------------------------------

    def note(self, first: int, payloads: Sequence[bytes]) -> None:
        """Note that entries are durable, and add those that are delayed."""
        if self.policy.active:
            self._add(first, payloads)

    def _add(self, first: int, payloads: Sequence[bytes]) -> None:
        horizon = self._horizon()
        offsets: Sequence[int] = range(first, first + len(payloads))
        times = deliver_times_ms(payloads)
        if min(times, default=0) <= horizon:  # else all are delayed, as is usual where some are
            stamped = zip(offsets, times, strict=True)
            offsets = [offset for offset, at_ms in stamped if at_ms > horizon]
            times = [at_ms for at_ms in times if at_ms > horizon]
        if offsets:
            self._index.add(offsets, times)
            self._arm()

    def catch(self, first: int, payloads: Sequence[bytes]) -> None:
        """Look through entries that were read, and add delayed ones that the index has missed."""
        # Only around the end of the log at the last crash; the index has all others.
        unsure = self._index.unsure
        if unsure.start >= first + len(payloads) or first >= unsure.stop:
            return
        # A search for a few bytes rules out nearly all entries before metadata is parsed.
        if any(DELIVER_AT_TAG in payload for payload in payloads):
            for start, stop in list(self._index.waiting.missing(first, first + len(payloads))):
                self._add(start, payloads[start - first : stop - first])

    async def _look(self, unsure: range) -> None:
        at = unsure.start
        try:
            while at < unsure.stop and not self._closed and self.policy.active:
                run = await self._log.entries.read(at, READ_ENTRIES, READ_BYTES)
                if not run.payloads or not self.policy.active:
                    break
                self.catch(run.first, run.payloads)
                at = run.first + len(run.payloads)
                # After each piece, so that a failure further on does not lose what was looked at.
                self._index.looked_at(unsure.start, min(at, unsure.stop))
        except StorageError as error:
            logger.warning(
                "%s: entries that may be delayed cannot be read now; they are looked at when "
                "they are delivered: %s",
                self._log.key, error,
            )  # fmt: skip

    def policy_changed(self, policy: DelayedDelivery) -> None:
        """Apply a policy; if it switches delays off, everything is due."""
        if policy == self.policy:
            return
        before, self.policy = self.policy, policy
        # What arrives while delays are off is not indexed: `catch` looks for it later.
        if before.active and not policy.active:
            self._index.suspend()
        elif policy.active and not before.active:
            self._index.resume()
        # The tick may be shorter now: do not wait for the end of the old one.
        self._released_ms = 0
        self._arm()

    # Releasing --------------------------------------------------------------------

    def _horizon(self) -> int:
        """Return the time up to which entries are due now.

        With `strict` (isDelayedDeliveryDeliverAtTimeStrict) never later than now, so that no
        message is delivered early; else up to one tick early.
        """
        if not self.policy.active:
            return MAX_TIME
        # promise[without 0 if self._strict else]: strict delays never end early
        return self._clock.now_ms() + (0 if self._strict else self.policy.tick_ms)

    def _arm(self) -> None:
        """Set the timer for the next due entry, but at most once a tick."""
        next_at = self._index.next_at
        if next_at is None or self._releasing or self._closed:
            return
        now_ms = self._clock.now_ms()
        due_ms = now_ms + next_at - self._horizon()
        # At most once a tick: messages that are due one after the other would each wake every
        # dispatcher of the topic.
        fires_ms = max(now_ms, due_ms, self._released_ms + self.policy.tick_ms)
        fires_ms = min(fires_ms, now_ms + LONGEST_SLEEP_MS)
        if self._timer is not None:
            if self._fires_ms <= fires_ms:
                return  # it sets itself again when it fires
            self._timer.cancel()
        if fires_ms <= now_ms:
            self._fire()
        else:
            self._fires_ms = fires_ms
            self._timer = self._clock.later((fires_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._releasing = True
        self._log.engine.tasks.spawn(self._release())

    async def _release(self) -> None:
        try:
            self._released_ms = self._clock.now_ms()
            while not self._closed and (due := await self._index.release(self._horizon())):
                self.on_due(due)
                # After a pause, or at a full hour, there may be a great many: other work runs in
                # between.
                await yield_turn(self._clock)
        except StorageError as error:
            # A log that has failed is dropped and opened again, and says so itself.
            if self._log.failed is None:
                logger.warning(
                    "%s: due delayed messages cannot be released; trying again in %d ms: %s",
                    self._log.key, RETRY_MS, error,
                )  # fmt: skip
                self._released_ms += RETRY_MS
        finally:
            self._releasing = False
            if self._log.failed is None:
                self._arm()

    # Maintenance and end ---------------------------------------------------------------

    async def trim(self) -> None:
        """Remove entries that the log has trimmed."""
        await self._index.trim()

    def stop(self) -> None:
        """Stop the timer; nothing is released any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Stop and write the index; the cursor log must still be open."""
        self.stop()
        await self._index.close()
