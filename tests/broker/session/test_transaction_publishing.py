"""Messages of transactions: their delivery, refusals, and the state after a crash."""

from typing import Any

import pytest

from fakes.logs import BY_THREE
from fakes.sessions import SessionWorld, produce
from fakes.transactions import (
    ABORT,
    COMMIT,
    Publishing,
    Reading,
    end_on_partition,
    in_transaction,
)
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from magnetar_storage.errors import DiskFull
from raw_client import metadata, send_frame

A, B = TxnId(1, 7), TxnId(1, 8)
SHARED, KEY_SHARED = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared
TYPES = [pb.CommandSubscribe.Exclusive, SHARED, KEY_SHARED]


def crash(world: SessionWorld) -> None:
    """Drop the topic without closing it, and load it again from durable data."""
    world.topic().drop(DiskFull("no room"))
    world.topic()


@pytest.mark.parametrize("sub_type", TYPES)
def test_messages_are_delivered_when_their_transaction_commits(sub_type: int) -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world, subType=sub_type)
    producer.send(b"before")
    assert isinstance(producer.send(b"in A", A), pb.CommandSendReceipt)
    producer.send(b"behind")
    assert reader.payloads() == [b"before"]
    producer.end(A, COMMIT)
    assert reader.payloads() == [b"in A", b"behind"]


@pytest.mark.parametrize("sub_type", TYPES)
def test_messages_of_an_aborted_transaction_are_never_delivered(sub_type: int) -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world, subType=sub_type)
    producer.send(b"in A", A)
    producer.send(b"behind")
    producer.end(A, ABORT)
    assert reader.payloads() == [b"behind"]
    assert Reading(world, subscription="late", subType=sub_type).payloads() == [b"behind"]


def test_a_transaction_waits_for_an_older_one() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.send(b"a1", A)
    producer.send(b"b1", B)
    producer.send(b"a2", A)
    producer.end(B, COMMIT)
    assert reader.payloads() == []
    producer.end(A, ABORT)
    assert reader.payloads() == [b"b1"]


def test_neither_aborted_messages_nor_markers_cost_permits_or_stay_in_the_backlog() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world, permits=3)
    for number in range(5):
        txn = TxnId(1, number)
        producer.send(b"no", txn)
        producer.end(txn, ABORT)
    for number in range(3):
        producer.send(b"%d" % number)
    assert reader.payloads() == [b"0", b"1", b"2"]
    subscription = world.topic().subscriptions["sub"]
    assert world.do(subscription.backlog()).messages == 3
    assert subscription.cursor.mark_delete == 9  # ten entries that nobody gets


def test_an_abort_without_messages_writes_no_marker_and_a_second_end_none_either() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a")
    producer.end(A, ABORT)
    producer.end(A, ABORT)
    assert world.topic().log.end == 1
    producer.send(b"b", B)
    producer.end(B, COMMIT)
    producer.end(B, COMMIT)
    assert world.topic().log.end == 3


def test_a_transaction_that_has_ended_cannot_end_otherwise() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    producer.end(A, COMMIT)
    answer = producer.client.ask(end_on_partition(1, A, ABORT))
    assert answer.error == pb.InvalidTxnStatus
    assert "COMMIT" in answer.message


def test_a_marker_names_its_transaction_and_has_no_payload() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    producer.end(A, ABORT)
    log = world.topic().log
    run = world.do(log.entries.read(1, 1, 1 << 20))
    found, at = parse_metadata(run.payloads[0])
    assert (found.marker_type, found.producer_name) == (22, "pulsar.txn.marker")
    assert (found.txnid_most_bits, found.txnid_least_bits) == A
    assert run.payloads[0][at:] == b""


def test_a_transaction_has_ended_when_its_marker_is_durable() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    ending = world.begin(world.topic().end_transaction(A, COMMIT, -1))
    again = world.begin(world.topic().end_transaction(A, COMMIT, -1))
    assert not ending.done() and not again.done()
    assert world.topic().log.visible_end == 0
    world.clock.pump()
    assert ending.done() and again.done()
    assert world.topic().log.visible_end == 2


class Short(SessionWorld):
    """A broker whose segments have three entries."""

    ROLL = BY_THREE


def test_entries_of_open_transactions_are_kept_though_no_subscription_needs_them() -> None:
    world = Short(magnetar_unread_messages_retention_minutes=0)
    producer = Publishing(world)
    for number in range(4):
        producer.send(b"%d" % number)
    producer.send(b"in A", A)
    for _ in range(4):
        producer.send(b"behind")
    world.do(trim_topic(world.topic()))
    assert world.topic().log.first_offset == 3  # the segment of the transaction's first message
    crash(world)
    producer.end(A, COMMIT)
    assert Reading(world).payloads() == [b"3", b"in A", *[b"behind"] * 4]


def test_what_is_hidden_is_forgotten_with_its_segments() -> None:
    world = Short()
    producer = Publishing(world)
    for number in range(6):
        txn = TxnId(1, number)
        producer.send(b"no", txn)
        producer.end(txn, ABORT)
    assert world.topic().log.hidden.covered() == 12
    world.do(trim_topic(world.topic()))
    log = world.topic().log
    assert log.first_offset > 0
    assert log.hidden.covered() == log.end - log.first_offset
    crash(world)
    log = world.topic().log
    assert log.hidden.covered() == log.end - log.first_offset


# Refusals -------------------------------------------------------------------------------


