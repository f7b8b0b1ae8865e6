"""Acknowledgements in transactions: conflicts, commit, abort with redelivery, and crashes."""

from typing import Any

import pytest

from fakes.sessions import SessionWorld, produce
from fakes.transactions import ABORT, COMMIT, Reading, end_on_subscription
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import DiskFull
from raw_client import metadata, send_frame

A, B = TxnId(1, 7), TxnId(1, 8)
SHARED, EXCLUSIVE = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Exclusive
TYPES = [EXCLUSIVE, SHARED, pb.CommandSubscribe.Key_Shared]
INDIVIDUAL, CUMULATIVE = pb.CommandAck.Individual, pb.CommandAck.Cumulative


class World(SessionWorld):
    """A topic with some messages, and one consumer that has received them."""

    def __init__(self, sub_type: int = SHARED, messages: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.sub_type = sub_type
        self._requests = 1000
        producer = self.client()
        producer.ask(produce(1))
        for number in range(messages):
            producer.send_bytes(send_frame(number, b"%d" % number))
        self.ids = [
            (one.message_id.ledgerId, one.message_id.entryId) for one in producer.received()
        ]
        self.consumer = Reading(self, subType=sub_type)
        assert len(self.consumer.payloads()) == messages

    def ack(
        self, txn: TxnId | None, *entries: int, kind: int = INDIVIDUAL, ack_set: Any = ()
    ) -> int | None:
        """Acknowledge messages by their numbers: the code of the refusal, if it is refused."""
        self._requests += 1
        command = pb.CommandAck(consumer_id=1, ack_type=kind, request_id=self._requests)  # type: ignore[arg-type]
        for entry in entries:
            ledger, first = self.ids[0][0], self.ids[0][1]
            command.message_id.add(ledgerId=ledger, entryId=first + entry, ack_set=ack_set)
        if txn is not None:
            command.txnid_most_bits, command.txnid_least_bits = txn
        self.consumer.client.send(command)
        (answer,) = [
            one for one in self.consumer.client.received() if isinstance(one, pb.CommandAckResponse)
        ]
        return int(answer.error) if answer.HasField("error") else None

    def end(self, txn: TxnId, outcome: Outcome, **fields: Any) -> None:
        """End a transaction at the subscription."""
        answer = self.client().ask(end_on_subscription(1, txn, outcome, **fields))
        assert isinstance(answer, pb.CommandEndTxnOnSubscriptionResponse)
        assert not answer.HasField("error"), answer

    def again(self) -> list[bytes]:
        """What another consumer receives when the present one has left."""
        self.consumer.client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=1))
        self.consumer.client.received()
        self.consumer = Reading(self, subType=self.sub_type)
        return self.consumer.payloads()

    def crash(self) -> None:
        """The topic ends without being closed, and is loaded again from what is durable."""
        self.topic().drop(DiskFull("no room"))
        self.topic()

    def mark_delete(self) -> int:
        """The offset up to which all is acknowledged."""
        return self.topic().subscriptions["sub"].cursor.mark_delete


# Commit and abort -----------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES)
def test_acknowledgements_count_when_their_transaction_commits(sub_type: int) -> None:
    world = World(sub_type)
    assert world.ack(A, 0, 1) is None
    assert world.mark_delete() == -1
    assert world.again() == [b"2", b"3"]
    world.end(A, COMMIT)
    assert world.mark_delete() == 1
    assert world.again() == [b"2", b"3"]


@pytest.mark.parametrize("sub_type", TYPES)
def test_an_abort_delivers_the_messages_again(sub_type: int) -> None:
    world = World(sub_type)
    assert world.ack(A, 1, 2) is None
    assert world.consumer.payloads() == []
    world.end(A, ABORT)
    again = world.consumer.client.delivered()
    if sub_type == EXCLUSIVE:  # everything from the cursor on, as with every redelivery there
        assert [payload for _, payload in again] == [b"0", b"1", b"2", b"3"]
    else:
        assert [(one.redelivery_count, payload) for one, payload in again] == [(1, b"1"), (1, b"2")]
    assert world.mark_delete() == -1


def test_messages_acknowledged_in_a_transaction_free_the_consumers_limit() -> None:
    world = World(SHARED, max_unacked_messages_per_consumer=4)
    (consumer,) = world.topic().subscriptions["sub"].consumers
    assert consumer.unacked == 4
    world.ack(A, 0, 1)
    assert consumer.unacked == 2
    world.end(A, ABORT)
    assert len(world.consumer.payloads()) == 2
    assert consumer.unacked == 4


