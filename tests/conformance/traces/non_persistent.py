"""Topics that keep nothing."""

from conformance.trace import (
    CUMULATIVE,
    EXCLUSIVE,
    FAILOVER,
    INDIVIDUAL,
    NAMESPACE,
    SHARED,
    Peer,
    Trace,
)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata


def _topic(t: Trace) -> str:
    return f"non-persistent://{NAMESPACE}/{t.token}"


def _consumer(t: Trace, a: Peer, sub_type: "pb.CommandSubscribe.SubType" = EXCLUSIVE) -> None:
    a.subscribes(sub_type, topic=_topic(t))
    a.permits(10)
    a.receives_rest()


def a_message_reaches_who_is_there(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a)
    b.produces(_topic(t))
    b.publishes()
    a.receives()


def a_message_before_the_consumer_is_lost(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    b.produces(_topic(t))
    b.publishes()
    _consumer(t, a)
    b.publishes(1, first=1)
    a.receives()


def a_message_without_permits_is_lost(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(topic=_topic(t))
    b.produces(_topic(t))
    b.publishes()
    a.receives_rest()
    a.permits(1)
    a.receives_rest()
    b.publishes(2, first=1)
    a.receives()
    a.receives_rest()


def an_ack_is_answered(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a)
    b.produces(_topic(t))
    b.publishes()
    ids = a.receives()
    a.acks(ids, INDIVIDUAL)
    a.acks(ids, CUMULATIVE)


def nothing_is_redelivered(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a, SHARED)
    b.produces(_topic(t))
    b.publishes()
    a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
    a.receives_rest()


def a_seek_leads_nowhere(t: Trace) -> None:
    a = t.connects()
    _consumer(t, a)
    a.asks(pb.CommandSeek(request_id=0, consumer_id=1, message_publish_time=1))
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    a.asks(pb.CommandSeek(request_id=0, consumer_id=1, message_id=earliest))
    a.receives_rest()


def there_is_no_last_message(t: Trace) -> None:
    a = t.connects()
    _consumer(t, a)
    a.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def a_second_exclusive_consumer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a)
    b.subscribes(topic=_topic(t))


def a_consumer_of_another_type(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a, SHARED)
    b.subscribes(FAILOVER, topic=_topic(t))


def two_subscriptions_both_receive(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    _consumer(t, a)
    b.subscribes(topic=_topic(t), subscription="other")
    b.permits(10)
    b.receives_rest()
    c.produces(_topic(t))
    c.publishes()
    a.receives()
    b.receives()


def shared_consumers_take_turns(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a, SHARED)
    a.subscribes(SHARED, topic=_topic(t), consumer_id=2)
    a.permits(10, consumer_id=2)
    a.receives_rest()
    b.produces(_topic(t))
    b.publishes(4)
    a.receives(4)


def failover_consumers(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.subscribes(FAILOVER, topic=_topic(t))
    b.subscribes(FAILOVER, topic=_topic(t), priority_level=1)
    a.receives_rest()
    b.receives_rest()
    c.produces(_topic(t))
    a.closes_consumer()
    b.permits(10)
    b.receives_rest()
    c.publishes()
    b.receives()


def unsubscribing(t: Trace) -> None:
    a = t.connects()
    _consumer(t, a)
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.subscribes(topic=_topic(t))


def a_compacted_view(t: Trace) -> None:
    t.connects().subscribes(topic=_topic(t), read_compacted=True)


def the_numbers_of_a_consumer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a)
    b.produces(_topic(t))
    b.publishes()
    a.receives()
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))


def a_delayed_message_comes_at_once(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _consumer(t, a)
    b.produces(_topic(t))
    b.sends_entry(0, encode_entry(metadata(0, deliver_at_time=1 << 42), b"later"))
    b.awaits_outcome()
    a.receives_rest()


def an_initial_subscription(t: Trace) -> None:
    a = t.connects()
    a.produces(_topic(t), initial_subscription_name="sub")