def test_what_is_published_too_late_is_refused() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    producer.end(A, COMMIT)
    answer = producer.send(b"late", A)
    assert (type(answer), answer.error) == (pb.CommandSendError, pb.NotAllowedError)
    producer.end(B, ABORT, txnid_least_bits_of_low_watermark=20)
    answer = producer.send(b"late", TxnId(1, 20))
    assert (type(answer), answer.error) == (pb.CommandSendError, pb.NotAllowedError)
    assert isinstance(producer.send(b"of another coordinator", TxnId(2, 20)), pb.CommandSendReceipt)
    assert isinstance(producer.send(b"above", TxnId(1, 21)), pb.CommandSendReceipt)


def test_what_was_published_too_late_is_aborted_with_the_low_watermark() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.send(b"late", A)
    producer.send(b"behind")
    assert reader.payloads() == []
    producer.end(TxnId(1, 50), COMMIT, txnid_least_bits_of_low_watermark=7)
    assert reader.payloads() == [b"behind"]


PRETENDED: dict[str, dict[str, Any]] = {
    "a transaction": {"txnid_least_bits": 7, "txnid_most_bits": 1},
    "half a transaction": {"txnid_least_bits": 7},
    "a marker": {"marker_type": 21},
}


@pytest.mark.parametrize("fields", PRETENDED.values(), ids=PRETENDED.keys())
def test_metadata_must_not_pretend_to_be_in_a_transaction(fields: dict[str, Any]) -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    own = metadata(10, **fields)
    producer.client.send_bytes(send_frame(10, b"x", own_metadata=own))
    (answer,) = producer.client.received()
    assert (type(answer), answer.error) == (pb.CommandSendError, pb.NotAllowedError)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_message_that_names_its_transaction_in_the_command_alone_is_in_it_over_a_crash(
    outcome: Any,
) -> None:
    world = SessionWorld()
    producer = Publishing(world)
    frame = send_frame(0, b"x", txnid_most_bits=1, txnid_least_bits=7)
    producer.client.send_bytes(frame)
    (answer,) = producer.client.received()
    assert isinstance(answer, pb.CommandSendReceipt)
    crash(world)
    producer, reader = Publishing(world), Reading(world)
    producer.send(b"behind")
    assert reader.payloads() == []
    producer.end(A, outcome)
    assert reader.payloads() == ([b"x", b"behind"] if outcome == COMMIT else [b"behind"])


def test_messages_of_several_transactions_that_arrive_together() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.client.send_bytes(
        send_frame(0, b"0")
        + in_transaction(A, 1, b"a1")
        + in_transaction(A, 2, b"a2")
        + send_frame(3, b"3")
        + in_transaction(B, 4, b"b4")
        + in_transaction(A, 5, b"a5")
        + send_frame(6, b"6")
    )
    receipts = producer.client.received()
    assert [one.sequence_id for one in receipts] == list(range(7))
    assert reader.payloads() == [b"0"]
    producer.end(B, COMMIT)
    producer.end(A, ABORT)
    assert reader.payloads() == [b"3", b"b4", b"6"]


def test_a_non_persistent_topic_takes_no_transactions() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1, topic="non-persistent://public/default/topic"))
    client.send_bytes(in_transaction(A, 0, b"x"))
    (answer,) = client.received()
    assert (type(answer), answer.error) == (pb.CommandSendError, pb.NotAllowedError)


def test_the_end_at_a_topic_that_does_not_exist_succeeds() -> None:
    world = SessionWorld()
    missing = end_on_partition(1, A, COMMIT, topic="persistent://public/default/missing")
    assert not world.client().ask(missing).HasField("error")


# The last message -----------------------------------------------------------------------


def test_the_last_message_is_the_last_one_that_can_be_delivered() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    receipt = producer.send(b"a")
    first = receipt.message_id.ledgerId, receipt.message_id.entryId
    producer.send(b"b", A)
    producer.send(b"c")
    assert reader.last_id() == first
    producer.end(A, ABORT)
    assert reader.last_id() == (first[0], first[1] + 2)
    producer.send(b"d", B)
    producer.end(B, ABORT)
    assert reader.last_id() == (first[0], first[1] + 2)


def test_a_blocked_subscription_names_the_open_transaction() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.send(b"a", A)
    assert reader.payloads() == []
    subscription = world.topic().subscriptions["sub"]
    assert subscription.dispatcher.blocker() is Blocker.TRANSACTION
    producer.end(A, COMMIT)
    assert reader.payloads() == [b"a"]
    assert subscription.dispatcher.blocker() is Blocker.CAUGHT_UP


# Crashes --------------------------------------------------------------------------------


def test_an_open_transaction_stays_open_over_a_crash() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    producer.send(b"behind")
    crash(world)
    reader = Reading(world)
    assert reader.payloads() == []
    producer.end(A, COMMIT)
    assert reader.payloads() == [b"a", b"behind"]


def test_ended_transactions_stay_ended_over_a_crash_and_over_a_close() -> None:
    world = SessionWorld()
    producer = Publishing(world)
    producer.send(b"a", A)
    producer.send(b"b", B)
    producer.end(A, ABORT)
    producer.end(B, COMMIT)
    crash(world)
    assert Reading(world, subscription="one").payloads() == [b"b"]
    topic = world.topic()
    world.do(topic.close())
    world.broker.topics.drop(topic)
    assert Reading(world, subscription="two").payloads() == [b"b"]
    assert world.topic().log.visible_end == world.topic().log.end == 4


def test_a_terminated_topic_ends_its_transactions() -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.send(b"a", A)
    producer.send(b"b", B)
    producer.send(b"c", TxnId(1, 9))
    world.do(world.topic().terminate())
    producer.end(B, ABORT)
    crash(world)
    reader = Reading(world)
    assert reader.payloads() == []
    producer.end(A, COMMIT)
    assert reader.payloads() == [b"a"]
    producer.end(TxnId(1, 9), COMMIT)
    assert reader.payloads() == [b"c"]
    crash(world)
    assert Reading(world, subscription="late").payloads() == [b"a", b"c"]
