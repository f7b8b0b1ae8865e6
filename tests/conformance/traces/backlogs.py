"""What CONSUMER_STATS counts, and where SEEK leads on subscriptions that several share."""

from conformance.differences import differs
from conformance.trace import FAILOVER, KEY_SHARED, SHARED, Kind, Peer, Trace, part_of
from conformance.traces.delivery import BACKLOG
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

EARLIEST = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
PUBLISHED_MS = 1_700_000_000_000
"""The publish time of every message of a trace."""
FAR_MS = 1 << 42
"""Long after anybody reads this."""


def _shows_numbers(peer: Peer, consumer_id: int = 1) -> None:
    peer.asks(pb.CommandConsumerStats(request_id=0, consumer_id=consumer_id))


def _seeks(peer: Peer, **where: object) -> None:
    peer.asks(pb.CommandSeek(request_id=0, consumer_id=1, **where))  # type: ignore[arg-type]


def _comes_back(peer: Peer, sub_type: "pb.CommandSubscribe.SubType") -> None:
    peer.receives_rest()  # but that its consumer is closed
    peer.subscribes(sub_type, consumer_name="me")
    peer.permits(10)
    peer.receives_rest()


# Numbers --------------------------------------------------------------------------------


def of_two_that_share(t: Trace) -> None:
    a, b = t.publisher(4), t.connects()
    a.subscribes(SHARED, consumer_name="a")
    b.subscribes(SHARED, consumer_name="b")
    a.permits(1)
    [first] = a.receives()
    b.permits(2)
    b.receives(2)
    a.acks([first])
    _shows_numbers(a)
    _shows_numbers(b)


def of_who_acknowledges_what_another_holds(t: Trace) -> None:
    a, b = t.publisher(2), t.connects()
    a.subscribes(SHARED, consumer_name="a")
    b.subscribes(SHARED, consumer_name="b")
    a.permits(2)
    held = a.receives(2)
    b.acks(held)
    _shows_numbers(a)
    _shows_numbers(b)


def after_asking_for_one_again(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED, consumer_name="me")
    a.permits(3)
    ids = a.receives(3)
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids[:1]))
    a.receives_rest()
    _shows_numbers(a)
    a.permits(1)
    a.receives()
    _shows_numbers(a)


def of_holes(t: Trace) -> None:
    a = t.publisher(5)
    a.subscribes(SHARED, consumer_name="me")
    a.permits(5)
    ids = a.receives(5)
    a.acks([ids[1], ids[3]])
    _shows_numbers(a)
    a.closes_consumer()
    a.subscribes(SHARED, consumer_name="me")
    _shows_numbers(a)


@differs(BACKLOG)
def of_a_batch_acknowledged_in_part(t: Trace) -> None:
    a = t.publisher()
    batch = a.publishes_batch(3, b"three")
    a.subscribes(SHARED, consumer_name="me")
    a.permits(3)
    a.receives()
    a.acks([part_of(batch, 0b101)])
    _shows_numbers(a)


def of_delayed_messages(t: Trace) -> None:
    a = t.publisher()
    a.subscribes(SHARED, consumer_name="me")
    a.permits(10)
    a.sends_entry(0, encode_entry(metadata(0, deliver_at_time=FAR_MS), b"later"))
    a.awaits_outcome()
    a.publishes(1, first=1)
    a.receives()
    _shows_numbers(a)


def of_a_failover_consumer_that_stands_by(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    a.subscribes(FAILOVER, consumer_name="a")
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, consumer_name="b", priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.permits(7)
    a.permits(2)
    a.receives(2)
    _shows_numbers(a)
    _shows_numbers(b)


def of_a_key_shared_consumer(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(KEY_SHARED, consumer_name="me")
    a.permits(2)
    [first, _] = a.receives(2)
    a.acks([first])
    _shows_numbers(a)


# Seeking --------------------------------------------------------------------------------


def a_shared_one_into_a_batch(t: Trace) -> None:
    a = t.publisher()
    batch = a.publishes_batch(3, b"three")
    a.subscribes(SHARED, consumer_name="me")
    a.acks([batch])
    _seeks(a, message_id=part_of(batch, 0b110))
    _comes_back(a, SHARED)


def a_shared_one_to_a_time(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED, consumer_name="me")
    a.acks(a.published)
    _seeks(a, message_publish_time=PUBLISHED_MS)
    _comes_back(a, SHARED)


def a_key_shared_one_to_the_earliest(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(KEY_SHARED, consumer_name="me")
    a.permits(10)
    a.acks(a.receives(3)[:2])
    _seeks(a, message_id=EARLIEST)
    _comes_back(a, KEY_SHARED)


def a_key_shared_one_to_a_time(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(KEY_SHARED, consumer_name="me")
    _seeks(a, message_publish_time=PUBLISHED_MS + 1)
    _comes_back(a, KEY_SHARED)
    _shows_numbers(a)


def a_failover_one_to_a_time(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(FAILOVER, consumer_name="me")
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.acks(a.published)
    _seeks(a, message_publish_time=PUBLISHED_MS)
    _comes_back(a, FAILOVER)


def redelivery_counts_are_forgotten(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED, consumer_name="me")
    a.permits(5)
    ids = a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))
    a.receives()
    _seeks(a, message_id=EARLIEST)
    _comes_back(a, SHARED)


# Ending ---------------------------------------------------------------------------------


def a_key_shared_one_is_removed_by_force(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(KEY_SHARED, consumer_name="a")
    b.subscribes(KEY_SHARED, consumer_name="b")
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1, force=True))
    b.awaits(Kind.CLOSE_CONSUMER)


def properties_of_a_subscription_that_has_others(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED, subscription_properties=[pb.KeyValue(key="k", value="v")])
    b.subscribes(SHARED, subscription_properties=[pb.KeyValue(key="k", value="other")])
