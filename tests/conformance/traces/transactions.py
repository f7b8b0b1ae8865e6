"""Transactions: coordinators, what topics hold back and deliver, and how transactions end."""

from conformance import transactions as txns
from conformance.differences import Difference, differs
from conformance.trace import Kind, Trace
from conformance.transactions import NOBODYS, OF_NO_COORDINATOR
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

SETTINGS = txns.SETTINGS

COUNT = Difference(
    "coordinators of transactions",
    "as many as the cluster was set up with, one in a standalone; others open when a client asks",
    "16, or as many as were set over REST; others answer TransactionCoordinatorNotFound",
)
NO_TIMEOUT = Difference(
    "NEW_TXN without a timeout",
    "begins a transaction that has timed out",
    "NotAllowedError",
)
NAMED_ALONE = Difference(
    "a message whose metadata name no transaction, only its SEND, as Go's client sends it",
    "is delivered although its transaction is aborted",
    "is stored with the transaction in its metadata, and not delivered if that is aborted",
)
OTHERWISE_NAMED = Difference(
    "a message whose metadata name another transaction than its SEND",
    "stored, in the transaction of the SEND",
    "NotAllowedError",
)
LATE = Difference(
    "a message or an acknowledgement that comes after the end of its transaction",
    "accepted, unless it is below the low watermark: a message then holds back readers",
    "NotAllowedError while the end is remembered (1,000 for each topic and subscription)",
)
NOT_PERSISTENT = Difference(
    "a topic that is not persistent, in a transaction",
    "can be added; a message in it closes the connection, an acknowledgement is NotAllowedError",
    "NotAllowedError for all three",
)
AGAIN = Difference(
    "the end of a transaction that has ended so",
    "TransactionNotFound",
    "succeeds while the end is remembered: the first answer may have been lost",
)

# Coordinators ---------------------------------------------------------------------------------


def connecting_to_a_coordinator(t: Trace) -> None:
    a = t.connects()
    a.asks(pb.CommandTcClientConnectRequest(request_id=0, tc_id=0))
    a.asks(pb.CommandTcClientConnectRequest(request_id=0, tc_id=0))


@differs(COUNT)
def connecting_to_a_coordinator_that_is_not_there(t: Trace) -> None:
    t.connects().asks(pb.CommandTcClientConnectRequest(request_id=0, tc_id=99))


@differs(COUNT)
def the_partitions_of_the_coordinators(t: Trace) -> None:
    t.connects().asks_partitions(txns.COORDINATORS)


@differs(NO_TIMEOUT)
def beginning_without_a_timeout(t: Trace) -> None:
    a = t.publisher()
    txn = txns.begins(a, ttl_ms=0)
    txns.adds_topics(a, txn)


def beginning_with_the_longest_timeout(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a, ttl_ms=2**63 - 1)
    txns.aborts(a, txn)


def beginning_at_a_coordinator_that_is_not_there(t: Trace) -> None:
    t.connects().asks(pb.CommandNewTxn(request_id=0, txn_ttl_millis=60_000, tc_id=98))


# What a transaction concerns ------------------------------------------------------------------