def test_a_cumulative_acknowledgement_commits() -> None:
    world = World(EXCLUSIVE)
    assert world.ack(A, 2, kind=CUMULATIVE) is None
    assert world.again() == [b"3"]
    world.end(A, COMMIT)
    assert world.mark_delete() == 2


def test_an_aborted_cumulative_acknowledgement_is_not_redelivered_by_itself() -> None:
    world = World(EXCLUSIVE)
    world.ack(A, 2, kind=CUMULATIVE)
    world.end(A, ABORT)
    assert world.consumer.payloads() == []
    assert world.again() == [b"0", b"1", b"2", b"3"]


def test_an_end_is_idempotent_and_one_of_a_missing_subscription_succeeds() -> None:
    world = World()
    world.ack(A, 0)
    world.end(A, COMMIT)
    world.end(A, COMMIT)
    world.end(A, COMMIT, subscription="missing")
    answer = world.client().ask(end_on_subscription(1, A, ABORT))
    assert answer.error == pb.InvalidTxnStatus


# Conflicts ------------------------------------------------------------------------------


def test_conflicts_of_whole_messages() -> None:
    world = World()
    assert world.ack(None, 0) is None
    assert world.ack(A, 1) is None
    assert world.ack(A, 1) is None  # its client has sent it again
    assert world.ack(A, 0) == pb.TransactionConflict
    assert world.ack(B, 2, 1) == pb.TransactionConflict
    assert world.ack(B, 2) is None  # nothing of the refused one was kept
    world.end(A, ABORT)
    assert world.ack(B, 1) is None


def test_a_plain_acknowledgement_takes_a_message_out_of_a_transaction() -> None:
    world = World()
    world.ack(A, 0, 1)
    assert world.ack(None, 0) is None
    assert world.mark_delete() == 0
    world.end(A, ABORT)
    assert world.consumer.payloads() == [b"1"]


def test_conflicts_of_cumulative_acknowledgements() -> None:
    world = World(EXCLUSIVE)
    assert world.ack(None, 0, kind=CUMULATIVE) is None
    assert world.ack(A, 0, kind=CUMULATIVE) == pb.TransactionConflict
    assert world.ack(A, 2, kind=CUMULATIVE) is None
    assert world.ack(A, 2, kind=CUMULATIVE) is None
    assert world.ack(A, 1, kind=CUMULATIVE) == pb.TransactionConflict
    assert world.ack(B, 3, kind=CUMULATIVE) == pb.TransactionConflict
    assert world.ack(B, 1) == pb.TransactionConflict
    assert world.ack(B, 3) is None
    assert world.ack(A, 3, kind=CUMULATIVE) == pb.TransactionConflict


def test_a_shared_subscription_refuses_cumulative_acknowledgements_of_a_transaction() -> None:
    assert World().ack(A, 2, kind=CUMULATIVE) == pb.NotAllowedError


def test_what_is_acknowledged_too_late_is_refused() -> None:
    world = World()
    world.end(A, COMMIT)
    assert world.ack(A, 0) == pb.NotAllowedError
    world.ack(B, 1)
    world.end(TxnId(1, 30), COMMIT, txnid_least_bits_of_low_watermark=20)
    assert world.consumer.payloads() == [b"1"]  # what was left of B was aborted
    assert world.ack(TxnId(1, 20), 0) == pb.NotAllowedError


def test_transactions_where_they_are_off() -> None:
    world = World(transaction_coordinator_enabled=False)
    assert world.ack(A, 0) == pb.NotAllowedError


def test_a_refusal_without_a_request_id_is_an_error_that_answers_no_request() -> None:
    world = World()
    world.ack(None, 0)
    ack = pb.CommandAck(consumer_id=1, ack_type="Individual")
    ack.message_id.add(ledgerId=world.ids[0][0], entryId=world.ids[0][1])
    ack.txnid_most_bits, ack.txnid_least_bits = A
    answer = world.consumer.client.ask(ack)
    assert (type(answer), answer.error) == (pb.CommandError, pb.TransactionConflict)


# Batches --------------------------------------------------------------------------------


