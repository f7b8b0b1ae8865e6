"""PARTITIONED_METADATA, LOOKUP and GET_TOPICS_OF_NAMESPACE."""

from conformance.differences import Difference, differs
from conformance.trace import NAMESPACE, Trace
from magnetar_proto import PulsarApi_pb2 as pb

NO_NAMESPACE = Difference(
    "GET_TOPICS_OF_NAMESPACE or WATCH_TOPIC_LIST with an invalid namespace",
    "the connection is closed",
    "ERROR InvalidTopicName",
)
Topics = pb.CommandGetTopicsOfNamespace
BAD_NAMES = ["", "a/b", "a/b/c/d", "ftp://a/b/c", "persistent://a/b", "persistent://a/b/"]


def a_lookup(t: Trace) -> None:
    t.connects().looks_up(t.topic)


def a_lookup_by_the_short_name(t: Trace) -> None:
    t.connects().looks_up(t.token)


def a_lookup_that_is_authoritative(t: Trace) -> None:
    t.connects().looks_up(t.topic, authoritative=True)


def a_lookup_of_a_non_persistent_topic(t: Trace) -> None:
    t.connects().looks_up(f"non-persistent://{NAMESPACE}/{t.token}")


def a_lookup_of_a_partition_that_is_not_there(t: Trace) -> None:
    t.connects().looks_up(f"{t.topic}-partition-7")


def a_lookup_at_a_listener_that_is_not_there(t: Trace) -> None:
    t.connects().looks_up(t.topic, advertised_listener_name="elsewhere")


def lookups_of_what_is_no_name(t: Trace) -> None:
    a = t.connects()
    for name in BAD_NAMES:
        a.looks_up(name)


def a_lookup_in_a_namespace_that_is_not_there(t: Trace) -> None:
    t.connects().looks_up(f"persistent://public/{t.token}/topic")


def a_lookup_of_a_tenant_that_is_not_there(t: Trace) -> None:
    t.connects().looks_up(f"persistent://{t.token}/default/topic")


def partitions_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.connects().asks_partitions(t.topic)


def asking_for_partitions_creates_nothing(t: Trace) -> None:
    a = t.connects()
    a.asks_partitions(t.topic)
    a.asks_partitions(t.topic, metadata_auto_creation_enabled=False)


def partitions_of_a_topic_without_any(t: Trace) -> None:
    a = t.connects()
    a.produces()
    a.asks_partitions(t.topic, metadata_auto_creation_enabled=False)


def partitions_of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(3)
    a = t.connects()
    a.asks_partitions(t.topic)
    a.asks_partitions(t.topic, metadata_auto_creation_enabled=False)


def partitions_of_a_partition(t: Trace) -> None:
    t.has_partitions(3)
    a = t.connects()
    a.asks_partitions(f"{t.topic}-partition-0")
    a.asks_partitions(f"{t.topic}-partition-0", metadata_auto_creation_enabled=False)
    a.asks_partitions(f"{t.topic}-partition-3", metadata_auto_creation_enabled=False)


def partitions_of_a_non_persistent_topic(t: Trace) -> None:
    a = t.connects()
    a.asks_partitions(f"non-persistent://{NAMESPACE}/{t.token}")


def partitions_of_what_is_no_name(t: Trace) -> None:
    a = t.connects()
    for name in BAD_NAMES:
        a.asks_partitions(name)


def partitions_in_a_namespace_that_is_not_there(t: Trace) -> None:
    t.connects().asks_partitions(f"persistent://public/{t.token}/topic")


def producers_of_partitions(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    a.produces(f"{t.topic}-partition-0")
    a.publishes()
    a.produces(f"{t.topic}-partition-1", producer_id=2)
    a.publishes(producer_id=2)


def a_partition_beyond_the_last(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    a.produces(f"{t.topic}-partition-2")
    a.subscribes(topic=f"{t.topic}-partition-2")


def a_partitioned_topic_as_if_it_had_no_partitions(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    a.produces()
    a.subscribes()


def a_partition_of_a_topic_without_any(t: Trace) -> None:
    a = t.connects()
    a.produces(f"{t.topic}-partition-0")
    a.subscribes(topic=f"{t.topic}-partition-0")


def a_namespace_without_topics(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    for mode in (Topics.PERSISTENT, Topics.NON_PERSISTENT, Topics.ALL):
        a.asks(Topics(request_id=0, namespace=namespace, mode=mode))


def topics_of_a_namespace(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/b", producer_id=1)
    a.produces(f"persistent://{namespace}/a", producer_id=2)
    a.produces(f"non-persistent://{namespace}/c", producer_id=3)
    for mode in (Topics.PERSISTENT, Topics.NON_PERSISTENT, Topics.ALL):
        a.asks(Topics(request_id=0, namespace=namespace, mode=mode))


def topics_that_the_client_knows_already(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/a")
    known = a.asks(Topics(request_id=0, namespace=namespace))
    a.asks(Topics(request_id=0, namespace=namespace, topics_hash=known.topics_hash))
    a.produces(f"persistent://{namespace}/b", producer_id=2)
    a.asks(Topics(request_id=0, namespace=namespace, topics_hash=known.topics_hash))


def topics_of_a_pattern(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=".*/a.*"))


def topics_of_a_long_pattern(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=f"{namespace}/nothing-of-that"))


def topics_of_a_namespace_that_is_not_there(t: Trace) -> None:
    t.connects().asks(Topics(request_id=0, namespace=f"public/{t.token}"))


@differs(NO_NAMESPACE)
def topics_of_what_is_no_namespace(t: Trace) -> None:
    t.connects().asks(Topics(request_id=0, namespace="nonsense"))
