"""The watchdog: checks that every subscription that could deliver does.

A subscription is *stalled* when for five seconds it had messages and consumers and sent nothing,
for a reason that is not idleness.  A stall is logged once, and its end once.  A subscription that
delivers as soon as it is woken was stalled by a defect of the broker: a call was lost.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_storage.log.engine import Engine
from magnetar_storage.runtime.execution import yield_turn

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
SCAN_CHECKS = 5
"""Every fifth check examines all subscriptions; the others only suspected ones."""
STALLED_CHECKS = 5
PAUSE_EVERY = 128
"""The number of topics and subscriptions after which the loop does other work."""
MAX_LINES = 20
"""The most log lines of one check; further stalls are logged as a number."""
DEFECT: Final = "none"
"""The blocker's label for a stall without a reason, a defect of the broker."""

STALLS: Final = {
    Blocker.SLOW_CONNECTION: "its consumers have permits and do not read from their connections",
    Blocker.UNACKED_CONSUMER: "every consumer reached its limit of unacknowledged messages "
    "(maxUnackedMessagesPerConsumer)",
    Blocker.UNACKED_SUBSCRIPTION: "it reached its limit of unacknowledged messages "
    "(maxUnackedMessagesPerSubscription)",
    Blocker.UNACKED_BROKER: "the broker reached its limit of unacknowledged messages "
    "(maxUnackedMessagesPerBroker)",
    Blocker.DRAINING_KEY: "the next keys are held unacknowledged by their former consumers",
    Blocker.LOOK_AHEAD: "the limit of entries that wait for consumers without permits is reached",
    Blocker.NO_OWNER: "no STICKY consumer has subscribed to the hash range of the next keys",
    Blocker.CHUNK: "the next chunks belong to messages whose consumer has no permits",
    Blocker.READING: "a read of its next entries does not complete",
    Blocker.READ_ERROR: "reading its next entries fails, and is repeated",
    Blocker.DAMAGE: "its next entries are damaged or missing",
}
"""The texts in the log for stalls, by reason.  All other reasons are idleness, not stalls."""


def idle(subscription: Subscription) -> bool:
    """Return whether nothing is left to deliver; cheaper than the dispatcher's `blocker`."""
    dispatcher = subscription.dispatcher
    caught_up = (
        dispatcher.read_offset >= subscription.topic.log.visible_end and not dispatcher.in_replay
    )
    return caught_up or not subscription.consumers


@dataclass
class Suspect:
    """A subscription that may be stalled, with its number of sent messages when first suspected."""

    topic: Topic
    sent: int
    checks: int = 0
    logged: Blocker | None = None
    """The reason that was logged; None before the stall was."""


class Stalls(NamedTuple):
    """The subscriptions stalled for one reason now, and the stalls since the start."""

    blocker: str
    now: int
    total: int


