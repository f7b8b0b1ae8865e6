"""The reason why a subscription delivers nothing, its beginning, and the remedy."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from magnetar_broker.damage.looking import next_damage
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.dispatch.single_active import SingleActive
from magnetar_broker.statistics.key_hashes import queues_of
from magnetar_broker.statistics.shapes import Json, address
from magnetar_broker.statistics.subscription_stats import type_name
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.throttling.rate_limit import RateLimit
from magnetar_broker.topic.topic import Topic
from magnetar_storage.log.damage import Damage

MAX_CONSUMERS = MAX_DAMAGED = 100
"""The most consumers, and ranges of damaged entries, that are listed."""


class Reason(NamedTuple):
    """The meaning of a blocker, and the remedy."""

    why: str
    what_to_do: str


NOTHING = "nothing: this is not a fault"
REASONS: Final = {
    Blocker.CAUGHT_UP: Reason("every message has been delivered", NOTHING),
    Blocker.NO_CONSUMER: Reason(
        "no consumer is connected", "start a consumer of this subscription, or delete it"
    ),
    Blocker.NO_PERMITS: Reason(
        "no consumer that may receive has asked for more messages",
        "look at the application: it does not call receive, or the queue of its client is full",
    ),
    Blocker.SLOW_CONNECTION: Reason(
        "the consumers ask for messages and do not read from their connections",
        "look at the client process and the network",
    ),
    Blocker.UNACKED_CONSUMER: Reason(
        "every consumer has reached its limit of unacknowledged messages",
        "acknowledge messages, or raise maxUnackedMessagesPerConsumer",
    ),
    Blocker.UNACKED_SUBSCRIPTION: Reason(
        "the subscription has reached its limit of unacknowledged messages",
        "acknowledge messages, or raise maxUnackedMessagesPerSubscription",
    ),
    Blocker.UNACKED_BROKER: Reason(
        "the broker has reached its limit of unacknowledged messages, and this subscription has "
        "more than its share",
        "acknowledge messages, or raise maxUnackedMessagesPerBroker",
    ),
    Blocker.DRAINING_KEY: Reason(
        "the next keys have moved to another consumer, and the former one has unacknowledged "
        "messages of them",
        "acknowledge there, or close that consumer; GET drainingHashes lists the messages",
    ),
    Blocker.LOOK_AHEAD: Reason(
        "the limit of entries that wait for consumers without permits is reached",
        "look at the consumers without permits, or raise "
        "keySharedLookAheadMsgInReplayThresholdPerSubscription",
    ),
    Blocker.NO_OWNER: Reason(
        "no consumer has chosen the hash ranges of the next keys",
        "subscribe a STICKY consumer with these ranges",
    ),
    Blocker.CHUNK: Reason(
        "the next chunks are for a consumer without permits, which has the beginning of their "
        "messages",
        "look at that consumer",
    ),
    Blocker.RATE: Reason(
        "a dispatch rate is used up for the moment",
        "wait, or raise the dispatch rate of the scope that is named",
    ),
    Blocker.TRANSACTION: Reason(
        "all messages that are left lie after the first message of an open transaction",
        "commit or abort the transaction that is named, or wait for its timeout",
    ),
    Blocker.DELAY: Reason(
        "all messages that are left are delayed", "wait until the next one is due"
    ),
    Blocker.SWITCHING: Reason(
        "a new consumer is about to become active",
        "wait for activeConsumerFailoverDelayTimeMillis",
    ),
    Blocker.READING: Reason(
        "the next entries are being read",
        "if it lasts, look at the disk and its load, or at the store of objects that readsFrom "
        "names",
    ),
    Blocker.READ_ERROR: Reason(
        "reading the next entries fails, and is retried every second",
        "repair what readError names: the disk, or the store of objects",
    ),
    Blocker.DAMAGE: Reason(
        "the next entries are damaged or missing",
        "put the file back from a copy, or set the entries aside for all subscriptions and "
        "readers with magnetar admin topics skip-damaged; with --dry-run it names them",
    ),
}


async def why_not_delivering(topic: Topic, one: Subscription, stalled_seconds: int | None) -> Json:
    """Return the reason, the times since which it may have held, and the figures behind it.

    Raises `StorageError` if the backlog cannot be counted.
    """
    backlog = await one.backlog()
    blocker = one.dispatcher.blocker()
    place = _place(topic, one)
    # Damage is also reported before a consumer has reached it, unless the network would be asked.
    if blocker is Blocker.NO_CONSUMER and not place:
        is_damaged = bool(await next_damage(topic.log, one.next_unacked()))
        blocker = Blocker.DAMAGE if is_damaged else blocker
    reason = REASONS[blocker]
    consumers = list(one.consumers)
    found: Json = {
        "topic": str(topic.name),
        "subscription": one.name,
        "type": type_name(one),
        "blocker": str(blocker),
        "why": reason.why,
        "whatToDo": reason.what_to_do,
        "sinceTimestamp": _since(topic, one, blocker),
        "lastConsumedTimestamp": max(one.sent_ms, *(each.sent_ms for each in consumers), 0),
        "lastAckedTimestamp": one.acks.acked_ms,
        "lastConsumedFlowTimestamp": one.flow_ms,
        "lastPublishTimeStamp": topic.appender.last_ms,
        "msgBacklog": backlog.messages,
        "backlogEntries": backlog.entries,
        "msgDelayed": backlog.delayed,
        "msgInReplay": one.dispatcher.in_replay,
        "unackedMessages": one.dispatcher.unacked,
        "limits": _limits(topic, one),
        "damaged": [_damaged(each) for each in islice(_waiting(topic, one), MAX_DAMAGED)],
        "consumerCount": len(consumers),
        "consumers": [_consumer(each) for each in consumers[:MAX_CONSUMERS]],
    }
    if stalled_seconds is not None:
        found["stalledSeconds"] = stalled_seconds
    return found | _details(topic, one, blocker)


def _since(topic: Topic, one: Subscription, blocker: Blocker) -> int:
    """Return the time of the last event that may have changed the reason."""
    if blocker is Blocker.NO_CONSUMER:
        return one.left_ms
    consumers = list(one.consumers)
    times = [one.sent_ms, *(each.sent_ms for each in consumers)]
    if blocker is not Blocker.CAUGHT_UP:
        times += (max(each.connected_ms for each in consumers),) if consumers else ()
    if blocker in (Blocker.DELAY, Blocker.RATE, Blocker.READING):
        times.append(topic.appender.last_ms)
    return max(times)


def _limits(topic: Topic, one: Subscription) -> Json:
    limits = topic.limits
    found: Json = {}
    if not one.dispatcher.exclusive_acks and one.durable:
        found = {
            "maxUnackedMessagesPerConsumer": limits.max_unacked_per_consumer,
            "maxUnackedMessagesPerSubscription": limits.max_unacked_per_subscription,
            "maxUnackedMessagesPerBroker": topic.shared_limits.unacked.limit,
        }
    if isinstance(one.dispatcher, KeyShared):
        found |= {
            "keySharedLookAheadMsgInReplayThresholdPerConsumer": (
                limits.key_shared_look_ahead_per_consumer
            ),
            "keySharedLookAheadMsgInReplayThresholdPerSubscription": (
                limits.key_shared_look_ahead_per_subscription
            ),
        }
    return found


def _consumer(one: Consumer) -> Json:
    return {
        "consumerName": one.name,
        "consumerId": one.id,
        "address": address(one.connection.address),
        "availablePermits": one.permits,
        "unackedMessages": one.unacked,
        "blockedConsumerOnUnackedMsgs": one.blocked,
        "readsFromConnection": one.connection.has_room(),
        "lastAckedTimestamp": one.acked_ms,
        "lastConsumedTimestamp": one.sent_ms,
        "lastConsumedFlowTimestamp": one.flow_ms,
    }


def _details(topic: Topic, one: Subscription, blocker: Blocker) -> Json:
    """Return the fields that only some reasons have."""
    found: Json = {}
    dispatcher, queues = one.dispatcher, queues_of(one)
    if isinstance(dispatcher, SingleActive) and dispatcher.active is not None:
        found["activeConsumerName"] = dispatcher.active.name
    if blocker is Blocker.TRANSACTION and topic.transactions.open:
        found["openTransaction"] = _oldest(topic)
    if blocker is Blocker.DELAY and topic.delays.next_due_ms is not None:
        found["nextDueTimestamp"] = topic.delays.next_due_ms
    if blocker is Blocker.RATE:
        found["dispatchRates"] = [_rate(limit) for limit in one.rate_limits if limit.wait_ms]
    if blocker in (Blocker.READING, Blocker.READ_ERROR) and (place := _place(topic, one)):
        found["readsFrom"] = place
    if blocker is Blocker.READ_ERROR:
        found["readError"] = str(dispatcher.read_error)
    if queues is not None:
        found["drainingHashesCount"] = len(queues.draining)
    return found


def _place(topic: Topic, one: Subscription) -> str:
    """Return the store of objects from which the next entry is read; "" if from the data directory.

    With entries to be sent again, it is the oldest of them.
    """
    log, dispatcher = topic.log, one.dispatcher
    offset = one.next_unacked()
    if one.consumers and not dispatcher.in_replay:
        offset = max(offset, dispatcher.read_offset)
    if not log.first_offset <= offset < log.end:
        return ""
    _, segment, _ = log.segment_at(offset)
    copy = segment.copy
    is_read = segment.is_remote or (segment.is_copied and log.entries.prefers_copies)
    return copy.place if copy is not None and is_read else ""


def _waiting(topic: Topic, one: Subscription) -> Iterator[Damage]:
    """Yield the known damage that the subscription has not acknowledged, in order."""
    log = topic.log
    for damage in sorted(log.engine.damage.of_segments({each.id for each in log.segments})):
        offsets = log.offsets_of(damage.segment, damage.first, damage.last + 1)
        if any(one.cursor.acked.missing(max(offsets.start, one.next_unacked()), offsets.stop)):
            yield damage


def _damaged(one: Damage) -> Json:
    return {
        "ledgerId": one.segment,
        "firstEntryId": one.first,
        "lastEntryId": one.last,
        "file": one.file,
        "why": one.why,
    }


def _oldest(topic: Topic) -> Json:
    """Return the open transaction with the oldest message: later messages wait for its end."""
    txn, one = next(iter(topic.transactions.open.items()))
    ledger, entry = topic.log.position(one.first)
    return {
        "txnID": str(txn),
        "firstPosition": f"{ledger}:{entry}",
        "sinceTimestamp": one.since_ms,
        "messages": one.messages,
        "openTransactions": len(topic.transactions.open),
    }


def _rate(limit: RateLimit) -> Json:
    return {
        "scope": limit.scope,
        "dispatchThrottlingRateInMsg": limit.rate.messages,
        "dispatchThrottlingRateInByte": limit.rate.bytes,
        "ratePeriodInSecond": limit.rate.period_seconds,
        "waitMillis": limit.wait_ms,
    }
