"""Transactions over REST: their state, and what other requests do beside an open one."""

from conformance import transactions as txns
from conformance.differences import Difference, differs
from conformance.trace import SHARED, Kind, Peer, Trace
from conformance.transactions import NOBODYS, Txn

SETTINGS = txns.SETTINGS

FIELDS = Difference(
    "`transactionBufferStats`",
    "Pulsar's fields",
    "`hiddenEntries` as well: markers and entries of aborted transactions that are still stored",
)
NOT_FOUND = Difference(
    "`abortTransaction` and `pendingAckStats` of what is not there",
    "500",
    "404",
)
PEEKED = Difference(
    "a look over REST at messages of open or aborted transactions",
    "shows them",
    "404, as for messages that do not exist",
)
V3 = "/admin/v3/transactions"


def _open(t: Trace) -> tuple[Peer, Txn]:
    """A transaction with an acknowledgement, and two messages behind a plain one."""
    a = t.publisher(1)
    a.subscribes(SHARED)
    a.permits(10)
    ids = a.receives()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.adds_subscription(a, txn)
    txns.publishes(a, txn, 1, 2)
    txns.acks(a, txn, ids)
    return a, txn


def of_the_coordinators(t: Trace) -> None:
    t.web("GET", f"{V3}/coordinators", types=True)
    t.web("GET", f"{V3}/coordinatorStats?coordinatorId=0", types=True)
    t.web("GET", f"{V3}/coordinatorStats?coordinatorId=98")
    t.web("GET", f"{V3}/coordinatorInternalStats/98")


@differs(FIELDS)
def of_a_topic_and_a_subscription(t: Trace) -> None:
    _open(t)
    topic = t.path.removeprefix("persistent/")
    t.web("GET", f"{V3}/transactionBufferStats/{topic}", types=True)
    t.web("GET", f"{V3}/transactionBufferStats/{topic}?lowWaterMarks=true", types=True)
    t.web("GET", f"{V3}/pendingAckStats/{topic}/sub", types=True)


@differs(FIELDS)
def of_a_topic_without_transactions(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED)
    topic = t.path.removeprefix("persistent/")
    t.web("GET", f"{V3}/transactionBufferStats/{topic}", types=True)
    t.web("GET", f"{V3}/pendingAckStats/{topic}/sub", types=True)


@differs(NOT_FOUND)
def of_a_topic_and_a_subscription_that_are_not_there(t: Trace) -> None:
    t.publisher(1)
    topic = t.path.removeprefix("persistent/")
    t.web("GET", f"{V3}/pendingAckStats/{topic}/not-there")
    t.web("GET", f"{V3}/transactionBufferStats/{topic}-not-there")


@differs(NOT_FOUND)
def of_a_transaction_that_nobody_began(t: Trace) -> None:
    most, least = NOBODYS
    t.web("GET", f"{V3}/transactionMetadata/{most}/{least}")
    t.web("POST", f"{V3}/abortTransaction/{most}/{least}")
    t.web("GET", f"{V3}/transactionMetadata/98/1")
    t.web("POST", f"{V3}/abortTransaction/98/1")


def slow_transactions(t: Trace) -> None:
    t.web("GET", f"{V3}/slowTransactions/600000")
    t.web("GET", f"{V3}/slowTransactions/600000?coordinatorId=0")
    t.web("GET", f"{V3}/slowTransactions/600000?coordinatorId=98")


def clearing_a_backlog_beside_an_open_transaction(t: Trace) -> None:
    a, txn = _open(t)
    t.rest("POST", f"{t.path}/subscription/sub/skip_all")
    txns.commits(a, txn)
    a.publishes(1, first=3)
    a.receives_rest()


def skipping_messages_beside_an_open_transaction(t: Trace) -> None:
    a, txn = _open(t)
    t.rest("POST", f"{t.path}/subscription/sub/skip/2")
    txns.commits(a, txn)
    a.receives_rest()


@differs(PEEKED)
def peeking_at_an_open_transaction(t: Trace) -> None:
    _open(t)
    t.web("GET", f"{t.path}/subscription/sub/position/2")


def deleting_a_topic_with_an_open_transaction(t: Trace) -> None:
    a, txn = _open(t)
    t.rest("DELETE", f"{t.path}?force=true")
    a.awaits(Kind.CLOSE_CONSUMER)
    a.awaits(Kind.CLOSE_PRODUCER)
    txns.commits(a, txn)


def unloading_a_topic_with_an_open_transaction(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    txn = txns.begins(a)
    txns.adds_topics(a, txn)
    txns.publishes(a, txn, 0)
    t.rest("PUT", f"{t.path}/unload")
    a.awaits(Kind.CLOSE_PRODUCER)
    b.subscribes()
    b.permits(10)
    b.receives_rest()
    txns.commits(a, txn)
    b.receives()
