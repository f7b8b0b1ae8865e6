"""Topics and partitions over REST, and what clients see of it."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.rest_differences import REFUSED
from conformance.trace import Kind, Trace
from magnetar_proto import PulsarApi_pb2 as pb

METADATA = "application/vnd.partitioned-topic-metadata+json"


def _path(t: Trace, domain: str = "persistent") -> str:
    return f"{domain}/public/default/{t.token}"


# One topic --------------------------------------------------------------------------------


def a_topic_comes_and_goes(t: Trace) -> None:
    t.rest("PUT", _path(t))
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("PUT", _path(t))
    t.rest("DELETE", _path(t))
    t.rest("DELETE", _path(t))
    t.rest("GET", f"{_path(t)}/partitions?checkAllowAutoCreation=false")


def a_topic_of_a_namespace_that_is_not_there(t: Trace) -> None:
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    t.rest("PUT", f"persistent/{t.token}/ns/topic")
    t.rest("DELETE", f"persistent/public/{t.token}/topic")


def a_topic_with_properties(t: Trace) -> None:
    t.rest("PUT", _path(t), {"colour": "green", "size": "small"})
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("PUT", f"{_path(t)}/properties", {"size": "large", "shape": "round"})
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("DELETE", f"{_path(t)}/properties?key=size")
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("DELETE", f"{_path(t)}/properties?key=nothing")
    t.rest("GET", f"{_path(t)}/properties")


def a_topic_without_properties(t: Trace) -> None:
    t.rest("PUT", _path(t))
    t.rest("GET", f"{_path(t)}/properties")


@differs(REFUSED)
def properties_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("PUT", f"{_path(t)}/properties", {"a": "b"})
    t.rest("DELETE", f"{_path(t)}/properties?key=a")


def properties_of_a_partitioned_topic(t: Trace) -> None:
    body = {"partitions": 2, "properties": {"colour": "green"}}
    t.rest("PUT", f"{_path(t)}/partitions", body, media=METADATA)
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("PUT", f"{_path(t)}/properties", {"size": "large"})
    t.rest("GET", f"{_path(t)}/properties")
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("DELETE", f"{_path(t)}/properties?key=colour")
    t.rest("GET", f"{_path(t)}/properties")


def names_with_slashes(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}%2Fx")
    t.rest("PUT", f"{_path(t)}%2Fx/partitions", 2)
    t.rest("GET", f"{_path(t)}%2Fx/partitions")


def a_topic_that_a_producer_has(t: Trace) -> None:
    a = t.publisher(1)
    t.rest("DELETE", _path(t))
    a.publishes(1, first=1)
    t.rest("DELETE", f"{_path(t)}?force=true")
    a.receives_rest()
    t.rest("GET", f"{_path(t)}/subscriptions")


def a_topic_that_a_consumer_has(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    b.subscribes()
    a.closes_producer()
    t.rest("DELETE", _path(t))
    b.permits(1)
    b.receives()
    t.rest("DELETE", f"{_path(t)}?force=true")
    b.receives_rest()


def a_topic_that_has_only_a_subscription(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    a.closes_consumer()
    a.closes_producer()
    t.rest("DELETE", _path(t))
    t.rest("DELETE", _path(t))


def a_deleted_topic_comes_anew_with_its_producer(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    t.rest("DELETE", f"{_path(t)}?force=true")
    a.awaits(Kind.CLOSE_PRODUCER)
    a.awaits(Kind.CLOSE_CONSUMER)
    a.produces()
    a.publishes(1, first=2)
    t.rest("GET", f"{_path(t)}/subscriptions")
    a.subscribes()
    a.permits(5)
    a.receives()


def a_deleted_topic_forgets_who_subscribed(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", f"{_path(t)}/subscription/sub")
    a.closes_producer()
    t.rest("DELETE", f"{_path(t)}?force=true")
    t.rest("PUT", _path(t))
    t.rest("GET", f"{_path(t)}/subscriptions")


def a_send_to_a_topic_that_was_deleted(t: Trace) -> None:
    a = t.publisher(1)
    t.rest("DELETE", f"{_path(t)}?force=true")
    a.receives_rest()
    a.sends(1)
    a.receives_rest()


def a_non_persistent_topic(t: Trace) -> None:
    path = _path(t, "non-persistent")
    t.rest("PUT", path)
    t.rest("GET", f"{path}/partitions")
    t.rest("DELETE", path)
    t.rest("DELETE", path)


def a_non_persistent_topic_that_has_clients(t: Trace) -> None:
    topic = f"non-persistent://public/default/{t.token}"
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    t.rest("DELETE", _path(t, "non-persistent"))
    t.rest("DELETE", f"{_path(t, 'non-persistent')}?force=true")
    a.receives_rest()
    b.receives_rest()


# Partitions -------------------------------------------------------------------------------


def partitions_come_and_go(t: Trace) -> None:
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("PUT", f"{_path(t)}/partitions", 3)
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("PUT", f"{_path(t)}/partitions", 3)
    t.rest("DELETE", f"{_path(t)}/partitions")
    t.rest("DELETE", f"{_path(t)}/partitions")
    t.rest("GET", f"{_path(t)}/partitions?checkAllowAutoCreation=false")


def counts_that_are_none(t: Trace) -> None:
    counts: tuple[Any, ...] = (0, -1, "many", [2], {})
    for count in counts:
        t.rest("PUT", f"{_path(t)}/partitions", count)
    t.rest("PUT", f"{_path(t)}/partitions")


def a_count_in_quotes(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", "2")
    t.rest("GET", f"{_path(t)}/partitions")


def partitions_of_a_topic_that_is_there(t: Trace) -> None:
    t.rest("PUT", _path(t))
    t.rest("PUT", f"{_path(t)}/partitions", 2)


def a_topic_of_the_name_of_a_partitioned_one(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    t.rest("PUT", _path(t))
    t.rest("DELETE", _path(t))


@differs(
    Difference(
        "deleting a single partition",
        "it does not exist until it is created again",
        "it exists and is empty, since the partitioned topic has it",
    )
)
def a_partition_of_its_own(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    t.rest("DELETE", f"{_path(t)}-partition-0")
    t.rest("PUT", f"{_path(t)}-partition-0")
    t.rest("PUT", f"{_path(t)}-partition-7")
    t.rest("GET", f"{_path(t)}-partition-0/partitions")


def a_partition_of_nothing(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}-partition-0")
    t.rest("PUT", f"{_path(t)}-partition-x")
    t.rest("PUT", f"{_path(t)}-partition-0/partitions", 2)


def partitions_grow(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    t.rest("POST", f"{_path(t)}/partitions", 4)
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("POST", f"{_path(t)}/partitions", 4)
    t.rest("POST", f"{_path(t)}/partitions", 3)
    t.rest("POST", f"{_path(t)}/partitions", 0)
    t.rest("POST", f"{_path(t)}/partitions", -1)
    t.rest("GET", f"{_path(t)}/partitions")
    t.rest("POST", f"{_path(t)}/createMissedPartitions")


def growth_of_what_has_none(t: Trace) -> None:
    t.rest("POST", f"{_path(t)}/partitions", 4)
    t.rest("PUT", _path(t))
    t.rest("POST", f"{_path(t)}/partitions", 4)


def new_partitions_have_the_subscriptions_of_the_old_ones(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 1)
    a = t.connects()
    a.subscribes(topic=f"{t.topic}-partition-0", subscription="one")
    t.rest("PUT", f"{_path(t)}/subscription/two")
    t.rest("POST", f"{_path(t)}/partitions", 2)
    t.rest("GET", f"{_path(t)}-partition-1/subscriptions")


def a_connected_client_asks_after_growth(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 1)
    a = t.connects()
    a.produces(f"{t.topic}-partition-0")
    t.rest("POST", f"{_path(t)}/partitions", 2)
    a.receives_rest()
    a.asks_partitions(t.topic)
    a.produces(f"{t.topic}-partition-1", producer_id=2)
    a.produces(f"{t.topic}-partition-2", producer_id=3)


def producers_and_consumers_of_the_parent(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    a = t.connects()
    a.produces()
    a.subscribes()


def a_partitioned_topic_that_has_clients(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    a = t.connects()
    a.produces(f"{t.topic}-partition-0")
    t.rest("DELETE", f"{_path(t)}/partitions")
    a.publishes()
    t.rest("DELETE", f"{_path(t)}/partitions?force=true")
    a.receives_rest()
    a.asks_partitions(t.topic, metadata_auto_creation_enabled=False)


def a_topic_is_no_partitioned_one(t: Trace) -> None:
    t.rest("PUT", _path(t))
    t.rest("DELETE", f"{_path(t)}/partitions")


def partitions_of_a_non_persistent_topic(t: Trace) -> None:
    path = _path(t, "non-persistent")
    t.rest("PUT", f"{path}/partitions", 2)
    t.rest("GET", f"{path}/partitions")
    t.rest("POST", f"{path}/partitions", 3)
    t.rest("GET", f"{path}/partitions")
    t.rest("DELETE", f"{path}/partitions")


# Creation by clients ------------------------------------------------------------------------


def _namespace(t: Trace, **policy: object) -> str:
    t.rest("PUT", f"namespaces/public/{t.token}", {"bundles": {"numBundles": 1}})
    t.rest("POST", f"namespaces/public/{t.token}/autoTopicCreation", policy)
    return f"persistent://public/{t.token}"


def topics_that_clients_may_not_create(t: Trace) -> None:
    topic = f"{_namespace(t, allowAutoTopicCreation=False)}/topic"
    a = t.connects()
    a.asks_partitions(topic)
    a.looks_up(topic)
    a.produces(topic)
    a.subscribes(topic=topic)
    t.rest("GET", f"persistent/public/{t.token}/topic/partitions?checkAllowAutoCreation=true")
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    a.produces(topic)


def topics_that_clients_create_with_partitions(t: Trace) -> None:
    policy = {"topicType": "partitioned", "defaultNumPartitions": 3}
    namespace = _namespace(t, allowAutoTopicCreation=True, **policy)
    a = t.connects()
    a.asks_partitions(f"{namespace}/topic", metadata_auto_creation_enabled=False)
    a.asks_partitions(f"{namespace}/topic")
    a.produces(f"{namespace}/topic-partition-2")
    t.rest("GET", f"persistent/public/{t.token}/topic/partitions")
    t.rest("GET", f"persistent/public/{t.token}/other/partitions?checkAllowAutoCreation=true")
    t.rest("GET", f"persistent/public/{t.token}/partitioned")


def dead_letters_are_never_partitioned_by_themselves(t: Trace) -> None:
    policy = {"topicType": "partitioned", "defaultNumPartitions": 3}
    namespace = _namespace(t, allowAutoTopicCreation=True, **policy)
    a = t.connects()
    for end in ("sub-DLQ", "sub-RETRY"):
        a.asks_partitions(f"{namespace}/topic-{end}")


def a_producer_of_a_parent_that_is_created_by_it(t: Trace) -> None:
    policy = {"topicType": "partitioned", "defaultNumPartitions": 3}
    namespace = _namespace(t, allowAutoTopicCreation=True, **policy)
    t.connects().produces(f"{namespace}/topic")


def a_topic_deleted_where_clients_may_not_create(t: Trace) -> None:
    topic = f"{_namespace(t, allowAutoTopicCreation=False)}/topic"
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    a = t.connects()
    a.produces(topic)
    a.subscribes(topic=topic)
    t.rest("DELETE", f"persistent/public/{t.token}/topic?force=true")
    a.awaits(Kind.CLOSE_PRODUCER)
    a.awaits(Kind.CLOSE_CONSUMER)
    a.produces(topic)
    a.subscribes(topic=topic)
    a.looks_up(topic)


def a_partitioned_topic_deleted_where_clients_may_not_create(t: Trace) -> None:
    topic = f"{_namespace(t, allowAutoTopicCreation=False)}/topic"
    t.rest("PUT", f"persistent/public/{t.token}/topic/partitions", 2)
    a = t.connects()
    a.produces(f"{topic}-partition-0")
    a.subscribes(topic=f"{topic}-partition-0")
    t.rest("DELETE", f"persistent/public/{t.token}/topic/partitions?force=true")
    a.awaits(Kind.CLOSE_PRODUCER)
    a.awaits(Kind.CLOSE_CONSUMER)
    a.produces(f"{topic}-partition-0")
    a.subscribes(topic=f"{topic}-partition-0")
    a.looks_up(f"{topic}-partition-0")


# Unloading ------------------------------------------------------------------------------------


def a_topic_is_unloaded(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    b.subscribes()
    b.permits(2)
    b.acks(b.receives(2)[:1])
    t.rest("PUT", f"{_path(t)}/unload")
    a.receives_rest()
    b.receives_rest()
    a.produces()
    a.publishes(1, first=3)
    b.subscribes()
    b.permits(5)
    b.receives(3)


def a_topic_is_unloaded_that_is_not_there(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/unload")


def a_partitioned_topic_is_unloaded(t: Trace) -> None:
    t.rest("PUT", f"{_path(t)}/partitions", 2)
    a, b = t.connects(), t.connects()
    a.produces(f"{t.topic}-partition-0")
    b.produces(f"{t.topic}-partition-1")
    t.rest("PUT", f"{_path(t)}/unload")
    a.awaits(Kind.CLOSE_PRODUCER)
    b.awaits(Kind.CLOSE_PRODUCER)


def a_non_persistent_topic_is_unloaded(t: Trace) -> None:
    topic = f"non-persistent://public/default/{t.token}"
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    t.rest("PUT", f"{_path(t, 'non-persistent')}/unload")
    a.receives_rest()
    b.receives_rest()


def commands_to_what_was_unloaded(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    t.rest("PUT", f"{_path(t)}/unload")
    a.awaits(Kind.CLOSE_PRODUCER)
    a.awaits(Kind.CLOSE_CONSUMER)
    a.sends(1)
    a.permits(1)
    a.asks(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))
    a.receives_rest()
