"""The figures of a topic in the list of all topics (`broker-stats/topics`)."""

from collections.abc import Mapping

from magnetar_broker.statistics.internal import internal_stats
from magnetar_broker.statistics.shapes import Json
from magnetar_broker.statistics.subscriptions import Wanted
from magnetar_broker.statistics.topics import topic_stats
from magnetar_broker.topic.loaded_topics import AnyTopic

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
CURSOR = ("numberOfEntriesSinceFirstNotAckedMessage", "totalNonContiguousDeletedMessagesRange")
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
"""Fields that have another name here."""


async def brief_stats(topic: AnyTopic) -> Json:
    """The figures of a topic.  Raises `StorageError` if a backlog cannot be counted."""
    stats, stored = await topic_stats(topic, Wanted()), internal_stats(topic, False)
    return {
        "publishers": [_some(PUBLISHER, one) for one in stats["publishers"]],
        "replication": {},
        "subscriptions": {
            name: {
                "consumers": [_some(CONSUMER, each) for each in one["consumers"]],
                **_some(SUBSCRIPTION, one),
                **_some(CURSOR, stored["cursors"].get(name, {})),
            }
            for name, one in stats["subscriptions"].items()
        },
        "producerCount": len(stats["publishers"]),
        **_some(TOPIC, stats),
        **{name: stats[source] for name, source in COUNTERS.items()},
        "pendingAddEntriesCount": stored["pendingAddEntriesCount"],
        "filteredEntriesCount": 0,
    }


def _some(names: tuple[str, ...], of: Mapping[str, object]) -> Json:
    return {name: of[name] for name in names if name in of}
