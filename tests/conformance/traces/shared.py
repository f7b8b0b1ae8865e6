"""Shared: turns, priorities, permits, limits of what is not acknowledged, redelivery counts."""

from collections.abc import Sequence

from conformance.trace import SHARED, Kind, Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb

LIMIT = 50_000
"""What a consumer may hold by default, in messages."""


def _joins(peer: Peer, permits: int, **fields: int) -> None:
    peer.subscribes(SHARED, **fields)
    if permits:
        peer.permits(permits, fields.get("consumer_id", 1))


def _wants_again(peer: Peer, ids: Sequence[pb.MessageIdData] = ()) -> None:
    peer.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))


def _shows_numbers(peer: Peer) -> None:
    """What the broker counts of a consumer; its backlog is counted differently."""
    stats = pb.CommandConsumerStats(request_id=0, consumer_id=1)
    peer.asks(stats)


# Turns and priorities -----------------------------------------------------------------------


def runs_end_where_permits_do(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 3)
    _joins(b, 0)
    a.produces()
    a.publishes(8)
    a.receives_rest()
    b.permits(2)
    b.receives_rest()
    a.permits(100)
    a.receives_rest()


def three_priorities(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    _joins(a, 2, priority_level=2)
    _joins(b, 2, priority_level=1)
    _joins(c, 2, priority_level=0)
    a.produces()
    a.publishes(6)
    c.receives(2)
    b.receives(2)
    a.receives(2)
    a.publishes(1, first=6)
    a.permits(1)
    a.receives()
    a.publishes(1, first=7)
    c.permits(1)
    c.receives()


def who_has_permits_again_comes_before_a_lower_priority(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 1, priority_level=0)
    _joins(b, 10, priority_level=1)
    a.produces()
    a.publishes(2)
    a.receives_rest()
    b.receives_rest()
    a.permits(1)
    a.publishes(2, first=2)
    a.receives_rest()
    b.receives_rest()


def a_negative_priority(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 1, priority_level=0)
    _joins(b, 1, priority_level=-1)
    a.produces()
    a.publishes(1)
    a.receives_rest()
    b.receives_rest()


# Permits ------------------------------------------------------------------------------------


def permits_below_zero(t: Trace) -> None:
    a = t.publisher()
    _joins(a, 2)
    a.publishes_batch(5, b"first")
    a.receives()
    a.publishes(1, first=9)
    a.permits(3)
    a.receives_rest()
    a.permits(1)
    a.receives_rest()


def permits_of_what_comes_again(t: Trace) -> None:
    a = t.publisher(2)
    _joins(a, 3)
    ids = a.receives(2)
    _wants_again(a, ids)
    a.receives_rest()
    a.permits(1)
    a.receives_rest()


def permits_of_a_consumer_that_comes_back_begin_anew(t: Trace) -> None:
    a = t.publisher(3)
    _joins(a, 2)
    a.receives(2)
    a.closes_consumer()
    _joins(a, 0)
    a.receives_rest()
    a.permits(3)
    a.receives(3)


# Limits -------------------------------------------------------------------------------------


def a_consumer_that_holds_too_much(t: Trace) -> None:
    a = t.publisher()
    _joins(a, 4 * LIMIT)
    ids = [a.publishes_batch(30_000, b"x", sequence_id) for sequence_id in range(4)]
    a.receives_rest()
    a.acks(ids[:1])
    a.receives_rest()
    a.acks(ids[1:2])
    a.receives_rest()


def a_consumer_that_holds_exactly_as_much_as_it_may(t: Trace) -> None:
    a = t.publisher()
    _joins(a, 4 * LIMIT)
    ids = [a.publishes_batch(25_000, b"x", sequence_id) for sequence_id in range(3)]
    a.receives_rest()
    a.acks(ids[:1])
    a.receives_rest()


def permits_for_a_consumer_that_holds_too_much(t: Trace) -> None:
    a = t.publisher()
    _joins(a, LIMIT)
    ids = [a.publishes_batch(LIMIT, b"x", sequence_id) for sequence_id in range(3)]
    a.receives()
    a.permits(1)
    a.receives_rest()
    a.acks(ids[:1])
    a.receives_rest()
    a.receives_rest()


def another_goes_on_when_one_holds_too_much(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 4 * LIMIT)
    a.produces()
    a.publishes_batch(LIMIT, b"x")
    a.receives()
    _joins(b, 10)
    a.publishes(2, first=1)
    b.receives_rest()
    a.receives_rest()


def what_a_consumer_with_too_much_gives_back_comes_again(t: Trace) -> None:
    a = t.publisher()
    _joins(a, 4 * LIMIT)
    ids = [a.publishes_batch(LIMIT, b"x", sequence_id) for sequence_id in range(2)]
    a.receives()
    _wants_again(a, ids[:1])
    a.receives_rest()


def a_subscription_that_holds_too_much(t: Trace) -> None:
    a = t.publisher()
    for consumer_id in range(1, 7):
        _joins(a, LIMIT, consumer_id=consumer_id)
    ids = [a.publishes_batch(LIMIT, b"x", sequence_id) for sequence_id in range(4)]
    a.receives_rest()
    a.publishes(1, first=9)
    a.receives_rest()
    a.acks(ids[:2])
    a.receives_rest()
    a.acks(ids[2:3])
    a.receives_rest()


# Redelivery counts --------------------------------------------------------------------------


def counts_rise_with_every_wish_only(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 10)
    a.produces()
    ids = a.publishes(2)
    a.receives(2)
    _wants_again(a, ids[:1])
    a.receives()
    _wants_again(a, ids[:1])
    a.receives()
    _joins(b, 10)
    a.closes_consumer()
    b.receives(2)
    _wants_again(b)
    b.receives(2)


def counts_of_a_connection_that_is_lost(t: Trace) -> None:
    a, b = t.publisher(2), t.connects()
    _joins(a, 10)
    a.receives(2)
    _joins(b, 10)
    a.leaves()
    b.receives(2)


def the_count_of_a_batch_that_is_partly_acknowledged(t: Trace) -> None:
    a = t.publisher()
    _joins(a, 10)
    batch = a.publishes_batch(3, b"x")
    a.receives()
    part = pb.MessageIdData(ledgerId=batch.ledgerId, entryId=batch.entryId, ack_set=[0b101])
    a.acks([part])
    _wants_again(a, [batch])
    a.receives()
    _wants_again(a, [batch])
    a.receives()


def an_acknowledgement_by_another_ends_the_wish(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, 1)
    a.produces()
    ids = a.publishes(1)
    a.receives()
    _joins(b, 0)
    _wants_again(a, ids)
    b.acks(ids)
    a.permits(10)
    a.receives_rest()


def acknowledged_messages_are_left_out_of_a_redelivery(t: Trace) -> None:
    a = t.publisher(3)
    _joins(a, 10)
    ids = a.receives(3)
    a.acks(ids[1:2])
    _wants_again(a, ids)
    a.awaits(Kind.MESSAGE, 2)
    a.receives_rest()
