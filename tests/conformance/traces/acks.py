"""ACK in every form.  What is acknowledged shows when the next consumer gets the rest."""

from conformance.differences import differs
from conformance.trace import (
    CUMULATIVE,
    EXCLUSIVE,
    FAILOVER,
    INDIVIDUAL,
    SHARED,
    Kind,
    Peer,
    Trace,
    before_ledger_of,
    part_of,
)
from conformance.traces.delivery import BACKLOG
from magnetar_proto import PulsarApi_pb2 as pb


def _batched(t: Trace, messages: int, batches: int = 1) -> Peer:
    a = t.publisher()
    for _ in range(batches):
        a.publishes_batch(messages, b"batch")
    return a


def _shows_what_is_left(a: Peer, sub_type: "pb.CommandSubscribe.SubType") -> None:
    a.closes_consumer()
    a.subscribes(sub_type)
    a.permits(100)
    a.receives_rest()


def one_message(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[1:2])
    _shows_what_is_left(a, EXCLUSIVE)


def one_message_of_a_shared_subscription(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[1:2])
    _shows_what_is_left(a, SHARED)


def a_list(t: Trace) -> None:
    a = t.publisher(4)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(4)
    a.acks([ids[0], ids[3]])
    _shows_what_is_left(a, SHARED)


