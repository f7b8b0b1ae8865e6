"""Two reasons to refuse at once: which of them clients receive."""

import json
from typing import Any

from conformance.trace import KEY_SHARED, SHARED, Peer, Trace, producer
from magnetar_proto import PulsarApi_pb2 as pb

LARGE = 3000


def _sets(t: Trace, policy: str, value: Any) -> None:
    t.rest("POST", f"{t.path}/{policy}", value)


def _schema(kind: str) -> pb.Schema:
    fields = [{"name": "a", "type": kind}]
    written = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    return pb.Schema(name="s", type=pb.Schema.Avro, schema_data=written)


def _fills(t: Trace) -> Peer:
    """A producer, and a backlog above the quota."""
    _quota = {"limitSize": LARGE, "policy": "producer_request_hold"}
    t.rest("PUT", t.path)
    t.rest("PUT", f"{t.path}/subscription/sub")
    _sets(t, "backlogQuota", _quota)
    a = t.connects()
    a.produces(producer_name="me", schema=_schema("int"))
    for sequence_id in range(2):
        a.sends(sequence_id, b"x" * LARGE)
        a.awaits_outcome()
    return a


# Producers --------------------------------------------------------------------------------


def the_topic_is_full_and_has_its_producers(t: Trace) -> None:
    a = _fills(t)
    _sets(t, "maxProducers", 1)
    a.produces(producer_id=2)


def the_topic_is_full_and_the_name_is_taken(t: Trace) -> None:
    _fills(t)
    t.connects().produces(producer_name="me")


def the_topic_is_full_and_the_schema_does_not_fit(t: Trace) -> None:
    a = _fills(t)
    a.produces(producer_id=2, schema=_schema("string"))


def the_topic_has_ended_and_is_full(t: Trace) -> None:
    a = _fills(t)
    t.rest("POST", f"{t.path}/terminate")
    a.receives_rest()
    a.produces(producer_id=2)


def the_topic_has_ended_and_the_schema_does_not_fit(t: Trace) -> None:
    a = t.connects()
    a.produces(schema=_schema("int"))
    a.publishes()
    t.rest("POST", f"{t.path}/terminate")
    a.receives_rest()
    a.produces(producer_id=2, schema=_schema("string"))


def the_topic_has_its_producers_and_the_schema_does_not_fit(t: Trace) -> None:
    a = t.connects()
    a.produces(schema=_schema("int"))
    _sets(t, "maxProducers", 1)
    a.produces(producer_id=2, schema=_schema("string"))


def the_topic_has_its_producers_and_one_that_is_alone(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_access_mode=pb.Exclusive)
    _sets(t, "maxProducers", 1)
    a.produces(producer_id=2)
    a.produces(producer_id=3, producer_access_mode=pb.WaitForExclusive)


def the_topic_has_its_producers_and_one_takes_it_over(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="a")
    _sets(t, "maxProducers", 1)
    b.asks(producer(b.topic, producer_access_mode=pb.ExclusiveWithFencing, producer_name="b"))
    a.receives_rest()


# Consumers --------------------------------------------------------------------------------


def the_type_is_not_allowed_and_the_subscription_is_missing(t: Trace) -> None:
    t.rest("PUT", t.path)
    _sets(t, "subscriptionTypesEnabled", ["Shared"])
    _sets(t, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    t.connects().subscribes(KEY_SHARED)


def the_subscription_is_missing_and_the_topic_has_its_consumers(t: Trace) -> None:
    a = t.connects()
    a.subscribes(SHARED)
    _sets(t, "maxConsumers", 1)
    _sets(t, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    a.subscribes(SHARED, consumer_id=2, subscription="other")


def the_topic_has_its_subscriptions_and_its_consumers(t: Trace) -> None:
    a = t.connects()
    a.subscribes(SHARED)
    _sets(t, "maxConsumers", 1)
    _sets(t, "maxSubscriptionsPerTopic", 1)
    a.subscribes(SHARED, consumer_id=2, subscription="other")


def the_type_is_not_allowed_and_cannot_read_compacted(t: Trace) -> None:
    t.rest("PUT", t.path)
    _sets(t, "subscriptionTypesEnabled", ["Failover"])
    t.connects().subscribes(SHARED, read_compacted=True)


def the_schema_does_not_fit_and_the_topic_has_its_consumers(t: Trace) -> None:
    a = t.connects()
    a.produces(schema=_schema("int"))
    a.subscribes(SHARED)
    _sets(t, "maxConsumers", 1)
    a.subscribes(SHARED, consumer_id=2, schema=_schema("string"))


def the_subscription_is_another_type_and_has_its_consumers(t: Trace) -> None:
    a = t.connects()
    a.subscribes(SHARED)
    _sets(t, "maxConsumersPerSubscription", 1)
    a.subscribes(KEY_SHARED, consumer_id=2)


def one_subscribes_too_often_where_there_is_no_room(t: Trace) -> None:
    t.rest("PUT", t.path)
    _sets(t, "subscribeRate", {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 3600})
    _sets(t, "maxConsumers", 1)
    a = t.connects()
    a.subscribes(SHARED, consumer_name="me")
    a.subscribes(SHARED, consumer_name="me", consumer_id=2)


# What REST is written twice ------------------------------------------------------------------


def deleting_what_is_being_read_and_written(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    t.rest("DELETE", t.path)
    t.rest("DELETE", f"{t.path}/partitions")
    t.rest("DELETE", f"{t.path}/subscription/sub")


def a_partition_that_no_topic_has(t: Trace) -> None:
    a = t.connects()
    a.produces(f"{t.topic}-partition-0")
    a.subscribes(topic=f"{t.topic}-partition-1")
    a.asks_partitions(f"{t.topic}-partition-0")
    t.rest("GET", f"{t.path}/partitions?checkAllowAutoCreation=false")


def a_partition_behind_the_last_one(t: Trace) -> None:
    t.rest("PUT", f"{t.path}/partitions", 1)
    a = t.connects()
    a.subscribes(topic=f"{t.topic}-partition-1")
    a.subscribes(topic=f"{t.topic}-partition-01", consumer_id=2)
    a.subscribes(topic=f"{t.topic}-partition--1", consumer_id=3)
    a.asks_partitions(f"{t.topic}-partition-0")
    a.asks_partitions(f"{t.topic}-partition-1")
