"""Reading single entries of one topic, and the amount of data after a position.

Nothing is changed.  An entry is returned as (ledger, entry, bytes as stored).
"""

from collections.abc import Callable
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import Position, loaded, subscription_of
from magnetar_broker.server.http.messages import Refused
from magnetar_broker.subscriptions.finding import first_since, last_message_id
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet

MAX_ENTRY_BYTES = 32 << 20
"""The largest entry that is shown: a larger one would fill the links between processes."""

Found = tuple[int, int, bytes]


# Entries -----------------------------------------------------------------------------------


async def entry_at(broker: Broker, name: TopicName, ledger: int, entry: int) -> Found:
    """Return the entry at a position; 404 if there is none."""
    log = (await loaded(broker, name)).log
    offset = log.offset_of(ledger, entry)
    if offset is None or offset in log.holes:
        raise _no_message(name, f"{ledger}:{entry}")
    if offset in log.hidden or offset >= log.visible_end:
        raise _no_message(
            name, f"{ledger}:{entry} to be read: a transaction is open, was aborted, or ends there"
        )
    return await _read(name, log, offset)


async def peek(broker: Broker, name: TopicName, subscription: str, position: int) -> Found:
    """Return the entry at a position, from 1, in a subscription's backlog; 404 if there is none."""
    chosen = await subscription_of(broker, name, subscription)
    first, log, acked = chosen.counter.first_unacked(), chosen.topic.log, chosen.cursor.acked
    end = max(log.visible_end, first)
    left = end - first - acked.count(first, end)
    if position > left:
        why = f"{position}: {left} entries of the backlog of {subscription} can be delivered"
        raise _no_message(name, f"at position {why}")
    # promise[_nth(position, first, end, acked.count) -> first + position - 1]: a peek counts
    #   unacknowledged entries only
    offset = _nth(position, first, end, acked.count)
    return await _read(name, log, offset)


async def examine(broker: Broker, name: TopicName, latest: bool, position: int) -> Found:
    """Return the entry at a position, from 1, counted from either end of the topic.

    From the beginning, a position beyond the last entry means the last entry; from the end it is
    refused, as is every position in an empty topic.
    """
    log = (await loaded(broker, name)).log
    first, end, gone = log.first_offset, log.visible_end, _gone(log)
    kept = end - first - gone.count(first, end)
    if not kept:
        raise Refused(412, f"{name} has no messages: nothing can be examined")
    if latest and position > kept:
        raise Refused(412, f"messagePosition is {position}: {name} has {kept} entries")
    wanted = kept - position + 1 if latest else min(position, kept)
    return await _read(name, log, _nth(wanted, first, end, gone.count))


def _gone(log: Log) -> OffsetSet:
    """Return the entries that were deleted, and those that are delivered to nobody."""
    if not log.hidden:
        return log.holes
    gone = log.holes.copy()
    gone.add_all(log.hidden)
    return gone


def _nth(position: int, first: int, end: int, gone: Callable[[int, int], int]) -> int:
    """Return the offset of the entry at a position, from 1, among those that are not gone."""
    low, high = first, end - 1
    while low < high:
        middle = (low + high) // 2
        if middle + 1 - first - gone(first, middle + 1) >= position:
            high = middle
        else:
            low = middle + 1
    return low


async def _read(name: TopicName, log: Log, offset: int) -> Found:
    ledger, entry = log.position(offset)
    run = log.tail.get(offset, 1, 1) or await log.entries.read(offset, 1, 1)
    # If an entry was deleted meanwhile, the read returns the next one, which is not to be shown.
    if not run.payloads or run.first != offset:
        raise _no_message(name, "there any more: it was deleted meanwhile")
    stored = bytes(run.payloads[0])
    if len(stored) > MAX_ENTRY_BYTES:
        raise Refused(
            412,
            f"message {ledger}:{entry} of {name} has {len(stored)} bytes, and the limit of this "
            f"request is {MAX_ENTRY_BYTES}: read it with a client",
        )
    return ledger, entry, stored


def _no_message(name: TopicName, which: str) -> Refused:
    return Refused(404, f"{name} has no message {which}")


# Positions ---------------------------------------------------------------------------------


