"""REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from conformance.differences import Difference, differs
from conformance.trace import FAILOVER, SHARED, Ids, Kind, Peer, Trace, part_of
from magnetar_proto import PulsarApi_pb2 as pb


def _wants_again(a: Peer, ids: Ids = (), **fields: int) -> None:
    a.sends_command(
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids, **fields)
    )


def everything_of_an_exclusive_consumer(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)
    _wants_again(a)
    a.receives(2)


def everything_but_what_is_acknowledged(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[1:2])
    _wants_again(a)
    a.receives(2)
    a.receives_rest()


def an_exclusive_consumer_cannot_choose(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    _wants_again(a, ids[2:])
    a.receives(3)


def everything_of_a_shared_consumer(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    a.receives(2)
    _wants_again(a)
    a.receives(2)
    _wants_again(a)
    a.receives(2)


def one_message_of_a_shared_consumer(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(3)
    _wants_again(a, ids[1:2])
    a.receives()
    a.receives_rest()
    _wants_again(a, ids[1:2])
    a.receives()


def a_list(t: Trace) -> None:
    a = t.publisher(4)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(4)
    _wants_again(a, [ids[3], ids[0]])
    a.receives(2)
    a.receives_rest()


def an_acknowledged_message(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.acks(ids[:1])
    _wants_again(a, ids[:1])
    a.receives_rest()


def a_message_that_was_not_delivered(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED)
    a.permits(2)
    ids = a.receives(2)
    _wants_again(a, [pb.MessageIdData(ledgerId=ids[0].ledgerId, entryId=2)])
    a.permits(1)
    a.receives()


def a_message_that_never_was(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED)
    a.permits(10)
    a.receives()
    _wants_again(a, [pb.MessageIdData(ledgerId=424242, entryId=0)])
    a.receives_rest()


def a_message_that_another_consumer_has(t: Trace) -> None:
    a = t.publisher(2)
    b = t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    _wants_again(b, ids[:1])
    a.receives_rest()
    b.receives_rest()


def a_message_goes_to_who_has_permits(t: Trace) -> None:
    a = t.publisher(1)
    b = t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.permits(1)
    ids = a.receives()
    b.permits(1)
    _wants_again(a, ids)
    b.receives()


def redelivery_needs_permits(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED)
    a.permits(1)
    ids = a.receives()
    _wants_again(a, ids)
    a.receives_rest()
    a.permits(1)
    a.receives()


@differs(
    Difference(
        "redelivery counts on Shared and Key_Shared",
        "are in memory, and lost when the last consumer leaves",
        "are durable until the message is acknowledged",
    )
)
def counts_outlive_the_last_consumer(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives()
    _wants_again(a, ids)
    a.receives()
    a.closes_consumer()
    a.subscribes(SHARED)
    a.permits(10)
    a.receives()


def a_closed_consumer_does_not_count(t: Trace) -> None:
    a = t.publisher(1)
    b = t.connects()
    a.subscribes(SHARED)
    a.permits(10)
    a.receives()
    b.subscribes(SHARED)
    b.permits(10)
    a.closes_consumer()
    b.receives()


def an_inactive_failover_consumer(t: Trace) -> None:
    a = t.publisher(1)
    b = t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.permits(10)
    a.receives()
    _wants_again(b)
    b.receives_rest()
    a.receives_rest()


def a_newer_epoch(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(consumer_epoch=0)
    a.permits(10)
    a.receives()
    _wants_again(a, consumer_epoch=1)
    a.receives()


def an_older_epoch(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(consumer_epoch=5)
    a.permits(10)
    a.receives()
    _wants_again(a, consumer_epoch=1)
    a.receives_rest()


def a_part_of_a_batch(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three")
    a.subscribes(SHARED)
    a.permits(10)
    [batch] = a.receives()
    a.acks([part_of(batch, 0b011)])
    _wants_again(a, [batch])
    a.receives()
