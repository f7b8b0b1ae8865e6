"""FLOW and MESSAGE: who gets how much, and what comes along with it."""

from conformance.differences import Difference, differs
from conformance.trace import FAILOVER, SHARED, Kind, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

BACKLOG = Difference("backlog numbers", "count entries: a batch of 100 is 1", "count messages")


def nothing_comes_without_permits(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.receives_rest()


def one_permit_one_message(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    a.permits(1)
    a.receives()
    a.receives_rest()
    a.permits(1)
    a.receives()
    a.receives_rest()


def permits_add_up(t: Trace) -> None:
    a = t.publisher()
    a.subscribes()
    a.permits(1)
    a.permits(1)
    a.publishes(3)
    a.receives(2)
    a.receives_rest()


def many_permits(t: Trace) -> None:
    a = t.publisher(5)
    a.subscribes()
    a.permits(1000)
    a.receives(5)
    a.receives_rest()


def permits_of_the_largest_number(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(2**31 - 1)
    a.receives(2)


def no_permits_at_all(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.permits(0)
    a.is_closed()


def a_negative_number_of_permits(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.permits(2**32 - 5)
    a.is_closed()


def permits_before_the_message(t: Trace) -> None:
    a = t.publisher()
    a.subscribes()
    a.permits(10)
    a.receives_rest()
    a.publishes(2)
    a.receives(2)


@differs(
    Difference(
        "permits and batches",
        "permits can fall below zero by all batches of one read",
        "by less than one batch",
    )
)
def a_batch_costs_a_permit_for_each_message(t: Trace) -> None:
    a = t.publisher()
    for number in range(2):
        a.publishes_batch(3, b"three", sequence_id=number * 3)
    a.subscribes()
    a.permits(3)
    a.receives()
    a.receives_rest()
    a.permits(3)
    a.receives_rest()


def a_shared_consumer_gets_whole_batches(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three")
    a.subscribes(SHARED)
    a.permits(1)
    a.receives()


def a_message_comes_as_it_was_sent(t: Trace) -> None:
    a = t.publisher()
    keyed = metadata(0, partition_key="key", properties=[pb.KeyValue(key="k", value="v")])
    a.sends_entry(0, encode_entry(keyed, b"with a key"))
    a.awaits_outcome()
    a.sends_entry(1, encode_entry(metadata(1), b"without a checksum", checksum=False))
    a.awaits_outcome()
    a.subscribes()
    a.permits(10)
    a.receives(2)


def a_message_of_a_partition_names_it(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    a.produces(f"{t.topic}-partition-1")
    a.publishes()
    a.subscribes(topic=f"{t.topic}-partition-1")
    a.permits(10)
    a.receives()
    a.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def chunks(t: Trace) -> None:
    a = t.publisher()
    chunking = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}
    for chunk in range(2):
        entry = encode_entry(metadata(0, chunk_id=chunk, **chunking), b"xy")
        a.sends_entry(0, entry, is_chunk=True)
        a.awaits_outcome()
    a.subscribes()
    a.permits(10)
    a.receives(2)


def chunks_of_a_shared_subscription(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.permits(1)
    a.produces()
    chunking = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}
    for chunk in range(2):
        entry = encode_entry(metadata(0, chunk_id=chunk, **chunking), b"xy")
        a.sends_entry(0, entry, is_chunk=True)
        a.awaits_outcome()
        b.permits(1)
    a.receives_rest()
    b.receives_rest()


def two_subscriptions_each_get_everything(t: Trace) -> None:
    a = t.connects()
    a.subscribes(consumer_id=1, subscription="one")
    a.subscribes(SHARED, consumer_id=2, subscription="two")
    a.produces()
    a.publishes(2)
    a.permits(10, consumer_id=1)
    a.receives(2)
    a.permits(10, consumer_id=2)
    a.receives(2)


def shared_consumers_take_turns(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.produces()
    a.permits(1)
    b.permits(1)
    a.publishes()
    a.receives()
    a.publishes(1, first=1)
    b.receives()


def a_shared_consumer_without_permits_is_passed_over(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    b.permits(10)
    a.produces()
    a.publishes(3)
    b.receives(3)
    a.receives_rest()


def a_shared_consumer_of_higher_priority_comes_first(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED, priority_level=1)
    b.subscribes(SHARED, priority_level=0)
    a.permits(10)
    b.permits(2)
    a.produces()
    a.publishes(3)
    b.receives(2)
    a.receives(1)


def an_inactive_failover_consumer_gets_nothing(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.permits(10)
    a.produces()
    a.publishes()
    b.receives_rest()
    a.permits(10)
    a.receives()


def what_was_not_acknowledged_comes_again_to_the_next_consumer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces()
    a.publishes(3)
    a.subscribes()
    a.permits(10)
    ids = a.receives(3)
    a.acks(ids[1:2])
    a.closes_consumer()
    b.subscribes()
    b.permits(10)
    b.receives(2)
    b.receives_rest()


def what_a_shared_consumer_had_goes_to_another(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces()
    a.publishes(2)
    a.subscribes(SHARED)
    a.permits(10)
    a.receives(2)
    b.subscribes(SHARED)
    b.permits(10)
    b.receives_rest()
    a.closes_consumer()
    b.receives(2)


def an_epoch_of_a_consumer_comes_back_with_messages(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(consumer_epoch=3)
    a.permits(10)
    a.receives()


def an_epoch_of_a_shared_consumer_does_not(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED, consumer_epoch=3)
    a.permits(10)
    a.receives()


def the_numbers_of_a_consumer(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED, consumer_name="me")
    a.permits(2)
    [first, _] = a.receives(2)
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))
    a.acks([first])
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))


@differs(BACKLOG)
def the_numbers_of_a_consumer_of_batches(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three")
    a.subscribes(SHARED, consumer_name="me")
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))
    a.permits(10)
    a.receives()
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))
