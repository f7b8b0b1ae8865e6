"""The figures of a topic in the list of all topics (`broker-stats/topics`)."""

import json
import logging
from collections.abc import Iterable, Mapping

from magnetar_broker.statistics.internal import entries_since_unacked, pending_entries
from magnetar_broker.statistics.shapes import Json
from magnetar_broker.statistics.subscription_stats import WantedStatistics
from magnetar_broker.statistics.topic_stats import topic_stats
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.measuring import AnySubscription
from magnetar_broker.topic.topic import Topic
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock, yield_turn

logger = logging.getLogger(__name__)

PAUSE_AFTER = 20
"""The number of topics and subscriptions after which the loop does other work."""
PUBLISHER = (
    "msgRateIn", "msgThroughputIn", "averageMsgSize", "address", "producerId", "producerName",
    "connectedSince", "clientVersion", "metadata",
)  # fmt: skip
CONSUMER = (
    "address", "consumerName", "availablePermits", "connectedSince", "msgRateOut",
    "msgThroughputOut", "msgRateRedeliver", "avgMessagesPerEntry", "messageAckRate",
    "unackedMessages", "blockedConsumerOnUnackedMsgs", "clientVersion", "metadata",
)  # fmt: skip
SUBSCRIPTION = (
    "msgBacklog", "msgRateExpired", "msgRateOut", "messageAckRate", "msgThroughputOut",
    "msgRateRedeliver", "type", "filterProcessedMsgCount", "filterAcceptedMsgCount",
    "filterRejectedMsgCount", "filterRescheduledMsgCount", "blockedSubscriptionOnUnackedMsgs",
    "unackedMessages", "msgDropRate",
)  # fmt: skip
TOPIC = (
    "averageMsgSize", "msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut",
    "storageSize", "backlogSize", "msgDropRate",
)  # fmt: skip
COUNTERS = {
    "msgInCount": "msgInCounter",
    "bytesInCount": "bytesInCounter",
    "msgOutCount": "msgOutCounter",
    "bytesOutCount": "bytesOutCounter",
}
"""The fields that have another name in this list."""


async def brief_stats(topic: AnyTopic) -> Json:
    """Return the figures of a topic.  Raises `StorageError` if a backlog cannot be counted."""
    stats = await topic_stats(topic, WantedStatistics())
    cursors = {name: _cursor(one) for name, one in topic.subscriptions.items()}
    return {
        "publishers": [_some(PUBLISHER, one) for one in stats["publishers"]],
        "replication": {},
        "subscriptions": {
            name: {
                "consumers": [_some(CONSUMER, each) for each in one["consumers"]],
                **_some(SUBSCRIPTION, one),
                **cursors.get(name, {}),
            }
            for name, one in stats["subscriptions"].items()
        },
        "producerCount": len(stats["publishers"]),
        **_some(TOPIC, stats),
        **{name: stats[source] for name, source in COUNTERS.items()},
        "pendingAddEntriesCount": pending_entries(topic) if isinstance(topic, Topic) else 0,
        "filteredEntriesCount": 0,
    }


async def encoded(topics: Iterable[AnyTopic], clock: Clock) -> list[tuple[str, bytes]]:
    """Return the figures of topics as JSON, by name; those that cannot be counted are logged."""
    found, used = [], 0
    for topic in topics:
        try:
            stats = await brief_stats(topic)
        # promise[StorageError -> ZeroDivisionError]: a backlog that cannot be counted fails its
        #   topic only
        except StorageError as error:
            logger.warning("%s is left out of the list of all topics: %s", topic.name, error)
        else:
            found.append((str(topic.name), json.dumps(stats).encode()))
        # promise[1 + len(topic.subscriptions) -> 0]: topics with many subscriptions are counted
        #   with pauses
        used += 1 + len(topic.subscriptions)
        if used >= PAUSE_AFTER:
            used = 0
            await yield_turn(clock)
    return found


def _cursor(one: AnySubscription) -> Json:
    unacked, ranges = 0, 0
    if isinstance(one, Subscription):
        unacked, ranges = entries_since_unacked(one), one.cursor.acked.runs()
    return {
        "numberOfEntriesSinceFirstNotAckedMessage": unacked,
        "totalNonContiguousDeletedMessagesRange": ranges,
    }


def _some(names: tuple[str, ...], of: Mapping[str, object]) -> Json:
    return {name: of[name] for name in names if name in of}
