"""Broker entry metadata (PIP-70): who gets it, how messages are counted, and what goes by it."""

from typing import Any

from conformance import transactions as txns
from conformance.differences import Difference, differs
from conformance.trace import Kind, Peer, Trace
from conformance.traces.compaction import _batch, _compact, _sends, _single
from conformance.traces.seeks import EARLIEST
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

INTERCEPTORS = "org.apache.pulsar.common.intercept.Append{}MetadataInterceptor"
SETTINGS = {
    **txns.SETTINGS,
    "brokerEntryMetadataInterceptors": ",".join(
        INTERCEPTORS.format(name) for name in ("Index", "BrokerTimestamp")
    ),
    "exposingBrokerEntryMetadataToClientEnabled": "true",
}
FOREIGN = Difference(
    "a message that begins with broker entry metadata when it is sent",
    "is stored, and delivered to nobody",
    "NotAllowedError",
)
BYTES_OUT = Difference(
    "broker entry metadata in statistics of what was delivered",
    "counted, even if it is not sent to the client",
    "counted as it is sent",
)
PUBLISHED_MS = 1_700_000_000_000
"""What the messages of traces say: it is long ago."""
TAKES_IT = pb.FeatureFlags(supports_broker_entry_metadata=True)
FIRST = {"ledgerId": -1, "entryId": -1}


def _connects(t: Trace) -> Peer:
    return t.connects(feature_flags=TAKES_IT)


def _producing(t: Trace) -> Peer:
    a = _connects(t)
    a.produces()
    return a


def _reads(a: Peer, count: int, **fields: Any) -> None:
    a.subscribes(**fields)
    a.permits(100)
    a.receives(count)


# Who gets it ----------------------------------------------------------------------------


