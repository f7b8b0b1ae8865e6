"""What clients see of limits that policies set: on producers, consumers, subscriptions, sizes."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.trace import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Kind, Trace
from magnetar_proto.entries import encode_entry
from raw_client import metadata


def _has_policy(t: Trace, policy: str, value: Any) -> None:
    """Sets a policy of the topic, which is created first."""
    t.rest("PUT", t.path)
    t.rest("POST", f"{t.path}/{policy}", value)


def _in_namespace(t: Trace, policy: str, value: Any) -> str:
    """Sets a policy of a namespace; a topic in it."""
    namespace = f"public/{t.token}"
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    t.rest("POST", f"namespaces/{namespace}/{policy}", value)
    t.rest("PUT", f"persistent/{namespace}/topic")
    return f"persistent://{namespace}/topic"


# Producers and consumers ------------------------------------------------------------------


def producers_of_a_topic(t: Trace) -> None:
    _has_policy(t, "maxProducers", 2)
    a = t.connects()
    for number in (1, 2, 3):
        a.produces(producer_id=number)
    a.closes_producer(1)
    a.produces(producer_id=3)


def producers_where_the_namespace_limits_them(t: Trace) -> None:
    topic = _in_namespace(t, "maxProducersPerTopic", 1)
    a = t.connects()
    a.produces(topic, producer_id=1)
    a.produces(topic, producer_id=2)
    t.rest("POST", f"persistent/public/{t.token}/topic/maxProducers", 2)
    a.produces(topic, producer_id=2)
    a.produces(topic, producer_id=3)
    t.rest("DELETE", f"persistent/public/{t.token}/topic/maxProducers")
    a.closes_producer(2)
    a.produces(topic, producer_id=2)


def a_limit_below_the_producers_there_are(t: Trace) -> None:
    a = t.connects()
    for number in (1, 2):
        a.produces(producer_id=number)
    t.rest("POST", f"{t.path}/maxProducers", 1)
    a.publishes()
    a.publishes(producer_id=2)
    a.produces(producer_id=3)


def a_topic_without_limit_under_a_limited_namespace(t: Trace) -> None:
    topic = _in_namespace(t, "maxProducersPerTopic", 1)
    t.rest("POST", f"persistent/public/{t.token}/topic/maxProducers", 0)
    a = t.connects()
    a.produces(topic, producer_id=1)
    a.produces(topic, producer_id=2)


def consumers_of_a_topic(t: Trace) -> None:
    _has_policy(t, "maxConsumers", 2)
    a = t.connects()
    a.subscribes(SHARED)
    a.subscribes(SHARED, consumer_id=2, subscription="other")
    a.subscribes(SHARED, consumer_id=3)
    a.closes_consumer(2)
    a.subscribes(SHARED, consumer_id=3)


def consumers_of_a_subscription(t: Trace) -> None:
    _has_policy(t, "maxConsumersPerSubscription", 1)
    a = t.connects()
    a.subscribes(SHARED)
    a.subscribes(SHARED, consumer_id=2)
    a.subscribes(SHARED, consumer_id=3, subscription="other")


def consumers_that_stand_by_count(t: Trace) -> None:
    _has_policy(t, "maxConsumersPerSubscription", 2)
    for priority, name in enumerate(("a", "b", "c")):
        t.connects().subscribes(FAILOVER, consumer_name=name, priority_level=priority)


def consumers_of_key_shared_ones_count(t: Trace) -> None:
    _has_policy(t, "maxConsumersPerSubscription", 1)
    for name in ("a", "b"):
        t.connects().subscribes(KEY_SHARED, consumer_name=name)


def consumers_where_the_namespace_limits_them(t: Trace) -> None:
    topic = _in_namespace(t, "maxConsumersPerTopic", 1)
    a = t.connects()
    a.subscribes(SHARED, topic=topic)
    a.subscribes(SHARED, topic=topic, consumer_id=2)


def readers_count_as_consumers(t: Trace) -> None:
    _has_policy(t, "maxConsumers", 1)
    a = t.connects()
    a.subscribes(durable=False, subscription="one")
    a.subscribes(durable=False, subscription="two", consumer_id=2)


# Subscriptions ----------------------------------------------------------------------------


def subscriptions_of_a_topic(t: Trace) -> None:
    _has_policy(t, "maxSubscriptionsPerTopic", 1)
    a = t.connects()
    a.subscribes()
    a.subscribes(consumer_id=2, subscription="other")
    t.rest("PUT", f"{t.path}/subscription/other")
    a.closes_consumer()
    a.subscribes()
    t.rest("DELETE", f"{t.path}/subscription/sub?force=true")
    a.awaits(Kind.CLOSE_CONSUMER)
    a.subscribes(consumer_id=2, subscription="other")


def subscriptions_where_the_namespace_limits_them(t: Trace) -> None:
    topic = _in_namespace(t, "maxSubscriptionsPerTopic", 1)
    a = t.connects()
    a.subscribes(topic=topic)
    a.subscribes(topic=topic, consumer_id=2, subscription="other")


def subscriptions_that_clients_may_not_create(t: Trace) -> None:
    _has_policy(t, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    a = t.connects()
    a.subscribes()
    t.rest("PUT", f"{t.path}/subscription/sub")
    a.subscribes()
    a.subscribes(durable=False, consumer_id=2, subscription="reader")


def subscriptions_that_a_namespace_does_not_let_be_created(t: Trace) -> None:
    policy = {"allowAutoSubscriptionCreation": False}
    topic = _in_namespace(t, "autoSubscriptionCreation", policy)
    a = t.connects()
    a.subscribes(topic=topic)
    t.rest(
        "POST",
        f"persistent/public/{t.token}/topic/autoSubscriptionCreation",
        {"allowAutoSubscriptionCreation": True},
    )
    a.subscribes(topic=topic)


def types_of_subscriptions(t: Trace) -> None:
    _has_policy(t, "subscriptionTypesEnabled", ["Shared", "Failover"])
    a = t.connects()
    for number, sub_type in enumerate((EXCLUSIVE, KEY_SHARED, SHARED)):
        a.subscribes(sub_type, consumer_id=number, subscription=f"sub-{number}")
    t.rest("DELETE", f"{t.path}/subscriptionTypesEnabled")
    a.subscribes(consumer_id=5, subscription="sub-5")


def types_of_subscriptions_in_a_namespace(t: Trace) -> None:
    topic = _in_namespace(t, "subscriptionTypesEnabled", ["Key_Shared"])
    a = t.connects()
    a.subscribes(SHARED, topic=topic)
    a.subscribes(KEY_SHARED, topic=topic)


def a_type_that_is_no_longer_allowed(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes(SHARED)
    t.rest("POST", f"{t.path}/subscriptionTypesEnabled", ["Failover"])
    a.permits(1)
    a.receives()
    a.subscribes(SHARED, consumer_id=2)


def a_type_that_readers_need(t: Trace) -> None:
    _has_policy(t, "subscriptionTypesEnabled", ["Shared"])
    t.connects().subscribes(durable=False, subscription="reader")


# Rates of subscribing -----------------------------------------------------------------------


def one_that_subscribes_too_often(t: Trace) -> None:
    _has_policy(
        t,
        "subscribeRate",
        {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 3600},
    )
    a = t.connects()
    for _ in range(3):
        a.subscribes(consumer_name="me")
        a.closes_consumer()


# Sizes and what is unacknowledged -----------------------------------------------------------


def messages_that_are_too_large(t: Trace) -> None:
    _has_policy(t, "maxMessageSize", 1000)
    a = t.connects()
    a.produces()
    a.sends(0, b"x" * 2000)
    a.awaits_outcome()
    a.receives_rest()
    a.publishes(1, first=1)


def batches_that_are_too_large(t: Trace) -> None:
    _has_policy(t, "maxMessageSize", 1000)
    a = t.connects()
    a.produces()
    entry = encode_entry(metadata(0, num_messages_in_batch=4), b"x" * 2000)
    a.sends_entry(0, entry, num_messages=4)
    a.awaits_outcome()


def chunks_may_be_larger(t: Trace) -> None:
    _has_policy(t, "maxMessageSize", 1000)
    a = t.connects()
    a.produces()
    chunk = metadata(0, uuid="u", num_chunks_from_msg=1, total_chunk_msg_size=2000, chunk_id=0)
    a.sends_entry(0, encode_entry(chunk, b"x" * 2000), is_chunk=True)
    a.awaits_outcome()


def unacknowledged_messages_of_a_consumer(t: Trace) -> None:
    a, b = t.publisher(6), t.connects()
    t.rest("POST", f"{t.path}/maxUnackedMessagesOnConsumer", 2)
    b.subscribes(SHARED)
    for _ in range(6):
        b.permits(1)
    b.receives_rest()
    a.closes_producer()


def unacknowledged_messages_of_a_subscription(t: Trace) -> None:
    a, b, c = t.publisher(6), t.connects(), t.connects()
    t.rest("POST", f"{t.path}/maxUnackedMessagesOnSubscription", 2)
    b.subscribes(SHARED)
    c.subscribes(SHARED)
    b.permits(1)
    ids = b.receives()
    c.permits(1)
    ids += c.receives()
    b.permits(1)
    c.permits(1)
    b.receives_rest()
    c.receives_rest()
    a.closes_producer()


@differs(
    Difference(
        "raising a limit of unacknowledged messages",
        "a blocked consumer stays blocked until it acknowledges something",
        "takes effect at once",
    )
)
def a_limit_that_is_lifted_lets_messages_flow(t: Trace) -> None:
    a, b = t.publisher(4), t.connects()
    t.rest("POST", f"{t.path}/maxUnackedMessagesOnConsumer", 1)
    b.subscribes(SHARED)
    b.permits(1)
    ids = b.receives()
    b.permits(1)
    b.receives_rest()
    b.acks(ids)
    b.receives()
    t.rest("DELETE", f"{t.path}/maxUnackedMessagesOnConsumer")
    b.permits(2)
    b.receives_rest()
    a.closes_producer()


# Of non-persistent topics -------------------------------------------------------------------


def limits_of_a_non_persistent_topic(t: Trace) -> None:
    namespace = f"public/{t.token}"
    topic = f"non-persistent://{namespace}/topic"
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    t.rest("POST", f"namespaces/{namespace}/maxProducersPerTopic", 1)
    t.rest("POST", f"namespaces/{namespace}/maxConsumersPerTopic", 1)
    a = t.connects()
    a.looks_up(topic)
    a.produces(topic, producer_id=1)
    a.produces(topic, producer_id=2)
    a.subscribes(SHARED, topic=topic)
    a.subscribes(SHARED, topic=topic, consumer_id=2)


@differs(
    Difference(
        "subscription types that a namespace allows, on non-persistent topics",
        "all are allowed",
        "only those are allowed",
    )
)
def types_of_subscriptions_of_a_non_persistent_topic(t: Trace) -> None:
    namespace = f"public/{t.token}"
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    t.rest("POST", f"namespaces/{namespace}/subscriptionTypesEnabled", ["Shared"])
    a = t.connects()
    a.looks_up(f"non-persistent://{namespace}/topic")
    a.subscribes(topic=f"non-persistent://{namespace}/topic")
    a.subscribes(SHARED, topic=f"non-persistent://{namespace}/topic", consumer_id=2)


# Encryption ---------------------------------------------------------------------------------


def encryption_that_is_required_of_one_that_is_connected(t: Trace) -> None:
    namespace = f"public/{t.token}"
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    a = t.connects()
    a.produces(f"persistent://{namespace}/topic")
    a.publishes()
    t.rest("POST", f"namespaces/{namespace}/encryptionRequired", True)
    a.sends(1)
    a.receives_rest()
    a.produces(f"persistent://{namespace}/topic", producer_id=2)
