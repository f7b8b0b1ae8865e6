"""Acknowledgements in transactions: pending, in conflict, committed and aborted."""

from conformance import transactions as txns
from conformance.differences import Difference, differs
from conformance.trace import CUMULATIVE, SHARED, Peer, Trace, before_ledger_of, part_of
from conformance.traces.transactions import LATE, NOT_PERSISTENT
from conformance.transactions import NOBODYS, Txn
from magnetar_proto import PulsarApi_pb2 as pb

SETTINGS = txns.SETTINGS

SENT_AGAIN = Difference(
    "an acknowledgement in a transaction that is sent again",
    "TransactionConflict",
    "succeeds: its answer may have been lost",
)
PARTS = Difference(
    "messages of one batch, acknowledged in two transactions of which one is aborted",
    "all stay acknowledged",
    "those of the aborted transaction are delivered again",
)
SAME_PART = Difference(
    "a message of a batch that is pending in another transaction",
    "accepted, where the acknowledgement does not name the whole batch",
    "TransactionConflict",
)
BEHIND = Difference(
    "a cumulative acknowledgement in a transaction and an individual one in another, before it",
    "pending: both may commit",
    "TransactionConflict for the second",
)
ON_SHARED = Difference(
    "a cumulative acknowledgement in a transaction, on Shared or Key_Shared",
    "has no effect, and succeeds",
    "NotAllowedError",
)


def _shared(t: Trace, messages: int) -> tuple[Peer, list[pb.MessageIdData]]:
    """A client that has received so many messages of a shared subscription."""
    return _received(t, messages, SHARED)


def _received(
    t: Trace, messages: int, sub_type: pb.CommandSubscribe.SubType = pb.CommandSubscribe.Exclusive
) -> tuple[Peer, list[pb.MessageIdData]]:
    a = t.publisher(messages)
    a.subscribes(sub_type)
    a.permits(100)
    return a, a.receives(messages)


def _begins(a: Peer) -> Txn:
    """A transaction that has the subscription."""
    txn = txns.begins(a)
    txns.adds_subscription(a, txn)
    return txn


def _comes_back(a: Peer, sub_type: pb.CommandSubscribe.SubType = SHARED) -> None:
    """What the broker delivers to the consumer when it subscribes again."""
    a.closes_consumer()
    a.subscribes(sub_type)
    a.permits(100)
    a.receives_rest()


# Individual -----------------------------------------------------------------------------------


def a_commit(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    txns.commits(a, txn)
    _comes_back(a)


def an_abort(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    txns.aborts(a, txn)
    a.receives_rest()


def an_abort_on_an_exclusive_subscription(t: Trace) -> None:
    a, ids = _received(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    txns.aborts(a, txn)
    a.receives_rest()


def coming_back_while_it_is_pending(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    _comes_back(a)
    txns.aborts(a, txn)
    a.receives_rest()


def wanting_again_what_is_pending(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))
    a.receives_rest()
    txns.commits(a, txn)


@differs(SENT_AGAIN)
def twice_in_one_transaction(t: Trace) -> None:
    a, ids = _shared(t, 1)
    txn = _begins(a)
    txns.acks(a, txn, ids)
    txns.acks(a, txn, ids)


def in_two_transactions(t: Trace) -> None:
    a, ids = _shared(t, 1)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, ids)
    txns.acks(a, second, ids)
    txns.aborts(a, second)
    txns.commits(a, first)
    _comes_back(a)


def what_was_acknowledged_before(t: Trace) -> None:
    a, ids = _shared(t, 2)
    a.acks(ids[1:])
    txn = _begins(a)
    txns.acks(a, txn, ids[1:])


def what_was_acknowledged_before_and_is_below_the_mark(t: Trace) -> None:
    a, ids = _shared(t, 2)
    a.acks(ids[:1])
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])


def a_plain_acknowledgement_of_what_is_pending(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    a.acks(ids[:1])
    txns.aborts(a, txn)
    a.receives_rest()


def several_of_which_one_is_in_conflict(t: Trace) -> None:
    a, ids = _shared(t, 3)
    a.acks(ids[1:2])
    txn = _begins(a)
    txns.acks(a, txn, ids)
    txns.aborts(a, txn)
    a.receives_rest()


def of_a_transaction_that_nobody_began(t: Trace) -> None:
    a, ids = _shared(t, 1)
    txns.acks(a, NOBODYS, ids)


@differs(LATE)
def after_the_commit(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1])
    txns.commits(a, txn)
    txns.acks(a, txn, ids[1:])


@differs(NOT_PERSISTENT)
def of_a_topic_that_is_not_persistent(t: Trace) -> None:
    a = t.connects()
    a.topic = f"non-persistent{a.topic[len('persistent') :]}"
    a.produces()
    a.subscribes(SHARED)
    txn = _begins(a)
    txns.acks(a, txn, [pb.MessageIdData(ledgerId=0, entryId=0)])


# Batches --------------------------------------------------------------------------------------