def adding_topics(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.adds_topics(a, txn, a.topic, f"{a.topic}-2")
    txns.aborts(a, txn)


def adding_no_topic(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    a.asks(pb.CommandAddPartitionToTxn(request_id=0, **txn._asdict()))
    txns.aborts(a, txn)


def adding_a_topic_to_a_transaction_that_nobody_began(t: Trace) -> None:
    a = t.connects()
    txns.adds_topics(a, NOBODYS)
    txns.adds_topics(a, OF_NO_COORDINATOR)


def adding_a_subscription(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    txn = txns.begins(a)
    txns.adds_subscription(a, txn)
    txns.adds_subscription(a, txn)
    txns.commits(a, txn)


def adding_a_subscription_to_a_transaction_that_nobody_began(t: Trace) -> None:
    a = t.connects()
    txns.adds_subscription(a, NOBODYS)
    txns.adds_subscription(a, OF_NO_COORDINATOR)


def adding_a_topic_after_the_end(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.commits(a, txn)
    txns.adds_topics(a, txn)
    txns.adds_subscription(a, txn)


# Messages -------------------------------------------------------------------------------------


def a_commit(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0, 1)
    b.receives_rest()
    txns.commits(a, txn)
    b.receives(2)
    b.receives_rest()


def an_abort(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0, 1)
    txns.aborts(a, txn)
    a.publishes(1, first=2)
    b.receives()
    b.receives_rest()


def a_plain_message_behind_an_open_transaction(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 1)
    a.publishes(1, first=2)
    b.subscribes()
    b.permits(10)
    b.receives()
    b.receives_rest()
    txns.commits(a, txn)
    b.receives(2)


def the_second_of_two_transactions_commits_first(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    first, second = txns.begins(a), txns.begins(a)
    txns.adds_topics(a, first)
    txns.adds_topics(a, second)
    txns.publishes(a, first, 0)
    txns.publishes(a, second, 1)
    txns.commits(a, second)
    b.receives_rest()
    txns.aborts(a, first)
    b.receives()
    b.receives_rest()


def a_message_of_a_topic_that_was_not_added(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.publishes(a, txn, 0)
    txns.commits(a, txn)
    b.receives_rest()


def a_message_that_names_its_transaction_in_the_command_alone(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    a.sends(0, **txn._asdict())
    a.awaits_outcome()
    b.receives_rest()
    txns.commits(a, txn)
    b.receives_rest()


@differs(NAMED_ALONE)
def an_aborted_message_that_names_its_transaction_in_the_command_alone(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    a.sends(0, **txn._asdict())
    a.awaits(Kind.SEND_RECEIPT)
    txns.aborts(a, txn)
    a.publishes(1, first=1)
    b.receives_rest()


@differs(OTHERWISE_NAMED)
def a_message_whose_metadata_name_another_transaction(t: Trace) -> None:
    a = t.publisher()
    first, second = txns.begins(a), txns.begins(a)
    txns.adds_topics(a, first)
    entry = encode_entry(metadata(0, **second._asdict()), b"x")
    a.sends_entry(0, entry, **first._asdict())
    a.awaits_outcome()
    txns.aborts(a, first)


@differs(LATE)
def a_message_after_the_commit(t: Trace) -> None:
    a = t.publisher()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0)
    txns.commits(a, txn)
    txns.sends(a, txn, 1)
    a.awaits_outcome()


def a_batch(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.sends(a, txn, 0, messages=3)
    a.awaits(Kind.SEND_RECEIPT)
    txns.commits(a, txn)
    b.receives_rest()


@differs(NOT_PERSISTENT)
def a_message_to_a_topic_that_is_not_persistent(t: Trace) -> None:
    a = t.connects()
    a.topic = f"non-persistent{a.topic[len('persistent') :]}"
    a.produces()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.sends(a, txn, 0)
    a.receives_rest()


def two_topics(t: Trace) -> None:
    a, b, c = t.publisher(), t.connects(), t.connects()
    other = f"{t.topic}-2"
    a.produces(other, producer_id=2)
    b.subscribes()
    b.permits(10)
    c.subscribes(topic=other)
    c.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn, t.topic, other)
    txns.publishes(a, txn, 0)
    txns.sends(a, txn, 1, producer_id=2)
    a.awaits(Kind.SEND_RECEIPT)
    txns.commits(a, txn)
    b.receives()
    c.receives()


# Positions ------------------------------------------------------------------------------------


def the_last_id_while_a_transaction_is_open(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    b.subscribes()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 1)
    b.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))
    txns.commits(a, txn)
    b.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def the_last_id_after_an_abort(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    b.subscribes()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 1)
    txns.aborts(a, txn)
    b.asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=1))


def a_subscription_from_the_latest_while_a_transaction_is_open(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 1)
    b.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    b.permits(10)
    txns.commits(a, txn)
    a.publishes(1, first=2)
    b.receives()
    b.receives_rest()


def seeking_into_an_open_transaction(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    b.subscribes()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    _, inside = txns.publishes(a, txn, 1, 2)
    b.asks(pb.CommandSeek(request_id=0, consumer_id=1, message_id=inside))
    b.awaits(Kind.CLOSE_CONSUMER)
    b.subscribes()
    b.permits(10)
    b.receives_rest()
    txns.commits(a, txn)
    b.receives()
    b.receives_rest()


# Ends -----------------------------------------------------------------------------------------


@differs(AGAIN)
def committing_twice(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.commits(a, txn)
    txns.commits(a, txn)


def aborting_what_was_committed(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.commits(a, txn)
    txns.aborts(a, txn)


@differs(AGAIN)
def aborting_nothing(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.aborts(a, txn)
    txns.aborts(a, txn)


def ending_what_nobody_began(t: Trace) -> None:
    a = t.connects()
    txns.commits(a, NOBODYS)
    txns.aborts(a, NOBODYS)
    txns.commits(a, OF_NO_COORDINATOR)


def committing_with_a_topic_that_is_not_there(t: Trace) -> None:
    a = t.connects()
    txn = txns.begins(a)
    txns.adds_topics(a, txn, f"{t.topic}-not-there")
    txns.commits(a, txn)


def committing_with_a_subscription_that_is_not_there(t: Trace) -> None:
    a = t.publisher(1)
    txn = txns.begins(a)
    txns.adds_subscription(a, txn, "not-there")
    txns.commits(a, txn)


# What a coordinator sends ----------------------------------------------------------------------


def ending_in_a_topic(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    b.subscribes()
    b.permits(10)
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0)
    a.asks(
        pb.CommandEndTxnOnPartition(
            request_id=0, **txn._asdict(), topic=t.topic, txn_action=pb.COMMIT
        )
    )
    b.receives()
    b.receives_rest()


def ending_in_a_topic_without_messages_of_it(t: Trace) -> None:
    a = t.publisher(1)
    a.asks(
        pb.CommandEndTxnOnPartition(
            request_id=0, **NOBODYS._asdict(), topic=t.topic, txn_action=pb.ABORT
        )
    )


def ending_in_a_topic_that_is_not_there(t: Trace) -> None:
    t.connects().asks(
        pb.CommandEndTxnOnPartition(
            request_id=0, **NOBODYS._asdict(), topic=t.topic, txn_action=pb.COMMIT
        )
    )


def ending_in_a_subscription_that_is_not_there(t: Trace) -> None:
    a = t.publisher(1)
    joined = pb.Subscription(topic=t.topic, subscription="not-there")
    a.asks(
        pb.CommandEndTxnOnSubscription(
            request_id=0, **NOBODYS._asdict(), subscription=joined, txn_action=pb.COMMIT
        )
    )
