"""Chunked messages on Shared subscriptions."""

from conformance.differences import Difference, differs
from conformance.trace import SHARED, Kind, Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

ORPHANS = Difference(
    "a chunk on a Shared subscription whose first chunk was deleted",
    "is never delivered, nor are the messages after it",
    "is delivered to any consumer, and later chunks to the same one",
)
MOVES = Difference(
    "a chunked message whose first chunks a Shared consumer has when it leaves",
    "is never delivered",
    "is delivered to another consumer, from its first chunk",
)
OTHERS = Difference(
    "messages after a chunk whose Shared consumer has no permits",
    "are delivered after it, except for a few",
    "are delivered to the other consumers",
)


def _sends(peer: Peer, uuid: str, *numbers: int, of: int = 3) -> list[pb.MessageIdData]:
    """Publish chunks of a message; their ids."""
    ids = []
    for number in numbers:
        chunking = {"uuid": uuid, "num_chunks_from_msg": of, "total_chunk_msg_size": 2 * of}
        entry = encode_entry(metadata(number, chunk_id=number, **chunking), b"xy")
        peer.sends_entry(number, entry, is_chunk=True)
        [receipt] = peer.awaits(Kind.SEND_RECEIPT)
        ids.append(receipt.message_id)
    return ids


def _wants_again(peer: Peer, ids: list[pb.MessageIdData]) -> None:
    peer.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))


def they_cost_a_permit_each(t: Trace) -> None:
    a = t.publisher()
    _sends(a, "u", 0, 1, 2)
    a.subscribes(SHARED)
    a.permits(2)
    a.receives(2)
    a.receives_rest()
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))
    a.permits(1)
    a.receives()


def messages_that_are_mixed_come_whole(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    a.permits(100)
    a.produces()
    _sends(a, "u", 0)
    a.receives()
    b.subscribes(SHARED)
    b.permits(1)
    _sends(a, "v", 0, 1)
    b.receives()
    b.permits(100)
    b.receives_rest()
    _sends(a, "u", 1, 2)
    a.receives_rest()
    _sends(a, "v", 2)
    b.receives_rest()


@differs(OTHERS)
def others_do_not_wait_for_a_chunk(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    a.permits(1)
    a.produces()
    _sends(a, "u", 0)
    a.receives()
    b.subscribes(SHARED)
    b.permits(100)
    _sends(a, "u", 1)
    a.publishes(3, first=5)
    a.receives_rest()
    b.receives_rest()
    a.permits(1)
    a.receives_rest()
    b.receives_rest()


@differs(MOVES)
def a_message_moves_when_its_consumer_leaves(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    b.subscribes(SHARED)
    b.permits(100)
    c.produces()
    _sends(c, "u", 0, 1)
    b.receives(2)
    a.subscribes(SHARED)
    a.permits(100)
    b.leaves()
    a.receives_rest()
    _sends(c, "u", 2)
    a.receives_rest()


def a_message_is_asked_for_again(t: Trace) -> None:
    a = t.publisher()
    ids = _sends(a, "u", 0, 1, 2)
    a.subscribes(SHARED)
    a.permits(100)
    a.receives(3)
    _wants_again(a, ids)
    a.receives_rest()
    a.acks(ids)
    a.closes_consumer()
    a.subscribes(SHARED)
    a.permits(100)
    a.receives_rest()


def a_beginning_is_asked_for_again_before_the_end_came(t: Trace) -> None:
    a = t.publisher()
    a.subscribes(SHARED)
    a.permits(100)
    ids = _sends(a, "u", 0, 1)
    a.receives(2)
    _wants_again(a, ids)
    a.receives_rest()
    _sends(a, "u", 2)
    a.receives_rest()


@differs(ORPHANS)
def the_beginning_was_acknowledged(t: Trace) -> None:
    a = t.publisher()
    ids = _sends(a, "u", 0, 1)
    a.subscribes(SHARED)
    a.permits(1)
    a.receives()
    a.acks(ids[:1])
    a.closes_consumer()
    a.subscribes(SHARED)
    a.permits(100)
    a.receives_rest()
    a.publishes(1, first=9)
    a.receives_rest()
    _sends(a, "u", 2)
    a.receives_rest()


@differs(ORPHANS)
def the_beginning_was_never_there(t: Trace) -> None:
    a = t.publisher()
    a.subscribes(SHARED)
    a.permits(100)
    _sends(a, "u", 1)
    a.receives_rest()
    a.publishes(1, first=9)
    a.receives_rest()
