"""Statistics of a subscription."""

from typing import NamedTuple

from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.compacted import shown
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.dispatch.single_active import SingleActive
from magnetar_broker.statistics.client_stats import NOT_DRAINING, consumer
from magnetar_broker.statistics.key_hashes import drained, hash_ranges, queues_of
from magnetar_broker.statistics.shapes import FILTERS, Json
from magnetar_broker.subscriptions.subscription import KEY_SHARED, Subscription
from magnetar_broker.throttling.dispatch_throttle import ThrottleEvents
from magnetar_broker.topic.measuring import AnySubscription, consuming
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscription
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.cursors.cursor_log import DurableCursor

FULL = (Blocker.UNACKED_SUBSCRIPTION, Blocker.UNACKED_BROKER)
NO_EVENTS = ThrottleEvents()
EMPTY = Backlog(0, 0)


class WantedStatistics(NamedTuple):
    """The optional parts of the statistics that a request asks for."""

    sizes: bool = True
    """The bytes of the backlog of each subscription; -1 if not wanted."""
    earliest: bool = False
    """The publish time of the oldest message of each backlog, which may be read from disk."""
    publishers: bool = True
    consumers: bool = True


async def of_persistent(one: Subscription, wanted: WantedStatistics) -> Json:
    """Return the statistics of a subscription of a persistent topic.  Raises `StorageError`."""
    dispatcher, cursor = one.dispatcher, one.cursor
    backlog = await one.backlog()
    found = _common(one, backlog, wanted)
    found |= {
        "blockedSubscriptionOnUnackedMsgs": dispatcher.blocker() in FULL,
        "msgInReplay": dispatcher.in_replay,
        "unackedMessages": dispatcher.unacked,
        "lastAckedTimestamp": one.acks.acked_ms,
        "lastMarkDeleteAdvancedTimestamp": one.acks.advanced_ms,
        "lastExpireTimestamp": one.last_expired_ms,
        "nonContiguousDeletedMessagesRanges": cursor.acked.runs(),
        "nonContiguousDeletedMessagesRangesSerializedSize": cursor.acked.size(),
        "isDurable": one.durable,
        "durable": one.durable,
    }
    if backlog.delayed:
        found["delayedMessageIndexSizeInBytes"] = one.topic.delays.waiting.size()
    if wanted.earliest:
        oldest_ms = await one.counter.oldest_ms(estimates=True) if backlog.entries else None
        found["earliestMsgPublishTimeInBacklog"] = -1 if oldest_ms is None else oldest_ms
    if isinstance(dispatcher, SingleActive) and dispatcher.active is not None:
        found["activeConsumerName"] = dispatcher.active.name
    if isinstance(cursor, DurableCursor):
        found["subscriptionProperties"] = shown(cursor.properties)
    queues = queues_of(one)
    if queues is not None and isinstance(dispatcher, KeyShared):
        draining = await drained(queues, one.topic.log.engine.clock)
        found |= {name: sum(each[name] for each in draining.values()) for name in NOT_DRAINING}
        found |= _key_shared(dispatcher.meta)
        if wanted.consumers:
            ranges = hash_ranges(queues.slots)
            found["consumers"] = [
                consumer(each, draining.get(each), ranges.get(each, [])) for each in one.consumers
            ]
    elif wanted.consumers:
        found["consumers"] = [consumer(each, None, None) for each in one.consumers]
    return found | _throttled(one.throttled or NO_EVENTS)


def of_non_persistent(one: NonPersistentSubscription, wanted: WantedStatistics) -> Json:
    """Return the statistics of a subscription of a non-persistent topic."""
    found = _common(one, EMPTY, wanted) | _throttled(NO_EVENTS)
    found["msgDropRate"] = consuming(one).dropped
    ranges = None
    if one.type == KEY_SHARED and one.slots is not None:
        found |= _key_shared(next((each.key_shared for each in one.consumers), KeySharedMeta()))
        ranges = hash_ranges(one.slots)
    if wanted.consumers:
        found["consumers"] = [
            consumer(each, None, None if ranges is None else ranges.get(each, []))
            for each in one.consumers
        ]
    if one.active is not None and one.is_single:
        found["activeConsumerName"] = one.active.name
    return found


def _common(one: AnySubscription, backlog: Backlog, wanted: WantedStatistics) -> Json:
    rates, (messages, size) = consuming(one), one.sent()
    expired = one.messages_expired if isinstance(one, Subscription) else 0
    return {
        "msgRateOut": rates.messages,
        "msgThroughputOut": rates.bytes,
        "bytesOutCounter": size,
        "msgOutCounter": messages,
        "msgRateRedeliver": rates.redelivered,
        "messageAckRate": rates.acked,
        "chunkedMessageRate": rates.chunks,
        "msgBacklog": backlog.messages,
        "backlogSize": backlog.size if wanted.sizes else -1,
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": backlog.without_delayed,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": backlog.delayed,
        "msgInReplay": 0,
        "unackedMessages": 0,
        "type": type_name(one),
        "msgRateExpired": rates.expired,
        "msgExpired": expired,
        "totalMsgExpired": expired,
        "lastExpireTimestamp": 0,
        "lastConsumedFlowTimestamp": one.flow_ms,
        "lastConsumedTimestamp": max(
            one.sent_ms, max((each.sent_ms for each in one.consumers), default=0)
        ),
        "lastAckedTimestamp": 0,
        "lastMarkDeleteAdvancedTimestamp": 0,
        "consumers": [],
        "isDurable": False,
        "durable": False,
        "isReplicated": False,
        "replicated": False,
        "allowOutOfOrderDelivery": False,
        "consumersAfterMarkDeletePosition": {},
        **NOT_DRAINING,
        "nonContiguousDeletedMessagesRanges": 0,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "subscriptionProperties": {},
        **FILTERS,
    }


def type_name(one: AnySubscription) -> str:
    """Return the type of the present or last consumers; `None` if none since the load."""
    if isinstance(one, Subscription) and not one.joined:
        return "None"
    return pb.CommandSubscribe.SubType.Name(pb.CommandSubscribe.SubType.ValueType(one.type))


def _key_shared(meta: KeySharedMeta) -> Json:
    return {
        "keySharedMode": "STICKY" if meta.sticky else "AUTO_SPLIT",
        "allowOutOfOrderDelivery": meta.out_of_order,
    }


def _throttled(events: ThrottleEvents) -> Json:
    return {
        f"dispatchThrottled{kind}EventsBy{scope.capitalize()}Limit": counts[scope]
        for kind, counts in (("Msg", events.messages), ("Bytes", events.bytes))
        for scope in ("subscription", "topic", "broker")
    }
