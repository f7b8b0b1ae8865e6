"""Messages that a producer sends again, where deduplication is on."""

from conformance.trace import Peer, Trace
from magnetar_proto.entries import encode_entry
from raw_client import metadata


def _has_deduplication(t: Trace) -> None:
    namespace = t.has_namespace()
    t.has_policy(namespace, "deduplication", True)
    t.topic = f"persistent://{namespace}/{t.token}"


def _producer(t: Trace, name: str = "raw") -> Peer:
    """Its name is that in the metadata of what it sends."""
    peer = t.connects()
    peer.produces(producer_name=name)
    return peer


def _sends_batch(peer: Peer, low: int, high: int) -> None:
    """A batch of the messages `low` to `high`."""
    count = high - low + 1
    head = metadata(low, num_messages_in_batch=count, highest_sequence_id=high)
    entry = encode_entry(head, b"%d to %d" % (low, high))
    peer.sends_entry(low, entry, num_messages=count, highest_sequence_id=high)
    peer.awaits_outcome()


def _sends_chunk(peer: Peer, sequence_id: int, chunk: int, of: int) -> None:
    head = metadata(
        sequence_id, uuid=f"u{sequence_id}", chunk_id=chunk, num_chunks_from_msg=of,
        total_chunk_msg_size=of,
    )  # fmt: skip
    peer.sends_entry(sequence_id, encode_entry(head, b"c"), is_chunk=True)
    peer.awaits_outcome()


def a_message_is_sent_again(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.publishes(3)
    a.publishes(3)
    a.publishes(1, first=3)


def ids_may_leave_gaps(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.publishes(1, first=10)
    a.publishes(1, first=20)
    a.publishes(1, first=15)


def a_producer_comes_back(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.publishes(3)
    a.leaves()
    b = _producer(t)
    b.publishes(2, first=2)


def a_producer_that_published_nothing(t: Trace) -> None:
    _has_deduplication(t)
    _producer(t)


def names_are_apart(t: Trace) -> None:
    _has_deduplication(t)
    a = t.connects()
    a.produces(producer_name="raw")
    a.produces(producer_name="q", producer_id=2)
    a.publishes(2)
    a.publishes(2, producer_id=2)
    a.publishes(2, producer_id=2)


def what_was_sent_again_is_not_delivered(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.publishes(2)
    a.publishes(2)
    b = t.connects()
    b.subscribes()
    b.permits(10)
    b.receives(2)


def batches_are_sent_again(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    _sends_batch(a, 0, 9)
    _sends_batch(a, 0, 9)
    _sends_batch(a, 10, 19)
    a.publishes(1, first=20)


def batches_that_overlap(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    _sends_batch(a, 0, 9)
    _sends_batch(a, 5, 14)
    _sends_batch(a, 9, 18)
    _sends_batch(a, 10, 11)
    a.publishes(1, first=11)
    a.publishes(1, first=12)


def messages_of_a_batch_are_sent_again_alone(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    _sends_batch(a, 0, 3)
    a.publishes(5)


def a_producer_of_batches_comes_back(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    _sends_batch(a, 0, 9)
    a.leaves()
    b = _producer(t)
    _sends_batch(b, 0, 9)


def a_highest_id_below_the_lowest(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.sends(5, highest_sequence_id=2)
    a.awaits_outcome()
    a.publishes(1, first=4)
    a.publishes(1, first=6)


def chunks_are_sent_again(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    for chunk in range(3):
        _sends_chunk(a, 0, chunk, 3)
    for chunk in range(3):
        _sends_chunk(a, 0, chunk, 3)
    a.publishes(1, first=1)


def chunks_are_begun_again(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    _sends_chunk(a, 0, 0, 2)
    a.leaves()
    b = _producer(t)
    for chunk in range(2):
        _sends_chunk(b, 0, chunk, 2)


def many_at_once_some_of_them_again(t: Trace) -> None:
    _has_deduplication(t)
    a = _producer(t)
    a.publishes(2)
    for sequence_id in (0, 1, 2, 3):
        a.sends(sequence_id)
    for _ in range(4):
        a.awaits_outcome()


def without_deduplication_all_is_kept(t: Trace) -> None:
    a = _producer(t)
    a.publishes(2)
    a.publishes(2)
    a.leaves()
    _producer(t)
