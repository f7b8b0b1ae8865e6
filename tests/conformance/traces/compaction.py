"""Compaction: what is left, where it stays, who reads it."""

import time
from typing import Any

from conformance.differences import Difference, differs
from conformance.rest import ask
from conformance.trace import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Kind, Peer, Trace
from conformance.traces.seeks import EARLIEST, LATEST
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.compression import compress
from magnetar_proto.entries import encode_entry
from raw_client import metadata

LOOK_SECONDS = 0.1
DEADLINE_SECONDS = 60.0
Keyed = tuple[str | None, bytes]


def _path_of(t: Trace) -> str:
    return f"{t.path}/compaction"


def _compact(t: Trace) -> None:
    """Compact the topic; its outcome is recorded."""
    t.rest("PUT", _path_of(t))
    _shows_the_outcome(t, _path_of(t))


def _shows_the_outcome(t: Trace, path: str) -> None:
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        answer = ask(t.target.http_port, "GET", f"/admin/v2/{path}", b"")
        if answer.value["status"] != "RUNNING":
            break
        t.read_for(LOOK_SECONDS)
    t.rest("GET", path)


def _sends(a: Peer, sequence_id: int, entry: bytes, messages: int = 1) -> Any:
    """SEND; its id."""
    more = {"num_messages": messages} if messages > 1 else {}
    a.sends_entry(sequence_id, entry, **more)
    [receipt] = a.awaits(Kind.SEND_RECEIPT)
    return receipt.message_id


def _single(sequence_id: int, key: str | None, value: bytes, **more: Any) -> bytes:
    keyed = {} if key is None else {"partition_key": key}
    return encode_entry(metadata(sequence_id, **keyed, **more), value)


def _batch(sequence_id: int, *messages: Keyed, kind: Any = pb.NONE, **more: Any) -> bytes:
    singles = []
    for key, value in messages:
        one = pb.SingleMessageMetadata(payload_size=0)
        if key is not None:
            one.partition_key = key
        singles.append((one, value))
    body = encode_batch(singles)
    head = metadata(
        sequence_id, num_messages_in_batch=len(messages), uncompressed_size=len(body),
        compression=kind, **more,
    )  # fmt: skip
    return encode_entry(head, compress(kind, body))


def _with_messages(t: Trace, *messages: Keyed) -> tuple[Peer, list[Any]]:
    """A client that has sent them one by one, and their ids."""
    a = t.connects()
    a.produces()
    ids = [_sends(a, number, _single(number, *one)) for number, one in enumerate(messages)]
    return a, ids


def _reads(a: Peer, count: int, **fields: Any) -> None:
    """A reader that reads compacted, from the beginning by default; what it gets."""
    asked: dict[str, Any] = {"durable": False, "start_message_id": EARLIEST} | fields
    a.subscribes(read_compacted=True, **asked)
    a.permits(100)
    if count:
        a.receives(count)
    a.receives_rest()


def _asks_last(a: Peer) -> None:
    a.asks(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))


# What is left ---------------------------------------------------------------------------


def the_last_message_of_each_key(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", b"5"))
    _compact(t)
    _reads(a, 3)


def who_does_not_read_compacted_gets_everything(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b"2"))
    a.subscribes()
    _compact(t)
    a.permits(10)
    a.receives(2)


def an_empty_message_deletes_its_key(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b""), ("c", b""), ("c", b"3"))
    _compact(t)
    _reads(a, 2)


def a_null_value_deletes_its_key(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"))
    _sends(a, 2, _single(2, "a", b"", null_value=True))
    _compact(t)
    _reads(a, 1)


def messages_without_key_go(t: Trace) -> None:
    a, _ = _with_messages(t, (None, b"1"), ("a", b"2"), (None, b"3"))
    _compact(t)
    _reads(a, 1)


def nothing_is_left(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b""))
    _compact(t)
    _reads(a, 0)
    _asks_last(a)