def batch_world(sub_type: int = SHARED) -> World:
    """A topic whose message 0 is a batch of three."""
    world = World(sub_type, messages=0)
    producer = world.client()
    producer.ask(produce(1))
    own = metadata(0, num_messages_in_batch=3)
    producer.send_bytes(send_frame(0, b"batch", own_metadata=own, num_messages=3))
    (receipt,) = producer.received()
    world.ids = [(receipt.message_id.ledgerId, receipt.message_id.entryId)]
    assert world.consumer.payloads() == [b"batch"]
    return world


def test_messages_of_a_batch_in_two_transactions() -> None:
    world = batch_world()
    assert world.ack(A, 0, ack_set=[0b110]) is None
    assert world.ack(B, 0, ack_set=[0b110]) == pb.TransactionConflict
    assert world.ack(B, 0) == pb.TransactionConflict
    assert world.ack(B, 0, ack_set=[0b011]) is None  # the last one: a clear bit beyond the words
    assert world.ack(A, 0, ack_set=[0b011]) == pb.TransactionConflict
    assert world.ack(A, 0, ack_set=[0b101]) is None
    assert world.again() == []
    world.end(A, COMMIT)
    assert world.mark_delete() == -1
    world.end(B, ABORT)
    ((command, _),) = world.consumer.client.delivered()
    assert list(command.ack_set) == [0b100]


def test_an_aborted_part_of_a_batch_is_delivered_again_while_the_consumer_holds_the_rest() -> None:
    world = batch_world()
    world.ack(A, 0, ack_set=[0b110])
    world.ack(None, 0, ack_set=[0b101])
    world.end(A, ABORT)
    ((command, _),) = world.consumer.client.delivered()
    assert list(command.ack_set) == [0b101]


def test_an_ack_set_of_a_whole_batch_means_each_of_its_messages() -> None:
    world = batch_world()
    world.ack(None, 0, ack_set=[0b110])
    assert world.ack(A, 0, ack_set=[0]) == pb.TransactionConflict
    assert world.ack(A, 0) is None  # all that is left
    world.end(A, COMMIT)
    assert world.mark_delete() == 0


# Crashes --------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES)
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_what_is_pending_stays_pending_over_a_crash(sub_type: int, outcome: Outcome) -> None:
    world = World(sub_type)
    world.ack(A, 0, 2)
    world.crash()
    world.consumer = Reading(world, subType=sub_type)
    assert world.consumer.payloads() == [b"1", b"3"]
    assert world.ack(B, 0) == pb.TransactionConflict
    world.end(A, outcome)
    world.crash()
    world.consumer = Reading(world, subType=sub_type)
    left = [b"1", b"3"] if outcome is COMMIT else [b"0", b"1", b"2", b"3"]
    assert world.consumer.payloads() == left
    assert world.mark_delete() == (0 if outcome is COMMIT else -1)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_an_end_in_the_life_of_its_acknowledgements_survives_a_crash(outcome: Outcome) -> None:
    world = World()
    world.ack(A, 0)
    world.ack(B, 1)
    world.end(A, outcome)
    world.crash()
    world.consumer = Reading(world, subType=SHARED)
    left = [b"2", b"3"] if outcome is COMMIT else [b"0", b"2", b"3"]
    assert world.consumer.payloads() == left
    assert list(world.topic().subscriptions["sub"].acks.transactional.open) == [B]  # type: ignore[union-attr]


def test_cumulative_and_batch_acknowledgements_stay_pending_over_a_crash() -> None:
    world = World(EXCLUSIVE)
    world.ack(A, 1, kind=CUMULATIVE)
    world.crash()
    world.consumer = Reading(world)
    assert world.consumer.payloads() == [b"2", b"3"]
    world.end(A, COMMIT)
    assert world.mark_delete() == 1
    world = batch_world()
    world.ack(A, 0, ack_set=[0b011])
    world.crash()
    world.consumer = Reading(world, subType=SHARED)
    ((command, _),) = world.consumer.client.delivered()
    assert list(command.ack_set) == [0b011]
    world.end(A, ABORT)
    assert world.consumer.payloads() == [b"batch"]