class Watchdog:
    """The watchdog of a broker; call `start` once, and `stop` once."""

    def __init__(
        self, engine: Engine, topics: Callable[[], Iterator[Topic | NonPersistentTopic]]
    ) -> None:
        self.stalled_total: Counter[str] = Counter()
        """Stalls since the start, by blocker."""
        self._engine = engine
        self._topics = topics
        self._suspects: dict[Subscription, Suspect] = {}
        self._checks = self._lines = 0
        self._stopped = False

    def stalls(self) -> list[Stalls]:
        """Return the stalls by reason; every possible reason is in it."""
        now = self.stalled
        return [Stalls(kind, now[kind], self.stalled_total[kind]) for kind in (*STALLS, DEFECT)]

    def stalled_seconds(self, subscription: Subscription) -> int | None:
        """Return how long a subscription has been stalled, in seconds; None if it is not."""
        suspect = self._suspects.get(subscription)
        if suspect is None or suspect.logged is None:
            return None
        return int(suspect.checks * CHECK_SECONDS)

    @property
    def stalled(self) -> Counter[str]:
        """Subscriptions that are stalled now, by blocker."""
        return Counter(one.logged for one in self._suspects.values() if one.logged is not None)

    def start(self) -> None:
        """Schedule the next check."""
        self._engine.clock.later(CHECK_SECONDS, lambda: self._engine.tasks.spawn(self._check()))

    def stop(self) -> None:
        """Make no further checks."""
        self._stopped = True

    # Checking --------------------------------------------------------------------------

    async def _check(self) -> None:
        self._lines = 0
        try:
            for subscription in list(self._suspects):
                self._watch(subscription)
            self._checks += 1
            if self._checks % SCAN_CHECKS == 0:
                await self._scan()
            if self._lines > MAX_LINES:
                more = self._lines - MAX_LINES
                logger.warning("%d further subscriptions became stalled or recovered", more)
        finally:
            if not self._stopped:
                self.start()

    async def _scan(self) -> None:
        """Find new suspects among the subscriptions."""
        since_yield = 0
        for topic in self._topics():
            if not isinstance(topic, Topic):
                continue
            for subscription in list(topic.subscriptions.values()):
                if subscription not in self._suspects and self._suspicious(subscription):
                    self._suspects[subscription] = Suspect(topic, subscription.sent()[0])
            since_yield += 1 + len(topic.subscriptions)
            if since_yield >= PAUSE_EVERY:
                since_yield = 0
                await yield_turn(self._engine.clock)

    @staticmethod
    def _suspicious(subscription: Subscription) -> bool:
        return not idle(subscription) and subscription.dispatcher.blocker() in STALLS

    def _watch(self, subscription: Subscription) -> None:
        """Check a suspected subscription again."""
        suspect = self._suspects[subscription]
        deleted = suspect.topic.subscriptions.get(subscription.name) is not subscription
        if deleted or subscription.sent()[0] != suspect.sent or not self._suspicious(subscription):
            del self._suspects[subscription]
            if suspect.logged is not None:
                self._log_recovery(subscription, deleted)
            return
        suspect.checks += 1
        if suspect.checks < STALLED_CHECKS:
            return
        blocker = subscription.dispatcher.blocker()
        if suspect.logged is None and blocker is Blocker.READING and self._woken(subscription):
            del self._suspects[subscription]
        elif suspect.logged is not blocker:
            suspect.logged = blocker
            self.stalled_total[blocker] += 1
            self._log_stall(subscription, blocker, suspect.checks)

    def _woken(self, subscription: Subscription) -> bool:
        """Wake a suspect; return True if it then sent something: only a wake was missing."""
        before = subscription.sent()[0]
        subscription.wake()
        if subscription.sent()[0] == before:
            return False
        self.stalled_total[DEFECT] += 1
        if self._may_log():
            logger.error(
                "subscription %s of %s could deliver and did not, until it was woken: "
                "a defect of the broker, please report it",
                subscription.name, subscription.topic.name,
            )  # fmt: skip
        return True

    # Logging --------------------------------------------------------------------------

    def _may_log(self) -> bool:
        self._lines += 1
        return self._lines <= MAX_LINES

    def _log_stall(self, subscription: Subscription, blocker: Blocker, checks: int) -> None:
        if not self._may_log():
            return
        consumers = list(subscription.consumers)
        logger.warning(
            "subscription %s of %s has sent nothing for %d s although it has messages "
            "(%s: %s): %d entries are not acknowledged, %d of them wait for redelivery; "
            "%d consumers have %d permits and hold %d unacknowledged messages",
            subscription.name, subscription.topic.name, int(checks * CHECK_SECONDS),
            blocker, STALLS[blocker], subscription.counter.entries(),
            subscription.dispatcher.in_replay, len(consumers),
            sum(max(consumer.permits, 0) for consumer in consumers),
            sum(consumer.unacked for consumer in consumers),
        )  # fmt: skip

    def _log_recovery(self, subscription: Subscription, deleted: bool) -> None:
        if self._may_log():
            how = "was deleted" if deleted else "delivers again"
            logger.info("subscription %s of %s %s", subscription.name, subscription.topic.name, how)