def what_comes_behind_the_horizon(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b"2"))
    _compact(t)
    _sends(a, 2, _single(2, "a", b"3"))
    _sends(a, 3, _single(3, None, b"4"))
    _reads(a, 3)


def compacted_again(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    _compact(t)
    _sends(a, 3, _single(3, "b", b"4"))
    _sends(a, 4, _single(4, "c", b"5"))
    _compact(t)
    _reads(a, 3)


# Batches --------------------------------------------------------------------------------


def a_batch_keeps_its_place(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), ("b", b"2"), ("c", b"3")), 3)
    _sends(a, 3, _single(3, "b", b"4"))
    _compact(t)
    _reads(a, 2)


def a_batch_of_which_nothing_is_left(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), (None, b"2")), 2)
    _sends(a, 2, _single(2, "a", b"3"))
    _compact(t)
    _reads(a, 1)


def a_batch_of_which_all_is_left(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), ("b", b"2")), 2)
    _compact(t)
    _reads(a, 1)
    _asks_last(a)


def a_batch_of_one(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1")))
    _compact(t)
    _reads(a, 1)
    _asks_last(a)


def a_batch_with_a_deletion(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), ("b", b"2"), ("a", b"")), 3)
    _compact(t)
    _reads(a, 1)
    _asks_last(a)


def a_compressed_batch(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), ("b", b"2"), ("a", b"3"), kind=pb.LZ4), 3)
    _compact(t)
    _reads(a, 1)
    _asks_last(a)


def an_encrypted_batch_is_one_message(t: Trace) -> None:
    a = t.connects()
    a.produces()
    keys = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"v")], "partition_key": "a"}
    _sends(a, 0, _single(0, "b", b"1"))
    _sends(a, 1, _batch(1, ("b", b"2"), ("c", b"3"), **keys), 2)
    _compact(t)
    _reads(a, 2)