def test_a_deleted_subscription_leaves_nothing_to_one_of_the_same_name() -> None:
    world = World()
    world.ack(A, 0)
    world.consumer.client.send(pb.CommandUnsubscribe(consumer_id=1, request_id=5))
    world.consumer.client.received()
    world.crash()
    world.consumer = Reading(world, subType=SHARED)
    assert world.consumer.payloads() == [b"0", b"1", b"2", b"3"]
    world.end(A, COMMIT)
    assert world.mark_delete() == -1


# Other changes of the cursor ------------------------------------------------------------


def test_a_seek_does_not_deliver_what_is_pending() -> None:
    world = World(EXCLUSIVE)
    world.ack(A, 1)
    world.ack(None, 3, kind=CUMULATIVE)
    subscription = world.topic().subscriptions["sub"]
    world.do(subscription.seek(0))
    world.consumer = Reading(world)
    assert world.consumer.payloads() == [b"0", b"2", b"3"]
    world.end(A, ABORT)
    assert b"1" in world.consumer.payloads()


def test_skipped_messages_are_not_delivered_when_their_transaction_aborts() -> None:
    world = World()
    world.ack(A, 0, 1)
    subscription = world.topic().subscriptions["sub"]
    subscription.skip(range(1))
    world.end(A, ABORT)
    assert world.consumer.payloads() == [b"1"]


def test_a_reader_acknowledges_in_memory() -> None:
    world = World(EXCLUSIVE)
    reader = Reading(world, subscription="reader", durable=False)
    assert len(reader.payloads()) == 4
    ack = pb.CommandAck(consumer_id=1, ack_type="Individual", request_id=9)
    ack.message_id.add(ledgerId=world.ids[0][0], entryId=world.ids[0][1])
    ack.txnid_most_bits, ack.txnid_least_bits = A
    assert not reader.client.ask(ack).HasField("error")
    world.end(A, COMMIT, subscription="reader")
    assert world.topic().subscriptions["reader"].cursor.mark_delete == 0


# What else changes a subscription -------------------------------------------------------


def test_a_new_subscription_inherits_nothing_of_a_deleted_one() -> None:
    world = World()
    world.ack(A, 0, 1)
    topic = world.topic()
    # A crash leaves the first records of a write: here that of the cursor, without what follows.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic.pending_acks, "forget", lambda number: None)
        world.do(topic.subscriptions["sub"].delete())
    world.crash()
    world.consumer = Reading(world, subType=SHARED)
    assert world.consumer.payloads() == [b"0", b"1", b"2", b"3"]
    world.end(A, COMMIT)
    assert world.mark_delete() == -1


def publish_batch(world: World, messages: int) -> None:
    """Publish one more entry, which `ids` names alone from then on."""
    producer = world.client()
    producer.ask(produce(1))
    own = metadata(9)
    own.num_messages_in_batch = messages
    producer.send_bytes(send_frame(9, b"batch", 1, own, num_messages=messages))
    (receipt,) = producer.received()
    world.ids = [(receipt.message_id.ledgerId, receipt.message_id.entryId)]


def test_a_seek_into_a_batch_leaves_out_its_first_messages() -> None:
    world = World(messages=1)
    world.ack(A, 0)
    publish_batch(world, 4)
    world.do(world.topic().subscriptions["sub"].seek(1, 0b1100))
    world.consumer = Reading(world, subType=SHARED)
    assert [list(one.ack_set) for one, _ in world.consumer.client.delivered()] == [[0b1100]]


@pytest.mark.parametrize("kind", [INDIVIDUAL, CUMULATIVE])
def test_a_part_of_a_batch_that_cannot_be_split_is_not_acknowledged(kind: int) -> None:
    world = World(EXCLUSIVE, messages=1)
    publish_batch(world, (1 << 20) + 1)
    assert world.ack(A, 0, kind=kind, ack_set=[(1 << 62)]) is None
    world.end(A, COMMIT)
    assert world.mark_delete() == (0 if kind == CUMULATIVE else -1)
    assert world.again()[-1] == b"batch"


def test_both_ways_to_acknowledge_a_batch_in_one_transaction_exclude_others() -> None:
    world = World(EXCLUSIVE, messages=0)
    publish_batch(world, 3)
    assert world.ack(A, 0, ack_set=[0b001]) is None
    assert world.ack(A, 0, kind=CUMULATIVE, ack_set=[0b110]) is None
    for left in (0b110, 0b101, 0b011, 0):
        assert world.ack(B, 0, ack_set=[left] if left else ()) == pb.TransactionConflict
