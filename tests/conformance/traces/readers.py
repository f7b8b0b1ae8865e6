"""Subscriptions that are not durable: where they begin, and that they leave nothing behind."""

from conformance.trace import SHARED, Trace
from conformance.traces.seeks import EARLIEST, LATEST
from magnetar_proto import PulsarApi_pb2 as pb


def from_the_earliest_message(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False, start_message_id=EARLIEST)
    a.permits(10)
    a.receives(2)


def from_the_latest_message(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False, start_message_id=LATEST)
    a.permits(10)
    a.publishes(1, first=2)
    a.receives()


def from_a_message(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes(durable=False, start_message_id=ids[1])
    a.permits(10)
    a.receives(2)


def from_a_message_within_a_batch(t: Trace) -> None:
    a = t.publisher()
    batch = a.publishes_batch(3, b"three")
    start = pb.MessageIdData(ledgerId=batch.ledgerId, entryId=batch.entryId, batch_index=1)
    a.subscribes(durable=False, start_message_id=start)
    a.permits(10)
    a.receives()


def from_a_message_that_is_not_there_yet(t: Trace) -> None:
    a = t.publisher(2)
    ids = a.published
    start = pb.MessageIdData(ledgerId=ids[0].ledgerId, entryId=9)
    a.subscribes(durable=False, start_message_id=start)
    a.permits(10)
    a.publishes(1, first=2)
    a.receives()


def without_a_start(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False, initialPosition=pb.CommandSubscribe.Latest)
    a.permits(10)
    a.publishes(1, first=2)
    a.receives()


def without_a_start_but_with_a_position(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False)
    a.permits(10)
    a.receives(2)


def a_reader_forgets(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False)
    a.permits(10)
    ids = a.receives(2)
    a.acks(ids)
    a.closes_consumer()
    a.subscribes(durable=False)
    a.permits(10)
    a.receives(2)


def an_ack_of_a_reader(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False)
    a.permits(10)
    ids = a.receives(2)
    a.acks([ids[1]], pb.CommandAck.Cumulative)
    a.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def a_second_reader_of_one_name(t: Trace) -> None:
    a = t.publisher(1)
    b = t.connects()
    a.subscribes(durable=False)
    b.subscribes(durable=False)


def two_shared_readers_of_one_name(t: Trace) -> None:
    a = t.publisher(2)
    b = t.connects()
    a.subscribes(SHARED, durable=False)
    b.subscribes(SHARED, durable=False)
    b.permits(10)
    b.receives(2)
    a.receives_rest()


def unsubscribing_a_reader(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(durable=False)
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))


def a_reader_seeks(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes(durable=False, start_message_id=LATEST)
    a.asks(pb.CommandSeek(request_id=0, consumer_id=1, message_id=ids[1]))
    a.receives_rest()
    a.subscribes(durable=False, start_message_id=ids[1])
    a.permits(10)
    a.receives_rest()


def a_reader_of_a_topic_that_is_not_there(t: Trace) -> None:
    a = t.connects()
    a.subscribes(durable=False, force_topic_creation=False)
    a.subscribes(durable=False, start_message_id=EARLIEST)
    a.produces()
    a.publishes()
    a.permits(10)
    a.receives()


def a_compacted_view(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False, read_compacted=True, start_message_id=EARLIEST)
    a.permits(10)
    a.receives(2)