def everything_up_to_a_message(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks([ids[1]], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def everything_before_the_second_ledger(t: Trace) -> None:
    a = t.publisher_of_two_ledgers()
    a.subscribes()
    a.permits(10)
    ids = a.receives(4)
    a.acks([before_ledger_of(ids[2])], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def everything_before_the_first_ledger(t: Trace) -> None:
    a = t.publisher_of_two_ledgers()
    a.subscribes()
    a.permits(10)
    ids = a.receives(4)
    a.acks([before_ledger_of(ids[0])], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def everything_up_to_a_message_on_failover(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.permits(10)
    ids = a.receives(3)
    a.acks([ids[1]], CUMULATIVE)
    a.closes_consumer()
    a.subscribes()
    a.permits(10)
    a.receives(1)


def everything_up_to_a_message_means_nothing_on_shared(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.acks([ids[1]], CUMULATIVE)
    _shows_what_is_left(a, SHARED)


def everything_up_to_two_messages_means_nothing(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[:2], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def everything_up_to_an_older_message(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks([ids[2]], CUMULATIVE)
    a.acks([ids[0]], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def nothing_at_all(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.acks([])
    a.permits(10)
    a.receives(1)


def nothing_at_all_up_to_it(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.acks([], CUMULATIVE)
    a.permits(10)
    a.receives(1)


def the_same_message_twice(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.acks(ids[:1])
    a.acks(ids[:1])
    a.acks([ids[1], ids[1]])
    _shows_what_is_left(a, SHARED)


def without_a_request_id(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.sends_command(pb.CommandAck(consumer_id=1, ack_type=INDIVIDUAL, message_id=ids[:1]))
    a.receives_rest()
    _shows_what_is_left(a, SHARED)


def a_message_in_a_ledger_that_never_was(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)
    a.acks([pb.MessageIdData(ledgerId=424242, entryId=0)])
    _shows_what_is_left(a, EXCLUSIVE)


def a_message_that_is_not_there_yet(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    [first, _] = a.receives(2)
    a.acks([pb.MessageIdData(ledgerId=first.ledgerId, entryId=9)])
    _shows_what_is_left(a, EXCLUSIVE)


def everything_up_to_a_ledger_that_never_was(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)
    a.acks([pb.MessageIdData(ledgerId=424242, entryId=0)], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def everything_up_to_a_message_that_is_not_there_yet(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    [first, _] = a.receives(2)
    a.acks([pb.MessageIdData(ledgerId=first.ledgerId, entryId=9)], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def a_message_that_was_not_delivered(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(subscription="other")
    a.permits(10)
    ids = a.receives(2)
    a.closes_consumer()
    a.subscribes()
    a.acks(ids[:1])
    a.permits(10)
    a.receives(1)
    a.receives_rest()


def a_message_of_another_shared_consumer(t: Trace) -> None:
    a = t.publisher(2)
    b = t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    b.acks(ids[:1])
    a.closes_consumer()
    b.permits(10)
    b.receives(1)
    b.receives_rest()


def as_an_inactive_failover_consumer(t: Trace) -> None:
    a = t.publisher(2)
    b = t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.permits(10)
    ids = a.receives(2)
    b.acks(ids[:1])
    a.closes_consumer()
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.permits(10)
    b.receives(1)


def that_a_message_was_unreadable(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.asks(
        pb.CommandAck(
            consumer_id=1, ack_type=INDIVIDUAL, message_id=ids[:1],
            validation_error=pb.CommandAck.ChecksumMismatch,
        )
    )  # fmt: skip
    _shows_what_is_left(a, SHARED)


def with_properties(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    ids = a.receives(2)
    properties = [pb.KeyLongValue(key="k", value=7)]
    a.asks(
        pb.CommandAck(consumer_id=1, ack_type=CUMULATIVE, message_id=ids[:1], properties=properties)
    )
    _shows_what_is_left(a, EXCLUSIVE)


def of_a_closed_consumer(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.permits(10)
    ids = a.receives(1)
    a.closes_consumer()
    a.sends_command(
        pb.CommandAck(consumer_id=1, ack_type=INDIVIDUAL, message_id=ids, request_id=99)
    )
    a.receives_rest()


# Batches ----------------------------------------------------------------------------------------


def a_whole_batch(t: Trace) -> None:
    a = _batched(t, 3)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives()
    a.acks(ids)
    _shows_what_is_left(a, SHARED)


def a_part_of_a_batch(t: Trace) -> None:
    a = _batched(t, 3)
    a.subscribes(SHARED)
    a.permits(10)
    [batch] = a.receives()
    a.acks([part_of(batch, 0b101)])
    _shows_what_is_left(a, SHARED)


def a_part_of_a_batch_on_exclusive(t: Trace) -> None:
    a = _batched(t, 3)
    a.subscribes()
    a.permits(10)
    [batch] = a.receives()
    a.acks([part_of(batch, 0b110)])
    _shows_what_is_left(a, EXCLUSIVE)


def a_batch_part_by_part(t: Trace) -> None:
    a = _batched(t, 3)
    a.subscribes(SHARED)
    a.permits(10)
    [batch] = a.receives()
    a.acks([part_of(batch, 0b110)])
    a.acks([part_of(batch, 0b101)])
    _shows_what_is_left(a, SHARED)
    a.acks([part_of(batch, 0b011)])
    _shows_what_is_left(a, SHARED)


def a_batch_without_any_bits_left(t: Trace) -> None:
    a = _batched(t, 3)
    a.subscribes(SHARED)
    a.permits(10)
    [batch] = a.receives()
    a.acks([part_of(batch, 0)])
    _shows_what_is_left(a, SHARED)


def a_batch_of_more_than_64_messages(t: Trace) -> None:
    a = _batched(t, 70)
    a.subscribes(SHARED)
    a.permits(100)
    [batch] = a.receives()
    a.acks([part_of(batch, -1, 0b001111)])
    _shows_what_is_left(a, SHARED)


def everything_up_to_a_part_of_a_batch(t: Trace) -> None:
    a = _batched(t, 3, batches=2)
    a.subscribes()
    a.permits(10)
    batches = a.receives(2)
    a.acks([part_of(batches[1], 0b110)], CUMULATIVE)
    _shows_what_is_left(a, EXCLUSIVE)


def a_part_of_what_is_no_batch(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives(2)
    a.acks([part_of(ids[0], 0b1)])
    _shows_what_is_left(a, SHARED)


@differs(BACKLOG)
def permits_of_a_batch_that_is_partly_acknowledged(t: Trace) -> None:
    a = _batched(t, 3, batches=2)
    a.subscribes(SHARED)
    a.permits(10)
    batches = a.receives(2)
    a.acks([part_of(batches[0], 0b100)])
    a.closes_consumer()
    a.subscribes(SHARED)
    a.permits(4)
    a.receives(2)
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))