def permits_count_what_was_compacted_out(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _sends(a, 0, _batch(0, ("a", b"1"), ("b", b"2"), ("a", b"3")), 3)
    _sends(a, 3, _single(3, "c", b"4"))
    _sends(a, 4, _single(4, "d", b"5"))
    _compact(t)
    a.subscribes(read_compacted=True, durable=False, start_message_id=EARLIEST)
    a.permits(1)
    a.receives()
    for _ in range(3):
        a.permits(1)
        a.receives_rest()


# Where reading begins -------------------------------------------------------------------


def reading_from_a_message(t: Trace) -> None:
    a, ids = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"))
    _compact(t)
    _reads(a, 2, start_message_id=ids[2])


def reading_from_a_message_that_is_gone(t: Trace) -> None:
    a, ids = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"))
    _compact(t)
    _reads(a, 3, start_message_id=ids[0])


def reading_from_the_latest(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"))
    _compact(t)
    _reads(a, 0, start_message_id=LATEST)


def reading_from_the_latest_without_a_position(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"))
    _compact(t)
    _reads(a, 0, start_message_id=LATEST, initialPosition=pb.CommandSubscribe.Latest)
    _sends(a, 2, _single(2, "c", b"3"))
    a.receives()


def reading_without_a_start(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b"2"))
    _compact(t)
    _reads(a, 0, start_message_id=None, initialPosition=pb.CommandSubscribe.Latest)


def a_durable_subscription_from_the_earliest(t: Trace) -> None:
    a, ids = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    _compact(t)
    _reads(a, 2, durable=True, start_message_id=None)
    a.acks([ids[2]], pb.CommandAck.Cumulative)
    a.closes_consumer()
    _reads(a, 0, durable=True, start_message_id=None)


def a_durable_subscription_from_the_latest(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"))
    _compact(t)
    _reads(a, 0, durable=True, start_message_id=None, initialPosition=pb.CommandSubscribe.Latest)
    _sends(a, 2, _single(2, "c", b"3"))
    a.receives()


def a_failover_subscription(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b"2"))
    _compact(t)
    a.subscribes(FAILOVER, read_compacted=True)
    a.permits(10)
    a.receives(1)


def other_types_may_not(t: Trace) -> None:
    a = t.publisher(1)
    for number, kind in enumerate((SHARED, KEY_SHARED)):
        a.subscribes(kind, subscription=f"sub-{number}", read_compacted=True)


def seeking_a_message(t: Trace) -> None:
    a, ids = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"))
    _compact(t)
    _reads(a, 3, durable=True, start_message_id=None)
    a.asks(pb.CommandSeek(consumer_id=1, request_id=0, message_id=ids[2]))
    a.receives_rest()
    _reads(a, 2, durable=True, start_message_id=None)


def seeking_the_earliest(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    _compact(t)
    _reads(a, 2)
    a.asks(pb.CommandSeek(consumer_id=1, request_id=0, message_id=EARLIEST))
    a.receives_rest()
    _reads(a, 2)


def redelivery_begins_at_the_cursor(t: Trace) -> None:
    a, ids = _with_messages(t, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"))
    _compact(t)
    _reads(a, 3, durable=True, start_message_id=None, consumer_epoch=0)
    a.acks([ids[1]], pb.CommandAck.Cumulative)
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=1))
    a.receives(2)


# The last message -----------------------------------------------------------------------


def the_last_message_below_the_horizon(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("b", b"2"), ("c", b""))
    _compact(t)
    _reads(a, 2)
    _asks_last(a)


def the_last_message_behind_the_horizon(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("a", b"2"))
    _compact(t)
    _sends(a, 2, _single(2, "a", b""))
    _reads(a, 2)
    _asks_last(a)


def the_last_message_for_who_does_not_read_compacted(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"), ("c", b""))
    _compact(t)
    a.subscribes(durable=False, start_message_id=EARLIEST)
    _asks_last(a)


# Beginning it ---------------------------------------------------------------------------


def the_state_of_a_topic_that_was_never_compacted(t: Trace) -> None:
    t.publisher(1)
    t.rest("GET", _path_of(t))


def a_topic_that_does_not_exist(t: Trace) -> None:
    t.rest("PUT", _path_of(t))
    t.rest("GET", _path_of(t))


def a_topic_that_is_not_persistent(t: Trace) -> None:
    t.rest("PUT", "non-" + _path_of(t))


def a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("PUT", _path_of(t))
    t.rest("GET", _path_of(t))
    _shows_the_outcome(t, _path_of(t).replace("/compaction", "-partition-1/compaction"))


def a_topic_with_nothing_in_it(t: Trace) -> None:
    a = t.connects()
    a.produces()
    _compact(t)
    _reads(a, 0)


def the_cursor_of_compaction_is_a_subscription(t: Trace) -> None:
    _with_messages(t, ("a", b"1"))
    _compact(t)
    t.rest("GET", f"{t.path}/subscriptions")


def its_cursor_belongs_to_a_name_that_consumers_may_use(t: Trace) -> None:
    a, _ = _with_messages(t, ("a", b"1"))
    a.subscribes(EXCLUSIVE, subscription="__compaction")


@differs(
    Difference(
        "compaction of chunked messages",
        "keeps only the last chunk of each, so that no consumer can assemble them",
        "keeps all chunks of the last message of a key",
    )
)
def chunks(t: Trace) -> None:
    a = t.connects()
    a.produces()
    for message in range(2):
        for number in range(2):
            sequence_id = 2 * message + number
            more = {"uuid": f"u{message}", "num_chunks_from_msg": 2, "chunk_id": number,
                    "total_chunk_msg_size": 4}  # fmt: skip
            _sends(a, sequence_id, _single(sequence_id, "a", b"c%d" % sequence_id, **more))
    _compact(t)
    a.subscribes(read_compacted=True, durable=False, start_message_id=EARLIEST)
    a.permits(100)
    a.receives_rest()
