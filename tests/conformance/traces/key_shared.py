"""Key_Shared: which consumer a key goes to, when it waits, and who may join."""

from collections.abc import Sequence
from typing import Any

from conformance.differences import differs
from conformance.trace import CUMULATIVE, EXCLUSIVE, KEY_SHARED, SHARED, Kind, Peer, Trace
from conformance.traces.producers import SILENT
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

KEYS = [f"key-{number}" for number in range(12)]
OF_ONE, OF_TWO = "key-1", "key-0"
"""Keys of consumers with these names when there are no others."""
LOWER, UPPER = (0, 32767), (32768, 65535)
IN_LOWER, IN_UPPER = "key1", "key3"


def _joins(peer: Peer, name: str, permits: int = 100, consumer_id: int = 1, **how: Any) -> Any:
    answer = peer.subscribes(
        KEY_SHARED, consumer_id, consumer_name=name, keySharedMeta=_meta(**how)
    )
    if isinstance(answer, pb.CommandSuccess) and permits:
        peer.permits(permits, consumer_id)
    return answer


def _meta(
    *ranges: tuple[int, int], sticky: bool = False, out_of_order: bool = False
) -> pb.KeySharedMeta:
    return pb.KeySharedMeta(
        keySharedMode=pb.STICKY if sticky or ranges else pb.AUTO_SPLIT,
        hashRanges=[pb.IntRange(start=start, end=end) for start, end in ranges],
        allowOutOfOrderDelivery=out_of_order,
    )


def _takes(peer: Peer, *ranges: tuple[int, int], name: str = "", consumer_id: int = 1) -> Any:
    """Join with ranges of its own."""
    answer = peer.subscribes(
        KEY_SHARED, consumer_id, consumer_name=name, keySharedMeta=_meta(*ranges, sticky=True)
    )
    if isinstance(answer, pb.CommandSuccess):
        peer.permits(100, consumer_id)
    return answer


def _publishes(peer: Peer, keys: Sequence[str], first: int = 0) -> None:
    for sequence_id, key in enumerate(keys, first):
        _publishes_one(peer, sequence_id, partition_key=key)


def _publishes_one(peer: Peer, sequence_id: int, **fields: Any) -> None:
    peer.sends_entry(sequence_id, encode_entry(metadata(sequence_id, **fields), b""))
    peer.awaits(Kind.SEND_RECEIPT)


def _all_receive(*peers: Peer) -> None:
    for peer in peers:
        peer.receives_rest()


def _wants_again(peer: Peer, *ids: pb.MessageIdData) -> None:
    peer.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))


def _producer(t: Trace) -> Peer:
    peer = t.connects()
    peer.produces()
    return peer


# Whose a key is -------------------------------------------------------------------------------


def keys_of_consumers_with_names(t: Trace) -> None:
    p, a, b, c = _producer(t), t.connects(), t.connects(), t.connects()
    for peer, name in zip((a, b, c), ("one", "two", "three"), strict=True):
        _joins(peer, name)
    _publishes(p, KEYS)
    _all_receive(a, b, c)


def keys_of_consumers_of_one_name(t: Trace) -> None:
    p, a, b, c = _producer(t), t.connects(), t.connects(), t.connects()
    for peer in (a, b, c):
        _joins(peer, "same")
    _publishes(p, KEYS)
    _all_receive(a, b, c)


