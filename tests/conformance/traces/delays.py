"""Messages with a delivery time, on all types of subscription."""

import time

from conformance.trace import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Kind, Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

EARLIEST = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
PUBLISHED_MS = 1_700_000_000_000
"""The publish time of every message of a trace."""
FAR_MS = 1 << 42
"""Long after anybody reads this."""


def _soon(seconds: float = 10.0) -> int:
    """Later than what follows is sent and received, even by a machine that stalls."""
    return int((time.time() + seconds) * 1000)


def _sends_delayed(a: Peer, sequence_id: int, at_ms: int, **more: int) -> None:
    entry = encode_entry(metadata(sequence_id, deliver_at_time=at_ms, **more), b"later")
    a.sends_entry(sequence_id, entry, num_messages=more.get("num_messages_in_batch", 1))
    a.awaits_outcome()


def _subscribed(t: Trace, sub_type: "pb.CommandSubscribe.SubType") -> tuple[Peer, Peer]:
    a, b = t.publisher(), t.connects()
    b.subscribes(sub_type)
    if sub_type == FAILOVER:
        b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.permits(10)
    return a, b


def shared(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, _soon())
    a.publishes(first=1)
    b.receives()
    b.receives()


def key_shared(t: Trace) -> None:
    a, b = _subscribed(t, KEY_SHARED)
    _sends_delayed(a, 0, _soon())
    a.publishes(first=1)
    b.receives()
    b.receives()


def exclusive(t: Trace) -> None:
    a, b = _subscribed(t, EXCLUSIVE)
    _sends_delayed(a, 0, FAR_MS)
    a.publishes(first=1)
    b.receives(2)


def failover(t: Trace) -> None:
    a, b = _subscribed(t, FAILOVER)
    _sends_delayed(a, 0, FAR_MS)
    a.publishes(first=1)
    b.receives(2)


def the_one_that_is_due_first_comes_first(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, _soon(20))
    _sends_delayed(a, 1, _soon(10))
    b.receives()
    b.receives()


def a_batch(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, _soon(), num_messages_in_batch=3)
    a.publishes(first=3)
    b.receives()
    b.receives()


def a_time_that_is_past(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, PUBLISHED_MS)
    b.receives()


def a_delayed_message_that_came_is_asked_for_again(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, _soon())
    ids = b.receives()
    b.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))
    b.receives()


def a_subscription_that_is_newer(t: Trace) -> None:
    a = t.publisher()
    _sends_delayed(a, 0, FAR_MS)
    a.publishes(first=1)
    a.subscribes(SHARED)
    a.permits(10)
    a.receives()
    a.receives_rest()


def a_seek(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    _sends_delayed(a, 0, FAR_MS)
    a.publishes(first=1)
    b.receives()
    b.asks(pb.CommandSeek(request_id=0, consumer_id=1, message_id=EARLIEST))
    b.receives_rest()  # but that its consumer is closed
    b.subscribes(SHARED)
    b.permits(10)
    b.receives()
    b.receives_rest()


def the_last_message_may_be_delayed(t: Trace) -> None:
    a, b = _subscribed(t, SHARED)
    a.publishes()
    _sends_delayed(a, 1, FAR_MS)
    b.receives()
    b.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def what_one_type_got_another_does_not_get_yet(t: Trace) -> None:
    a, b = _subscribed(t, EXCLUSIVE)
    _sends_delayed(a, 0, FAR_MS)
    a.publishes(first=1)
    b.receives(2)
    b.closes_consumer()
    b.subscribes(SHARED)
    b.permits(10)
    b.receives()
    b.receives_rest()


def _policy(t: Trace, active: bool, max_delay_ms: int) -> Peer:
    namespace = t.has_namespace()
    policy = {"tickTime": 1000, "active": active, "maxDeliveryDelayInMillis": max_delay_ms}
    t.has_policy(namespace, "delayedDelivery", policy)
    a = t.connects()
    a.topic = f"persistent://{namespace}/topic"
    a.produces()
    return a


def a_delay_that_is_too_long(t: Trace) -> None:
    a = _policy(t, active=True, max_delay_ms=10_000)
    _sends_delayed(a, 0, PUBLISHED_MS + 10_000)
    _sends_delayed(a, 1, PUBLISHED_MS + 10_001)
    a.publishes(first=2)


def delays_that_are_switched_off(t: Trace) -> None:
    a = _policy(t, active=False, max_delay_ms=10_000)
    a.subscribes(SHARED)
    a.permits(10)
    _sends_delayed(a, 0, FAR_MS)
    a.receives()