def _batch(t: Trace) -> tuple[Peer, pb.MessageIdData]:
    """A client of a shared subscription that has received a batch of three messages."""
    a = t.publisher()
    batch = a.publishes_batch(3, b"not read by brokers")
    a.subscribes(SHARED)
    a.permits(100)
    a.receives()
    return a, batch


@differs(PARTS)
def parts_of_a_batch(t: Trace) -> None:
    a, batch = _batch(t)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, [part_of(batch, 0b110)])
    txns.acks(a, second, [part_of(batch, 0b101)])
    txns.commits(a, first)
    txns.aborts(a, second)
    a.receives_rest()


def parts_of_a_batch_after_a_commit(t: Trace) -> None:
    a, batch = _batch(t)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, [part_of(batch, 0b110)])
    txns.commits(a, first)
    txns.acks(a, second, [part_of(batch, 0b101)])
    txns.commits(a, second)
    _comes_back(a)


@differs(SAME_PART)
def one_part_of_a_batch_in_two_transactions(t: Trace) -> None:
    a, batch = _batch(t)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, [part_of(batch, 0b110)])
    txns.acks(a, second, [part_of(batch, 0b110)])


@differs(SAME_PART)
def another_part_and_then_the_same_in_two_transactions(t: Trace) -> None:
    a, batch = _batch(t)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, [part_of(batch, 0b110)])
    txns.acks(a, second, [part_of(batch, 0b101)])
    txns.acks(a, second, [part_of(batch, 0b110)])


def a_whole_batch_of_which_a_part_is_pending(t: Trace) -> None:
    a, batch = _batch(t)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, [part_of(batch, 0b110)])
    txns.acks(a, second, [batch])


# Cumulative -----------------------------------------------------------------------------------


def up_to_a_message(t: Trace) -> None:
    a, ids = _received(t, 3)
    txn = _begins(a)
    txns.acks(a, txn, ids[1:2], CUMULATIVE)
    txns.commits(a, txn)
    _comes_back(a, pb.CommandSubscribe.Exclusive)


def up_to_a_message_and_aborted(t: Trace) -> None:
    a, ids = _received(t, 3)
    txn = _begins(a)
    txns.acks(a, txn, ids[1:2], CUMULATIVE)
    txns.aborts(a, txn)
    a.receives_rest()
    _comes_back(a, pb.CommandSubscribe.Exclusive)


def up_to_a_message_in_two_transactions(t: Trace) -> None:
    a, ids = _received(t, 3)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, ids[:1], CUMULATIVE)
    txns.acks(a, second, ids[1:2], CUMULATIVE)
    txns.commits(a, first)
    txns.acks(a, second, ids[1:2], CUMULATIVE)


def up_to_a_later_message_in_the_same_transaction(t: Trace) -> None:
    a, ids = _received(t, 3)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1], CUMULATIVE)
    txns.acks(a, txn, ids[1:2], CUMULATIVE)
    txns.commits(a, txn)
    _comes_back(a, pb.CommandSubscribe.Exclusive)


def up_to_a_message_below_the_mark(t: Trace) -> None:
    a, ids = _received(t, 3)
    a.acks(ids[1:2], CUMULATIVE)
    txn = _begins(a)
    txns.acks(a, txn, ids[:1], CUMULATIVE)


def everything_before_the_second_ledger(t: Trace) -> None:
    a = t.publisher_of_two_ledgers()
    a.subscribes()
    a.permits(10)
    ids = a.receives(4)
    txn = _begins(a)
    txns.acks(a, txn, [before_ledger_of(ids[2])], CUMULATIVE)
    txns.commits(a, txn)
    _comes_back(a, pb.CommandSubscribe.Exclusive)


def everything_before_the_first_ledger(t: Trace) -> None:
    a = t.publisher_of_two_ledgers()
    a.subscribes()
    a.permits(10)
    ids = a.receives(4)
    txn = _begins(a)
    txns.acks(a, txn, [before_ledger_of(ids[0])], CUMULATIVE)
    txns.commits(a, txn)
    _comes_back(a, pb.CommandSubscribe.Exclusive)


@differs(BEHIND)
def one_message_behind_a_cumulative_one(t: Trace) -> None:
    a, ids = _received(t, 3)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, ids[1:2], CUMULATIVE)
    txns.acks(a, second, ids[:1])
    txns.acks(a, second, ids[2:])


@differs(BEHIND)
def up_to_a_message_behind_one_of_another_transaction(t: Trace) -> None:
    a, ids = _received(t, 3)
    first, second = _begins(a), _begins(a)
    txns.acks(a, first, ids[:1])
    txns.acks(a, second, ids[1:2], CUMULATIVE)


@differs(ON_SHARED)
def up_to_a_message_of_a_shared_subscription(t: Trace) -> None:
    a, ids = _shared(t, 2)
    txn = _begins(a)
    txns.acks(a, txn, ids[1:], CUMULATIVE)
    txns.commits(a, txn)
    _comes_back(a)
