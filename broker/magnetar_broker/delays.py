"""Delayed delivery of one topic: what is delayed, the timer that ends it, who is told."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from magnetar_broker.pauses import pause
from magnetar_broker.policies import DelayedDelivery
from magnetar_proto.entries import DELIVER_AT_TAG, deliver_at_ms
from magnetar_proto.errors import BadMetadata
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.delay_index import DelayIndex
from magnetar_storage.delay_run import MAX_TIME
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Log
from magnetar_storage.offsets import OffsetSet
from magnetar_storage.recent_delays import RecentDelays
from magnetar_storage.sides import DELAYS
from magnetar_storage.world import Timer

logger = logging.getLogger(__name__)

LONGEST_SLEEP_MS = 60_000
"""The wall clock may be set while the timer runs."""
LOOKED_THROUGH = 20_000
"""So many entries that nobody knows about are read when a topic is loaded; of more than that
each is looked at when it is delivered."""
RETRY_MS = 1000
READ_ENTRIES = 1000
READ_BYTES = 1 << 20


class TopicDelays:
    """Shared by all subscriptions of a topic.

    What is due leaves `waiting`, and `due` is told.  Not strictly, an entry is due a tick before
    its time; strictly, never before it, and at most a tick later.
    """

    def __init__(self, log: Log, index: DelayIndex, policy: DelayedDelivery, strict: bool) -> None:
        self.policy = policy
        self.on_due: Callable[[Sequence[int]], None] = lambda offsets: None
        """Told of entries that are due, some thousand at a time and in order."""
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
        """Load what is delayed; `recent` is the side that `cursors` was opened with.

        Set `on_due`, then call `start`.
        """
        forgot = partial(logger.error, "delays of %s are asked of the entries anew: %s", log.key)
        changed = partial(cursors.side_changed, DELAYS)
        index = await DelayIndex.open(log, recent, changed, forgot)
        return cls(log, index, policy, strict)

    def start(self) -> None:
        """Release what came due meanwhile, and look at the entries that nobody knows about.

        Where there never were any delays the latter is left to those who read them.
        """
        self._arm()
        unsure = self._index.unsure
        if unsure.start > 0 and 0 < len(unsure) <= LOOKED_THROUGH and self.policy.active:
            self._log.engine.tasks.spawn(self._look(unsure))

    @property
    def waiting(self) -> OffsetSet:
        """The entries that Shared and Key_Shared subscriptions do not get yet."""
        return self._index.waiting

    # Delaying ---------------------------------------------------------------------

    def note(self, first: int, payloads: Sequence[bytes]) -> None:
        """Entries are durable of which some may be delayed."""
        if self.policy.active:
            self._add(first, payloads)

    def _add(self, first: int, payloads: Sequence[bytes]) -> None:
        horizon = self._horizon()
        later = [
            (offset, at_ms)
            for offset, at_ms in enumerate(map(_deliver_at_ms, payloads), first)
            if at_ms > horizon
        ]
        if later:
            self._index.add(later)
            self._arm()

    def catch(self, first: int, payloads: Sequence[bytes]) -> None:
        """Entries were read: those that nobody knew to be delayed wait from now on."""
        unsure = self._index.unsure
        if unsure.start >= first + len(payloads) or first >= unsure.stop:
            return
        if any(DELIVER_AT_TAG in payload for payload in payloads):
            for start, stop in list(self._index.waiting.missing(first, first + len(payloads))):
                self._add(start, payloads[start - first : stop - first])

    async def _look(self, unsure: range) -> None:
        at = unsure.start
        try:
            while at < unsure.stop and not self._closed and self.policy.active:
                run = await self._log.read(at, READ_ENTRIES, READ_BYTES)
                if not run.payloads or not self.policy.active:
                    break
                self.catch(run.first, run.payloads)
                at = run.first + len(run.payloads)
                self._index.looked_at(unsure.start, min(at, unsure.stop))
        except StorageError as error:
            logger.warning("%s: not all delays are known yet: %s", self._log.key, error)

    def policy_changed(self, policy: DelayedDelivery) -> None:
        """Keep to a policy from now on; switched off, everything is due."""
        if policy == self.policy:
            return
        before, self.policy = self.policy, policy
        if before.active and not policy.active:
            self._index.suspend()
        elif policy.active and not before.active:
            self._index.resume()
        self._released_ms = 0
        self._arm()

    # Releasing --------------------------------------------------------------------

    def _horizon(self) -> int:
        """Until when delays are over now."""
        if not self.policy.active:
            return MAX_TIME
        return self._clock.now_ms() + (0 if self._strict else self.policy.tick_ms)

    def _arm(self) -> None:
        """Set the timer to the next delay's end, at most once a tick."""
        next_at = self._index.next_at
        if next_at is None or self._releasing or self._closed:
            return
        now_ms = self._clock.now_ms()
        due_ms = now_ms + next_at - self._horizon()
        fires_ms = max(now_ms, due_ms, self._released_ms + self.policy.tick_ms)
        fires_ms = min(fires_ms, now_ms + LONGEST_SLEEP_MS)
        if self._timer is not None:
            if self._fires_ms <= fires_ms:
                return  # it looks again then
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
                await pause(self._clock)
        except StorageError as error:
            if self._log.failed is None:
                logger.warning("%s: delays cannot be read now: %s", self._log.key, error)
                self._released_ms += RETRY_MS
        finally:
            self._releasing = False
            if self._log.failed is None:
                self._arm()

    # Upkeep and end ---------------------------------------------------------------

    async def tidy(self) -> None:
        """Forget entries that the log does not have any more."""
        await self._index.trim()

    def stop(self) -> None:
        """Release nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Stop, and record what is known; the cursor log must still be open."""
        self.stop()
        await self._index.close()


def _deliver_at_ms(entry: bytes) -> int:
    """0 for at once; also where the metadata cannot be read."""
    try:
        return deliver_at_ms(entry) or 0
    except BadMetadata:
        return 0
