"""Statistics over REST: which fields there are, of which kind, and what they count."""

from conformance.differences import Difference, differs
from conformance.trace import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Trace
from magnetar_proto import PulsarApi_pb2 as pb

OLDEST = Difference(
    "age of the oldest message of a topic in its statistics",
    "known from the first check of backlog quotas on, -1 before",
    "known at once",
)
BATCHES = Difference(
    "backlogs in statistics",
    "`msgBacklog` and the fields beside it count entries: a batch is one",
    "they count messages",
)
RECORD = Difference(
    "`internal-info` of a topic that is not there, or not persistent",
    "500, with a page",
    "404 or 405, with a reason",
)
TYPE = "subscriptions/sub/type"
NUMBERS = ("msgInCounter", "msgOutCounter", "bytesInCounter", "bytesOutCounter", "storageSize")
BACKLOG = tuple(
    f"subscriptions/sub/{name}"
    for name in (
        "msgBacklog",
        "msgBacklogNoDelayed",
        "backlogSize",
        "unackedMessages",
        "msgInReplay",
    )
)
CONSUMER = tuple(
    f"subscriptions/sub/consumers/0/{name}"
    for name in (
        "availablePermits",
        "unackedMessages",
        "msgOutCounter",
        "bytesOutCounter",
        "avgMessagesPerEntry",
        "blockedConsumerOnUnackedMsgs",
        "consumerName",
    )
)


def _used(t: Trace) -> None:
    """A producer, and a subscription of each type, named by it."""
    a = t.connects()
    a.produces(producer_name="me")
    for number, sub_type in enumerate((EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED), 1):
        name = pb.CommandSubscribe.SubType.Name(sub_type)
        a.subscribes(sub_type, number, subscription=name, consumer_name="you")


# Fields -----------------------------------------------------------------------------------


def of_a_topic_that_is_used(t: Trace) -> None:
    _used(t)
    t.asks_kinds(f"{t.path}/stats")


@differs(OLDEST)
def of_a_topic_with_a_backlog(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    t.asks_kinds(f"{t.path}/stats?getEarliestTimeInBacklog=true")
    t.asks_fields(f"{t.path}/stats", "oldestBacklogMessageSubscriptionName")


def of_a_topic_that_is_not_used(t: Trace) -> None:
    t.rest("PUT", t.path)
    t.asks_kinds(f"{t.path}/stats")


def without_producers_and_consumers(t: Trace) -> None:
    _used(t)
    t.asks_kinds(f"{t.path}/stats?excludePublishers=true&excludeConsumers=true")


def of_a_topic_that_is_not_persistent(t: Trace) -> None:
    a, topic = t.connects(), t.topic.replace("persistent", "non-persistent", 1)
    a.produces(topic)
    a.subscribes(SHARED, topic=topic)
    path = t.path.replace("persistent", "non-persistent", 1)
    t.asks_kinds(f"{path}/stats")
    t.asks_kinds(f"{path}/internalStats")


def of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    for partition in range(2):
        topic = f"{t.topic}-partition-{partition}"
        a.produces(topic, partition + 1)
        a.subscribes(SHARED, partition + 1, topic=topic, consumer_name="you")
    t.asks_kinds(f"{t.path}/partitioned-stats")
    t.asks_kinds(f"{t.path}/partitioned-stats?perPartition=false")


def of_what_partitions_store(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    for partition in range(2):
        topic = f"{t.topic}-partition-{partition}"
        a.produces(topic, partition + 1)
        a.publishes(producer_id=partition + 1)
        a.subscribes(SHARED, partition + 1, topic=topic)
    t.asks_kinds(f"{t.path}/partitioned-internalStats")
    t.asks_kinds(f"{t.path}/internal-info")


def of_what_a_topic_stores(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(SHARED)
    t.asks_kinds(f"{t.path}/internalStats")
    t.asks_kinds(f"{t.path}/internal-info")
    t.asks_fields(
        f"{t.path}/internalStats", "entriesAddedCounter", "numberOfEntries", "totalSize",
        "currentLedgerEntries", "state", "ledgers/0/entries", "cursors/sub/active",
        "cursors/sub/individuallyDeletedMessages", "compactedLedger",
    )  # fmt: skip


# Figures -----------------------------------------------------------------------------------


def after_some_messages(t: Trace) -> None:
    a = t.publisher(3)
    a.subscribes(SHARED, consumer_name="you")
    a.permits(2)
    first, _ = a.receives(2)
    t.asks_fields(f"{t.path}/stats", TYPE, *NUMBERS, *BACKLOG, *CONSUMER)
    a.acks([first])
    t.asks_fields(f"{t.path}/stats", *BACKLOG, *CONSUMER)


@differs(BATCHES)
def after_a_batch(t: Trace) -> None:
    a = t.connects()
    a.produces()
    a.publishes_batch(5, b"five")
    a.subscribes(SHARED, consumer_name="you")
    a.permits(10)
    a.receives()
    t.asks_fields(f"{t.path}/stats?getPreciseBacklog=true", *NUMBERS, *BACKLOG, *CONSUMER)


def of_types(t: Trace) -> None:
    t.rest("PUT", f"{t.path}/subscription/sub", "latest")
    t.asks_fields(f"{t.path}/stats", TYPE)
    a = t.connects()
    for sub_type in (KEY_SHARED, FAILOVER):
        a.subscribes(sub_type)
        t.asks_fields(f"{t.path}/stats", TYPE, "subscriptions/sub/keySharedMode")
        a.closes_consumer()
    t.asks_fields(f"{t.path}/stats", TYPE)


def with_switches(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    sizes = ("backlogSize", "subscriptions/sub/backlogSize")
    earliest = ("subscriptions/sub/earliestMsgPublishTimeInBacklog",)
    t.asks_fields(f"{t.path}/stats?subscriptionBacklogSize=false", *sizes, *earliest)
    t.asks_fields(f"{t.path}/stats?getEarliestTimeInBacklog=true", *earliest)
    a.permits(1)
    a.acks(a.receives())
    t.asks_fields(f"{t.path}/stats?getEarliestTimeInBacklog=true", *earliest)


# Refusals ----------------------------------------------------------------------------------


def of_topics_that_are_not_there(t: Trace) -> None:
    for what in ("stats", "internalStats", "partitioned-stats", "partitioned-internalStats"):
        t.rest("GET", f"{t.path}/{what}")
    t.rest("PUT", t.path)
    t.rest("GET", f"{t.path}/partitioned-stats")
    t.rest("GET", f"{t.path}/partitioned-internalStats")


def of_the_parent_of_partitions(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("GET", f"{t.path}/stats")
    t.rest("GET", f"{t.path}/internalStats")


@differs(RECORD)
def of_records_that_are_not_there(t: Trace) -> None:
    t.rest("GET", f"{t.path}/internal-info")
    t.rest("GET", f"{t.path.replace('persistent', 'non-persistent', 1)}/internal-info")
