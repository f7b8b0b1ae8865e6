"""Statistics of a loaded topic."""

from typing import NamedTuple

from magnetar_broker.base.formats import ratio
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.expiry.quotas import backlog_bytes, held_by
from magnetar_broker.statistics.client_stats import publisher
from magnetar_broker.statistics.shapes import COMPACTION, OFFLOADING, TRANSACTIONS, Json
from magnetar_broker.statistics.subscription_stats import (
    WantedStatistics,
    of_non_persistent,
    of_persistent,
)
from magnetar_broker.tiering.topic_offloading import offloaded_size
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.measuring import consuming
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_storage.runtime.execution import yield_turn

PAUSE_EVERY = 20
"""The number of subscriptions after which the broker does other work."""


async def topic_stats(topic: AnyTopic, wanted: WantedStatistics) -> Json:
    """Return the statistics of a topic.  Raises `StorageError` if a backlog cannot be counted."""
    if isinstance(topic, Topic):
        return await _persistent(topic, wanted)
    return _non_persistent(topic, wanted)


async def _persistent(topic: Topic, wanted: WantedStatistics) -> Json:
    found, limits, log = _common(topic, wanted), topic.limits, topic.log
    subscriptions = found["subscriptions"]
    for number, one in enumerate(list(topic.subscriptions.values()), 1):
        subscriptions[one.name] = await of_persistent(one, wanted)
        if number % PAUSE_EVERY == 0:
            await yield_turn(log.engine.clock)
    oldest = await _oldest(topic)
    if oldest is not None:
        found["oldestBacklogMessageSubscriptionName"] = oldest.subscription
    earliest = [one["earliestMsgPublishTimeInBacklog"] for one in subscriptions.values()]
    first_ms = log.segments[0].created_ms if log.segments else 0
    return found | {
        "storageSize": log.size,
        "backlogSize": backlog_bytes(topic),
        "backlogQuotaLimitSize": limits.size_quota.limit,
        "backlogQuotaLimitTime": limits.age_quota.limit,
        "oldestBacklogMessageAgeSeconds": -1 if oldest is None else oldest.seconds,
        "earliestMsgPublishTimeInBacklogs": min((ms for ms in earliest if ms > 0), default=0),
        "deduplicationStatus": "Enabled" if topic.deduplication.on else "Disabled",
        **({} if topic.producers.epoch is None else {"topicEpoch": topic.producers.epoch}),
        **{
            name: sum(one[name] for one in subscriptions.values())
            for name in (
                "nonContiguousDeletedMessagesRanges",
                "nonContiguousDeletedMessagesRangesSerializedSize",
            )
        },
        "delayedMessageIndexSizeInBytes": topic.delays.waiting.size(),
        "compaction": compaction_stats(topic.compactions),
        **_offloading(topic),
        "topicCreationTimeStamp": log.record.created_ms or first_ms,
        "ongoingTxnCount": len(topic.transactions.open),
        "abortedTxnCount": topic.transactions.aborted,
        "committedTxnCount": topic.transactions.committed,
    }


def _offloading(topic: Topic) -> Json:
    figures = topic.offload_figures
    return {
        "offloadedStorageSize": offloaded_size(topic.log.segments),
        "lastOffloadLedgerId": figures.last_ledger,
        "lastOffloadSuccessTimeStamp": figures.succeeded_ms,
        "lastOffloadFailureTimeStamp": figures.failed_ms,
    }


def _non_persistent(topic: NonPersistentTopic, wanted: WantedStatistics) -> Json:
    found = _common(topic, wanted)
    for one in list(topic.subscriptions.values()):
        found["subscriptions"][one.name] = of_non_persistent(one, wanted)
    for each in found["publishers"]:
        each["msgDropRate"] = 0.0
    dropped = sum(consuming(one).dropped for one in topic.subscriptions.values())
    return found | {"msgDropRate": dropped}


UNUSED: Json = {
    "msgRateIn": 0.0,
    "msgThroughputIn": 0.0,
    "msgRateOut": 0.0,
    "msgThroughputOut": 0.0,
    "bytesInCounter": 0,
    "msgInCounter": 0,
    "systemTopicBytesInCounter": 0,
    "bytesOutCounter": 0,
    "msgOutCounter": 0,
    "bytesOutInternalCounter": 0,
    "averageMsgSize": 0.0,
    "msgChunkPublished": False,
    "storageSize": 0,
    "backlogSize": 0,
    "backlogQuotaLimitSize": 0,
    "backlogQuotaLimitTime": 0,
    "oldestBacklogMessageAgeSeconds": 0,
    "publishRateLimitedTimes": 0,
    "earliestMsgPublishTimeInBacklogs": 0,
    **OFFLOADING,
    **TRANSACTIONS,
    "publishers": [],
    "waitingPublishers": 0,
    "subscriptions": {},
    "replication": {},
    "nonContiguousDeletedMessagesRanges": 0,
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "compaction": COMPACTION,
    "topicCreationTimeStamp": 0,
    "lastPublishTimeStamp": 0,
}
"""The statistics fields that every topic has, with their values for an unused topic."""
UNUSED_NON_PERSISTENT: Json = UNUSED | {"msgDropRate": 0.0}


def _common(topic: AnyTopic, wanted: WantedStatistics) -> Json:
    rate_in, throughput_in, rate_out, throughput_out = topic.meter.rates
    messages_in, bytes_in, messages_out, bytes_out = topic.totals()
    return UNUSED | {
        "msgRateIn": rate_in,
        "msgThroughputIn": throughput_in,
        "msgRateOut": rate_out,
        "msgThroughputOut": throughput_out,
        "bytesInCounter": bytes_in,
        "msgInCounter": messages_in,
        "systemTopicBytesInCounter": bytes_in if topic.name.is_system else 0,
        "bytesOutCounter": bytes_out,
        "msgOutCounter": messages_out,
        "averageMsgSize": ratio(throughput_in, rate_in),
        "msgChunkPublished": topic.appender.chunks_in > 0,
        "publishRateLimitedTimes": 0 if topic.rates is None else topic.rates.publish_waits,
        "publishers": [publisher(one) for one in topic.producers] if wanted.publishers else [],
        "waitingPublishers": len(topic.producers.waiting),
        "subscriptions": {},
        "lastPublishTimeStamp": topic.appender.last_ms,
    }


def compaction_stats(figures: CompactionFigures | None) -> Json:
    """Return the statistics of the last compaction since the topic was loaded, if any."""
    if figures is None:
        return COMPACTION
    return {
        "lastCompactionRemovedEventCount": figures.removed,
        "lastCompactionSucceedTimestamp": figures.succeeded_ms,
        "lastCompactionFailedTimestamp": figures.failed_ms,
        "lastCompactionDurationTimeInMills": figures.duration_ms,
    }


class Oldest(NamedTuple):
    """The oldest message that a durable subscription has not acknowledged."""

    subscription: str
    seconds: int
    """The age of the message."""


async def _oldest(topic: Topic) -> Oldest | None:
    log = topic.log
    slowest = min(held_by(topic), key=lambda one: one.next_unacked(), default=None)
    if slowest is None or slowest.next_unacked() >= log.end:
        return None
    since_ms = await slowest.counter.oldest_ms(estimates=True)
    if since_ms is None:
        return None
    return Oldest(slowest.name, max(log.engine.clock.now_ms() - since_ms, 0) // 1000)
