"""Exclusive and Failover: who is active, how it is notified, and where delivery continues."""

from conformance.trace import EXCLUSIVE, FAILOVER, Kind, Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb

CHANGE = Kind.ACTIVE_CONSUMER_CHANGE
NAMES = ("carol", "alice", "dave", "bob")


def _joins(peer: Peer, consumer_id: int, name: str, topic: str = "", **fields: int) -> None:
    peer.subscribes(FAILOVER, consumer_id, consumer_name=name, topic=topic or peer.topic, **fields)


def _assigns(t: Trace, topic: str, names: tuple[str, ...]) -> None:
    """Consumers join a topic; its message goes to one of them."""
    a = t.connects()
    a.produces(topic)
    for consumer_id, name in enumerate(names, 1):
        _joins(a, consumer_id, name, topic)
        a.permits(10, consumer_id)
    a.publishes()
    a.receives()
    a.leaves()


def two_partitions_of_four_consumers(t: Trace) -> None:
    t.has_partitions(2)
    for partition in range(2):
        _assigns(t, f"{t.topic}-partition-{partition}", NAMES)


def nine_partitions_of_three_consumers(t: Trace) -> None:
    t.has_partitions(9)
    for partition in (0, 1, 2, 7, 8):
        _assigns(t, f"{t.topic}-partition-{partition}", NAMES[:3])


def a_topic_without_partitions_of_four_consumers(t: Trace) -> None:
    _assigns(t, "persistent://public/default/ring", NAMES)
    _assigns(t, "persistent://public/default/another-ring", NAMES)


def a_better_priority_takes_over(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    _joins(a, 1, "a", priority_level=1)
    a.awaits(CHANGE)
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[:1])
    _joins(b, 1, "b", priority_level=0)
    b.awaits(CHANGE)
    a.awaits(CHANGE)
    b.permits(10)
    b.receives(2)


def a_successor_is_notified_and_continues_behind_the_last_ack(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    _joins(a, 1, "a", priority_level=0)
    a.awaits(CHANGE)
    a.permits(10)
    ids = a.receives(3)
    _joins(b, 1, "b", priority_level=1)
    b.awaits(CHANGE)
    b.permits(10)
    a.acks(ids[1:2])
    a.acks(ids[:1])
    a.leaves()
    b.awaits(CHANGE)
    b.receives()


def no_notice_when_an_inactive_consumer_leaves(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 1, "a", priority_level=0)
    a.awaits(CHANGE)
    _joins(b, 1, "b", priority_level=1)
    b.awaits(CHANGE)
    b.closes_consumer()
    a.receives_rest()


def an_epoch_begins_anew_with_the_consumer(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(EXCLUSIVE, consumer_epoch=3)
    a.permits(10)
    a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=7))
    a.receives()
    a.closes_consumer()
    a.subscribes(EXCLUSIVE, consumer_epoch=1)
    a.permits(10)
    a.receives()


def an_epoch_of_a_consumer_that_never_had_one(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(EXCLUSIVE)
    a.permits(10)
    a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=2))
    a.receives()


def an_epoch_that_an_inactive_consumer_names(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    _joins(a, 1, "a", priority_level=0)
    a.awaits(CHANGE)
    _joins(b, 1, "b", priority_level=1, consumer_epoch=1)
    b.awaits(CHANGE)
    b.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=4))
    b.receives_rest()
    a.closes_consumer()
    b.permits(10)
    b.awaits(CHANGE)
    b.receives()


def no_epoch_where_nothing_is_kept(t: Trace) -> None:
    t.topic = t.topic.replace("persistent", "non-persistent")
    a = t.connects()
    a.subscribes(EXCLUSIVE, consumer_epoch=3)
    a.permits(10)
    a.produces()
    a.publishes()
    a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=7))
    a.publishes(1, 1)
    a.receives()


def no_epoch_for_who_reads_compacted(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(EXCLUSIVE, read_compacted=True, consumer_epoch=3)
    a.permits(10)
    a.receives()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=7))
    a.receives()


def permits_of_who_waits_are_kept(t: Trace) -> None:
    a, b = t.publisher(4), t.connects()
    _joins(a, 1, "a", priority_level=0)
    a.awaits(CHANGE)
    _joins(b, 1, "b", priority_level=1)
    b.awaits(CHANGE)
    b.permits(2)
    b.permits(1)
    a.closes_consumer()
    b.awaits(CHANGE)
    b.receives(3)
    b.receives_rest()