def keys_after_one_of_the_same_name_left(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    for peer in (a, b):
        _joins(peer, "same")
    a.closes_consumer()
    _joins(a, "same")
    _publishes(p, KEYS)
    _all_receive(a, b)


def keys_of_a_consumer_that_joins(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _publishes(p, KEYS[:6])
    a.acks(a.receives(6))
    _joins(b, "two")
    _publishes(p, KEYS[:6], 6)
    _all_receive(a, b)


def keys_of_a_consumer_that_leaves(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    _publishes(p, KEYS[:6])
    _all_receive(a, b)
    b.leaves()
    a.receives_rest()
    _publishes(p, KEYS[:6], 6)
    a.receives_rest()


def an_ordering_key_counts_before_the_key(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    for sequence_id, key in enumerate(KEYS[:6]):
        _publishes_one(p, sequence_id, partition_key="key", ordering_key=key.encode())
    _all_receive(a, b)


def an_empty_ordering_key(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    for sequence_id, key in enumerate(KEYS[:6]):
        _publishes_one(p, sequence_id, partition_key=key, ordering_key=b"")
    _all_receive(a, b)


def a_key_in_base64_is_decoded(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    for sequence_id, key in enumerate(("a2V5LTA=", "a2V5LTE=", "a2V5LTI=", "a2V5LTM=")):
        _publishes_one(p, sequence_id, partition_key=key, partition_key_b64_encoded=True)
    for sequence_id, key in enumerate(("a2V5LTA=", "a2V5LTE=", "a2V5LTI=", "a2V5LTM="), 4):
        _publishes_one(p, sequence_id, partition_key=key)
    _all_receive(a, b)


def messages_without_a_key_go_by_producer_and_sequence_id(t: Trace) -> None:
    p, a, b, c = _producer(t), t.connects(), t.connects(), t.connects()
    for peer, name in zip((a, b, c), ("one", "two", "three"), strict=True):
        _joins(peer, name)
    for sequence_id in range(12):
        _publishes_one(p, sequence_id)
    _all_receive(a, b, c)


def an_empty_key(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    _publishes(p, ["", "", ""])
    _all_receive(a, b)


def a_batch_goes_by_the_key_of_its_metadata(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    for sequence_id, key in enumerate(KEYS[:4]):
        entry = encode_entry(
            metadata(sequence_id, partition_key=key, num_messages_in_batch=2), b"batch"
        )
        p.sends_entry(sequence_id, entry, num_messages=2)
        p.awaits(Kind.SEND_RECEIPT)
    _all_receive(a, b)


def a_key_on_a_topic_that_is_not_persistent(t: Trace) -> None:
    t.topic = t.topic.replace("persistent", "non-persistent")
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _joins(b, "two")
    _all_receive(a, b)  # who has no permits yet loses what comes
    _publishes(p, KEYS[:6])
    _all_receive(a, b)


# A key that moves -----------------------------------------------------------------------------


def a_key_waits_until_its_old_consumer_has_acknowledged(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _publishes(p, [OF_TWO, OF_TWO])
    ids = a.receives(2)
    _joins(b, "two")
    _publishes(p, [OF_TWO, OF_ONE], 2)
    a.receives()
    b.receives_rest()
    a.acks(ids[:1])
    b.receives_rest()
    a.acks(ids[1:])
    b.receives()


def a_key_waits_until_its_old_consumer_has_returned_it(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _publishes(p, [OF_TWO, OF_TWO])
    ids = a.receives(2)
    _joins(b, "two")
    _publishes(p, [OF_TWO], 2)
    b.receives_rest()
    _wants_again(a, *ids)
    b.receives(3)
    a.receives_rest()


def a_key_waits_until_its_old_consumer_has_left(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one")
    _publishes(p, [OF_TWO, OF_ONE, OF_TWO])
    a.receives(3)
    _joins(b, "two")
    b.receives_rest()
    a.closes_consumer()
    b.receives(3)


def a_key_does_not_wait_where_order_does_not_matter(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one", out_of_order=True)
    _publishes(p, [OF_TWO])
    a.receives()
    _joins(b, "two", out_of_order=True)
    _publishes(p, [OF_TWO], 1)
    b.receives()


def returned_messages_come_again_in_order(t: Trace) -> None:
    p, a = _producer(t), t.connects()
    _joins(a, "one")
    _publishes(p, KEYS[:4])
    a.receives(4)
    _wants_again(a)
    a.receives(4)
    a.receives_rest()


def a_new_message_waits_behind_one_of_its_key_that_comes_again(t: Trace) -> None:
    p, a = _producer(t), t.connects()
    _joins(a, "one", 2)
    _publishes(p, [OF_ONE, OF_ONE, OF_ONE])
    ids = a.receives(2)
    _wants_again(a, ids[1])
    a.receives_rest()
    a.permits(1)
    a.receives()
    a.permits(1)
    a.receives()


def a_consumer_without_permits_blocks_no_other(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _joins(a, "one", 0)
    _joins(b, "two", 100)
    _publishes(p, [OF_ONE, OF_TWO, OF_ONE, OF_TWO])
    b.receives(2)
    a.receives_rest()
    a.permits(10)
    a.receives(2)


def cumulative_acks_mean_nothing(t: Trace) -> None:
    p, a = _producer(t), t.connects()
    _joins(a, "one")
    _publishes(p, [OF_ONE, OF_ONE])
    ids = a.receives(2)
    a.acks(ids[1:], CUMULATIVE)
    _wants_again(a)
    a.receives(2)


# Ranges that consumers choose -----------------------------------------------------------------


def keys_of_chosen_ranges(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _takes(a, LOWER)
    _takes(b, UPPER)
    _publishes(p, [*KEYS, IN_LOWER, IN_UPPER])
    _all_receive(a, b)


def a_range_of_one_slot(t: Trace) -> None:
    p, a = _producer(t), t.connects()
    _takes(a, (293, 293))
    _publishes(p, [IN_LOWER, IN_UPPER, IN_LOWER])
    a.receives(2)
    a.receives_rest()


def keys_without_an_owner_wait_for_a_consumer(t: Trace) -> None:
    p, a, b = _producer(t), t.connects(), t.connects()
    _takes(a, LOWER)
    _publishes(p, [IN_UPPER, IN_LOWER, IN_UPPER, IN_LOWER])
    a.receives(2)
    _takes(b, UPPER)
    b.receives(2)
    a.receives_rest()


def no_ranges_at_all(t: Trace) -> None:
    a = t.connects()
    _takes(a)
    a.subscribes(SHARED)


def a_range_that_ends_before_it_begins(t: Trace) -> None:
    _takes(t.connects(), (10, 5))


def ranges_that_overlap(t: Trace) -> None:
    _takes(t.connects(), (0, 10), (10, 20))


def ranges_beyond_the_last_slot(t: Trace) -> None:
    a = t.connects()
    _takes(a, (60000, 70000))
    _takes(a, (-5, 10), consumer_id=2)


def a_range_that_another_consumer_has(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _takes(a, LOWER)
    _takes(b, (32767, 40000))
    _takes(b, (32768, 40000))


def a_range_that_another_consumer_had(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _takes(a, LOWER)
    a.closes_consumer()
    _takes(b, LOWER)


@differs(SILENT)
def a_range_whose_holder_does_not_answer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _takes(a, LOWER)
    a.mute = True
    _takes(b, LOWER)


# Who may join ---------------------------------------------------------------------------------


def without_a_key_policy_the_broker_divides_the_keys(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.subscribes(KEY_SHARED)
    _joins(b, "b")
    _takes(c, LOWER)


def consumers_with_other_policies(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _takes(a, LOWER)
    _joins(b, "b")
    _joins(b, "b", out_of_order=True)


def consumers_that_differ_about_order(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, "a")
    _joins(b, "b", out_of_order=True)


def the_key_policy_may_change_without_consumers(t: Trace) -> None:
    a = t.connects()
    _joins(a, "a")
    a.closes_consumer()
    _takes(a, LOWER)
    a.closes_consumer()
    _joins(a, "a", out_of_order=True)


def consumers_of_other_types(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    _joins(a, "a")
    b.subscribes(SHARED)
    b.subscribes(EXCLUSIVE)
    a.closes_consumer()
    b.subscribes(SHARED)
    _joins(a, "a")
