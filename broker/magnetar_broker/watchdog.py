"""Looks whether every subscription that could deliver does.

A subscription is *stalled* when for five seconds it had messages and consumers and sent
nothing, for a reason that is not idleness.  It is logged once, and again when it goes on.
If not even the dispatcher knows a reason that is a defect: then it is woken.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.pauses import pause
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic import Topic
from magnetar_storage.log import Engine

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
SCAN_LOOKS = 5
"""Everything is looked at this rarely, in a look; what seems to stall in each look."""
STALLED_LOOKS = 5
PAUSE_EVERY = 256
"""Topics and subscriptions between two turns that are left to the rest of the broker."""
MAX_LINES = 20
"""Log lines of one look; the rest is told as a number."""
DEFECT: Final = "none"
"""What stands for the blocker where nothing was in the way."""

STALLS: Final = {
    Blocker.SLOW_CONNECTION: "its consumers have permits and do not read from their connections",
    Blocker.UNACKED_CONSUMER: "every consumer holds as many unacknowledged messages as it may "
    "(maxUnackedMessagesPerConsumer)",
    Blocker.UNACKED_SUBSCRIPTION: "it has as many unacknowledged messages as it may "
    "(maxUnackedMessagesPerSubscription)",
    Blocker.UNACKED_BROKER: "the broker has as many unacknowledged messages as it may "
    "(maxUnackedMessagesPerBroker)",
    Blocker.DRAINING_KEY: "the next keys are held unacknowledged by their former consumers",
    Blocker.LOOK_AHEAD: "as many entries as may wait do so, for consumers that take none",
    Blocker.NO_OWNER: "no consumer has asked for the next keys",
    Blocker.CHUNK: "the next chunks belong to messages whose consumer takes no more",
    Blocker.READING: "its entries are being read, and do not come",
    Blocker.DAMAGE: "its next entries cannot be read",
}
"""What is told of a stall.  All other reasons are idleness: somebody does not want any."""


def idle(subscription: Subscription) -> bool:
    """Whether it is plain without asking why that there is nothing to do."""
    dispatcher = subscription.dispatcher
    caught_up = dispatcher.read_offset >= subscription.topic.log.end and not dispatcher.in_replay
    return caught_up or not subscription.consumers


@dataclass
class Suspect:
    """A subscription that may be stalled."""

    topic: Topic
    sent: int
    looks: int = 0
    told: Blocker | None = None
    """What was logged, if anything."""


class Stalls(NamedTuple):
    """Stalls for one reason: subscriptions at present, and how often there was one."""

    blocker: str
    now: int
    total: int


class Watchdog:
    """One for a broker."""

    def __init__(
        self, engine: Engine, topics: Callable[[], Iterator[Topic | NonPersistentTopic]]
    ) -> None:
        self.stalled_total: Counter[str] = Counter()
        """Stalls since the start, by blocker."""
        self._engine = engine
        self._topics = topics
        self._suspects: dict[Subscription, Suspect] = {}
        self._looks = self._lines = 0
        self._stopped = False

    def stalls(self) -> list[Stalls]:
        """All that there can be, and how many there are."""
        now = self.stalled
        return [Stalls(kind, now[kind], self.stalled_total[kind]) for kind in (*STALLS, DEFECT)]

    @property
    def stalled(self) -> Counter[str]:
        """Subscriptions that are stalled at present, by blocker."""
        return Counter(one.told for one in self._suspects.values() if one.told is not None)

    def start(self) -> None:
        """Look from now on."""
        self._engine.clock.later(LOOK_SECONDS, lambda: self._engine.tasks.spawn(self._look()))

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    # Looking --------------------------------------------------------------------------

    async def _look(self) -> None:
        self._lines = 0
        try:
            for subscription in list(self._suspects):
                self._watch(subscription)
            self._looks += 1
            if self._looks % SCAN_LOOKS == 0:
                await self._scan()
            if self._lines > MAX_LINES:
                more = self._lines - MAX_LINES
                logger.warning("%d subscriptions more changed between stalled and not", more)
        finally:
            if not self._stopped:
                self.start()

    async def _scan(self) -> None:
        """Find new suspects."""
        since_pause = 0
        for topic in self._topics():
            if not isinstance(topic, Topic):
                continue
            for subscription in list(topic.subscriptions.values()):
                if subscription not in self._suspects and self._suspicious(subscription):
                    self._suspects[subscription] = Suspect(topic, subscription.sent()[0])
            since_pause += 1 + len(topic.subscriptions)
            if since_pause >= PAUSE_EVERY:
                since_pause = 0
                await pause(self._engine.clock)

    @staticmethod
    def _suspicious(subscription: Subscription) -> bool:
        return not idle(subscription) and subscription.why_not_delivering() in STALLS

    def _watch(self, subscription: Subscription) -> None:
        """Look at a suspect again."""
        suspect = self._suspects[subscription]
        gone = suspect.topic.subscriptions.get(subscription.name) is not subscription
        if gone or subscription.sent()[0] != suspect.sent or not self._suspicious(subscription):
            del self._suspects[subscription]
            if suspect.told is not None:
                self._tell_recovery(subscription, gone)
            return
        suspect.looks += 1
        if suspect.looks < STALLED_LOOKS:
            return
        blocker = subscription.why_not_delivering()
        if suspect.told is None and blocker is Blocker.READING and self._woken(subscription):
            del self._suspects[subscription]
        elif suspect.told is not blocker:
            suspect.told = blocker
            self.stalled_total[blocker] += 1
            self._tell_stall(subscription, blocker, suspect.looks)

    def _woken(self, subscription: Subscription) -> bool:
        """Wake it; True if that helped, so that nothing was in its way but a forgotten call."""
        before = subscription.sent()[0]
        subscription.wake()
        if subscription.sent()[0] == before:
            return False
        self.stalled_total[DEFECT] += 1
        if self._may_tell():
            logger.error(
                "subscription %s of %s could deliver and did not; it was woken.  "
                "This is a defect of the broker: please report it",
                subscription.name, subscription.topic.name,
            )  # fmt: skip
        return True

    # Telling --------------------------------------------------------------------------

    def _may_tell(self) -> bool:
        self._lines += 1
        return self._lines <= MAX_LINES

    def _tell_stall(self, subscription: Subscription, blocker: Blocker, looks: int) -> None:
        if not self._may_tell():
            return
        consumers = list(subscription.consumers)
        logger.warning(
            "subscription %s of %s has sent nothing for %d s although it has messages "
            "(%s: %s).  %d entries are not acknowledged, %d of them wait to be sent again; "
            "%d consumers have %d permits and hold %d messages",
            subscription.name, subscription.topic.name, int(looks * LOOK_SECONDS),
            blocker, STALLS[blocker], subscription.unacked_entries(),
            subscription.dispatcher.in_replay, len(consumers),
            sum(max(consumer.permits, 0) for consumer in consumers),
            sum(consumer.unacked for consumer in consumers),
        )  # fmt: skip

    def _tell_recovery(self, subscription: Subscription, gone: bool) -> None:
        if self._may_tell():
            how = "is gone" if gone else "is stalled no longer"
            logger.info("subscription %s of %s %s", subscription.name, subscription.topic.name, how)