async def last_id(broker: Broker, name: TopicName) -> Position:
    """Return the position of the last message; ledger and entry are -1 if the topic is empty."""
    found = await last_message_id((await loaded(broker, name)).log, name.partition)
    return found.ledger, found.entry, found.batch_index, found.partition


async def id_since(broker: Broker, name: TopicName, timestamp_ms: int) -> tuple[int, int]:
    """Return the first entry published at or after a time, else the position after the last."""
    log = (await loaded(broker, name)).log
    return log.position(await first_since(log, timestamp_ms))


async def id_of_index(broker: Broker, name: TopicName, index: int) -> tuple[int, int]:
    """Return the entry with a message; `index` is the number of messages stored before it."""
    log = (await loaded(broker, name)).log
    low, high = log.first_offset, log.end
    if not await log.entries.messages_before(low) <= index < log.messages_end:
        raise Refused(
            404,
            f"{name} has no message with index {index}: expected one from "
            f"{await log.entries.messages_before(low)} to {log.messages_end - 1}",
        )
    while high - low > 1:
        middle = (low + high) // 2
        if await log.entries.messages_before(middle) <= index:
            low = middle
        else:
            high = middle
    if low in log.holes:
        raise Refused(404, f"the message with index {index} was deleted from {name}")
    return log.position(low)


# Backlogs ----------------------------------------------------------------------------------


async def bytes_behind(broker: Broker, name: TopicName, ledger: int, entry: int) -> int:
    """Return the size of all entries after a position, by the mean entry size of each segment."""
    log = (await loaded(broker, name)).log
    begin = log.seek(ledger, entry)
    if log.offset_of(ledger, entry) == begin:
        begin += 1
    size, base = 0, log.first_offset
    for segment in log.segments:
        stop = log.segment_end(base)
        held = stop - base - log.holes.count(base, stop)
        start = min(max(base, begin), stop)
        left = stop - start - log.holes.count(start, stop)
        # Rounded up: a rest is never shown as nothing.
        size += -(-log.size_of(segment) * left // held) if held else 0
        base = stop
    return size


async def analyze(
    broker: Broker, name: TopicName, subscription: str, start: Position | None
) -> dict[str, Any]:
    """Return the backlog of a subscription, or its part from a position on, as JSON."""
    chosen = await subscription_of(broker, name, subscription)
    log, acked = chosen.topic.log, chosen.cursor.acked
    first, end = chosen.counter.first_unacked(), log.end
    if start is not None:
        first = max(first, min(log.seek(*start[:2]), end))
    entries = end - first - acked.count(first, end)
    messages = await chosen.counter.messages_between(first, end)
    answer: dict[str, Any] = {
        "entries": entries,
        "messages": messages,
        "markerMessages": 0,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": False,
    }
    if entries:
        ends = _nth(1, first, end, acked.count), _nth(entries, first, end, acked.count)
        names = [":".join(map(str, log.position(offset))) for offset in ends]
        answer |= {"firstMessageId": names[0], "lastMessageId": names[1]}
    return answer


async def backlogs(broker: Broker, name: TopicName) -> dict[str, Any]:
    """Return the size of a topic, and the backlog of each durable subscription, as JSON."""
    topic = await loaded(broker, name)
    cursors = {one.name: await one.backlog() for one in topic.subscriptions.values() if one.durable}
    return {
        "storageSize": topic.log.size,
        "totalMessages": await _messages(topic),
        "messageBacklog": sum(found.messages for found in cursors.values()),
        "topicName": str(name),
        "dataLedgerDetails": [
            {"ledgerId": one.id, "entries": _entries(topic, one.id), "size": topic.log.size_of(one)}
            for one in topic.log.segments
        ],
        "cursorDetails": {one: {"cursorBacklog": found.messages} for one, found in cursors.items()},
        "statGeneratedAt": topic.log.engine.clock.now_ms(),
    }


async def _messages(topic: Topic) -> int:
    log = topic.log
    return log.messages_end - await log.entries.messages_before(log.first_offset)


def _entries(topic: Topic, ledger: int) -> int:
    found = topic.log.offsets_of(ledger, 0, 1 << 62)
    return len(found) - topic.log.holes.count(found.start, found.stop)
