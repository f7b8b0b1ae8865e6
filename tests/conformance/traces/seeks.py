"""SEEK and GET_LAST_MESSAGE_ID."""

from conformance.differences import Difference, differs
from conformance.trace import EXCLUSIVE, FAILOVER, SHARED, Kind, Peer, Trace, part_of
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry

EARLIEST = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
LATEST = pb.MessageIdData(ledgerId=2**63 - 1, entryId=2**63 - 1)
PUBLISHED_MS = 1_700_000_000_000
"""The publish time of every message of a trace."""

TAKING_OVER = Difference(
    "Failover consumers after a SEEK",
    "no consumer is active until one joins or leaves",
    "the next one takes over",
)
EMPTY = Difference(
    "positions of an empty topic, such as its mark-delete position",
    "before the first entry of its first ledger",
    "none, or -1:-1: a topic gets its first ledger with its first message",
)


def _seeks(a: Peer, **where: object) -> None:
    a.asks(pb.CommandSeek(request_id=0, consumer_id=1, **where))  # type: ignore[arg-type]


def _comes_back(a: Peer, sub_type: "pb.CommandSubscribe.SubType" = EXCLUSIVE) -> None:
    a.receives_rest()  # but that its consumer is closed
    a.subscribes(sub_type)
    a.permits(10)
    a.receives_rest()


def to_a_message(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    a.permits(10)
    a.receives(3)
    _seeks(a, message_id=ids[1])
    _comes_back(a)


def to_the_earliest(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    a.acks(ids)
    _seeks(a, message_id=EARLIEST)
    _comes_back(a)


def to_the_latest(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    _seeks(a, message_id=LATEST)
    _comes_back(a)
    a.publishes(1, first=3)
    a.receives()


def to_a_message_that_is_not_there_yet(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    _seeks(a, message_id=pb.MessageIdData(ledgerId=ids[0].ledgerId, entryId=9))
    _comes_back(a)
    a.publishes(1, first=3)
    a.receives()


def to_a_ledger_that_never_was(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    _seeks(a, message_id=pb.MessageIdData(ledgerId=424242, entryId=0))
    _comes_back(a)


def to_a_time_before_all_messages(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    a.acks(ids)
    _seeks(a, message_publish_time=1)
    _comes_back(a)


def to_a_time_after_all_messages(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes()
    _seeks(a, message_publish_time=2**50)
    _comes_back(a)
    a.publishes(1, first=3)
    a.receives()


def to_a_time_between_messages(t: Trace) -> None:
    a = t.publisher()
    for number in range(4):
        timed = pb.MessageMetadata(
            producer_name="trace", sequence_id=number, publish_time=PUBLISHED_MS + 10 * number
        )
        a.sends_entry(number, encode_entry(timed, b"timed"))
        a.awaits_outcome()
    a.subscribes()
    _seeks(a, message_publish_time=PUBLISHED_MS + 20)
    _comes_back(a)
    _seeks(a, message_publish_time=PUBLISHED_MS + 25)
    _comes_back(a)


def nowhere(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    _seeks(a)
    a.permits(10)
    a.receives()


def individual_acks_are_forgotten(t: Trace) -> None:
    a = t.publisher(4)
    ids = a.published
    a.subscribes(SHARED)
    a.acks(ids[1:3])
    _seeks(a, message_id=ids[0])
    _comes_back(a, SHARED)


def with_an_ack_set(t: Trace) -> None:
    a = t.publisher()
    batch = a.publishes_batch(3, b"three")
    a.subscribes()
    _seeks(a, message_id=part_of(batch, 0b100))
    _comes_back(a)


def all_shared_consumers_have_to_come_back(t: Trace) -> None:
    a = t.publisher(2)
    ids = a.published
    b = t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    _seeks(a, message_id=ids[1])
    a.receives_rest()
    b.awaits(Kind.CLOSE_CONSUMER)
    b.subscribes(SHARED)
    b.permits(10)
    b.receives()


@differs(TAKING_OVER)
def only_the_active_failover_consumer_has_to_come_back(t: Trace) -> None:
    a = t.publisher(2)
    ids = a.published
    b = t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    _seeks(a, message_id=ids[1])
    a.receives_rest()
    b.receives_rest()
    b.permits(10)
    b.receives_rest()


@differs(TAKING_OVER)
def an_inactive_failover_consumer_seeks(t: Trace) -> None:
    a = t.publisher(2)
    ids = a.published
    b = t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    _seeks(b, message_id=ids[1])
    a.receives_rest()
    b.receives_rest()


def on_an_empty_topic(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    _seeks(a, message_id=EARLIEST)
    _comes_back(a)
    _seeks(a, message_publish_time=PUBLISHED_MS)
    _comes_back(a)


def twice(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    _seeks(a, message_id=ids[2])
    _seeks(a, message_id=ids[0])


def old_clients_are_cut_off(t: Trace) -> None:
    ids = t.publisher(1).published
    b = t.connects(version=4)
    b.subscribes()
    _seeks(b, message_id=ids[0])


# The last message ---------------------------------------------------------------------------------


def _asks_for_the_last(a: Peer) -> None:
    a.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


@differs(EMPTY)
def the_last_message_of_an_empty_topic(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    _asks_for_the_last(a)


def the_last_message(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes()
    _asks_for_the_last(a)
    a.acks(ids)
    _asks_for_the_last(a)


def the_last_message_of_a_batch(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three")
    a.subscribes()
    _asks_for_the_last(a)


def the_last_message_of_a_batch_of_one(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(1, b"one")
    a.subscribes()
    _asks_for_the_last(a)


def the_last_message_of_a_partition(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    a.produces(f"{t.topic}-partition-1")
    a.publishes(2)
    a.subscribes(topic=f"{t.topic}-partition-1")
    _asks_for_the_last(a)


def the_last_message_of_a_reader(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(durable=False)
    _asks_for_the_last(a)