def each_entry_has_the_index_of_its_last_message(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    a.publishes_batch(3, b"three messages", sequence_id=2)
    a.publishes(1, first=5)
    _reads(a, 4)


def a_client_that_does_not_ask_gets_none(t: Trace) -> None:
    a = t.publisher(1)
    a.publishes_batch(3, b"three messages", sequence_id=1)
    _reads(a, 2)
    b = _connects(t)
    _reads(b, 2, subscription="other")


def what_is_sent_again_has_it_again(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    a.subscribes(pb.CommandSubscribe.Shared)
    a.permits(10)
    a.receives(2)
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
    a.receives(2)


def a_topic_that_is_not_persistent_has_none(t: Trace) -> None:
    a = _connects(t)
    topic = t.topic.replace("persistent://", "non-persistent://")
    a.produces(topic)
    a.subscribes(topic=topic)
    a.permits(10)
    a.publishes(1)
    a.receives(1)


def chunks_count_one_by_one(t: Trace) -> None:
    a = _producing(t)
    for number in range(2):
        chunk = {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 2}
        about = metadata(0, total_chunk_msg_size=2, **chunk)
        a.sends_entry(0, encode_entry(about, b"c"), is_chunk=True)
        a.awaits(Kind.SEND_RECEIPT)
    a.publishes(1, first=1)
    _reads(a, 3)


def keys_are_still_seen(t: Trace) -> None:
    a = _producing(t)
    _sends(a, 0, _single(0, "key", b"1"))
    a.subscribes(pb.CommandSubscribe.Key_Shared)
    a.permits(10)
    a.receives(1)


def delayed_messages_have_it(t: Trace) -> None:
    a = _producing(t)
    entry = encode_entry(metadata(0, deliver_at_time=PUBLISHED_MS + 1), b"late")
    a.sends_entry(0, entry)
    a.awaits(Kind.SEND_RECEIPT)
    a.subscribes(pb.CommandSubscribe.Shared)
    a.permits(10)
    a.receives(1)


@differs(FOREIGN)
def metadata_that_a_producer_adds(t: Trace) -> None:
    a = _producing(t)
    own = pb.BrokerEntryMetadata(broker_timestamp=1, index=77).SerializeToString()
    entry = encode_entry(metadata(0), b"mine")
    a.sends_entry(0, b"\x0e\x02" + len(own).to_bytes(4, "big") + own + entry)
    a.awaits_outcome()
    a.publishes(1, first=1)
    a.subscribes()
    a.permits(10)
    a.receives_rest()


# Counting ---------------------------------------------------------------------------------


def the_next_ledger_goes_on(t: Trace) -> None:
    a = _producing(t)
    a.publishes(1)
    a.publishes_batch(3, b"three messages", sequence_id=1)
    t.rest("PUT", f"{t.path}/unload")
    a.awaits(Kind.CLOSE_PRODUCER)
    a.produces()
    a.publishes(1, first=4)
    _reads(a, 3)


def counting_goes_on_after_a_truncation(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    t.rest("DELETE", f"{t.path}/truncate")
    a.publishes(1, first=2)
    _reads(a, 1)


def a_new_topic_of_the_name_begins_anew(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    a.closes_producer()
    t.rest("DELETE", t.path)
    a.produces()
    a.publishes(1)
    _reads(a, 1)


def markers_of_transactions_are_counted(t: Trace) -> None:
    a = _producing(t)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0)
    txns.commits(a, txn)
    a.publishes(1, first=1)
    _reads(a, 2)


def compaction_keeps_it(t: Trace) -> None:
    a = _producing(t)
    _sends(a, 0, _single(0, "a", b"1"))
    _sends(a, 1, _batch(1, ("a", b"2"), ("b", b"3"), ("a", b"4")), 3)
    _sends(a, 4, _single(4, "c", b"5"))
    _compact(t)
    _reads(a, 2, read_compacted=True, durable=False, start_message_id=EARLIEST)


# What goes by the broker's time -------------------------------------------------------------


def a_seek_by_time(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    a.subscribes()
    a.asks(pb.CommandSeek(consumer_id=1, request_id=0, message_publish_time=PUBLISHED_MS + 1))
    a.awaits(Kind.CLOSE_CONSUMER)
    _reads(a, 2)


def expiry(t: Trace) -> None:
    a = _producing(t)
    a.publishes(2)
    t.rest("PUT", f"{t.path}/subscription/sub", FIRST)
    t.rest("POST", f"{t.path}/subscription/sub/expireMessages/3600")
    _reads(a, 2)


# Over REST ----------------------------------------------------------------------------------


def headers_of_a_message(t: Trace) -> None:
    a = t.publisher(1)
    a.publishes_batch(3, b"three messages", sequence_id=1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/1")
    t.web("GET", f"{t.path}/subscription/sub/position/2")
    number = str(a.published[0].ledgerId)
    t.roles.knows(f"ledger/{number}/", "ledger/L/")
    t.web("GET", f"{t.path}/ledger/{number}/entry/1")
    t.web("GET", f"{t.path}/examinemessage")


def messages_by_index(t: Trace) -> None:
    a = t.publisher(2)
    a.publishes_batch(3, b"three messages", sequence_id=2)
    a.publishes(1, first=5)
    for index in range(6):
        t.web("GET", f"{t.path}/getMessageIdByIndex?index={index}")


def indexes_that_no_message_has(t: Trace) -> None:
    t.publisher(2)
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=2")
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=-1")
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=first")
    t.web("GET", f"{t.path}/getMessageIdByIndex")


def indexes_of_messages_that_were_deleted(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("DELETE", f"{t.path}/truncate")
    a.publishes(1, first=2)
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=1")
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=2")


def indexes_of_a_topic_without_messages(t: Trace) -> None:
    t.publisher(0)
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=0")


def indexes_of_other_topics(t: Trace) -> None:
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=0")
    t.has_partitions(2)
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=0")


@differs(BYTES_OUT)
def statistics_of_what_is_delivered(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)
    t.asks_fields(f"{t.path}/stats", "msgInCounter", "bytesInCounter", "bytesOutCounter")
