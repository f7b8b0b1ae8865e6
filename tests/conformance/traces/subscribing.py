"""SUBSCRIBE, CLOSE_CONSUMER and UNSUBSCRIBE: who may join, who receives, who has to go."""

from conformance.differences import differs
from conformance.trace import EXCLUSIVE, FAILOVER, NAMESPACE, SHARED, Kind, Trace
from conformance.traces.producers import SILENT
from magnetar_proto import PulsarApi_pb2 as pb


def a_consumer_comes_and_goes(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.closes_consumer()


def an_open_consumer_is_opened_again(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.subscribes()


def an_open_consumer_id_is_opened_for_another_subscription(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.subscribes(SHARED, subscription="other")
    a.asks(pb.CommandConsumerStats(request_id=0, consumer_id=1))


def closing_twice(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.closes_consumer()
    a.closes_consumer()


def subscribing_again_after_closing(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.closes_consumer()
    a.subscribes()


def a_consumer_id_after_a_refusal(t: Trace) -> None:
    a = t.connects()
    a.subscribes(subscription="")
    a.subscribes()


# Conflicts ------------------------------------------------------------------------------------


def a_second_exclusive_consumer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes()
    b.subscribes()


def a_second_exclusive_consumer_of_the_same_connection(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.subscribes(consumer_id=2)


def an_exclusive_consumer_after_the_first_has_closed(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes()
    a.closes_consumer()
    b.subscribes()


def an_exclusive_consumer_after_the_first_has_gone_away(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes()
    a.leaves()
    b.subscribes()


@differs(SILENT)
def an_exclusive_consumer_whose_holder_does_not_answer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes()
    a.mute = True
    b.subscribes()


def two_exclusive_subscriptions(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(subscription="one")
    b.subscribes(subscription="two")


def consumers_of_other_types(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(FAILOVER)
    b.subscribes(EXCLUSIVE)


def consumers_of_other_types_than_failover(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(SHARED)
    b.subscribes(EXCLUSIVE)


def consumers_of_other_types_than_exclusive(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(EXCLUSIVE)
    b.subscribes(SHARED)
    b.subscribes(FAILOVER)


def the_type_may_change_without_consumers(t: Trace) -> None:
    a = t.connects()
    for sub_type in (EXCLUSIVE, SHARED, EXCLUSIVE):
        a.subscribes(sub_type)
        a.closes_consumer()


def shared_consumers(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    a.subscribes(SHARED, consumer_id=2)
    b.subscribes(SHARED)


def a_durable_name_for_a_reader(t: Trace) -> None:
    a = t.connects()
    a.subscribes(SHARED)
    a.subscribes(SHARED, consumer_id=2, durable=False)
    a.closes_consumer()
    a.subscribes(SHARED, durable=False)


def a_readers_name_for_a_durable_consumer(t: Trace) -> None:
    a = t.connects()
    a.subscribes(SHARED, durable=False)
    a.subscribes(SHARED, consumer_id=2)
    a.closes_consumer()
    a.subscribes(SHARED)


# Failover -------------------------------------------------------------------------------------


def the_first_failover_consumer_is_active(t: Trace) -> None:
    a = t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)


def a_failover_consumer_of_lower_priority_waits(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.receives_rest()


def a_failover_consumer_of_higher_priority_takes_over(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER, priority_level=1)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)


def the_next_failover_consumer_takes_over(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.closes_consumer()
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)


def the_next_failover_consumer_takes_over_from_who_went_away(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.leaves()
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)


def messages_follow_the_active_consumer(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    a.permits(10)
    b.permits(10)
    c.produces()
    c.publishes(2)
    [first, _] = a.receives(2)
    a.acks([first])
    a.closes_consumer()
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.receives()


def a_failover_consumer_of_a_partition(t: Trace) -> None:
    t.has_partitions(2)
    a, b = t.connects(), t.connects()
    for partition in range(2):
        name = f"{t.topic}-partition-{partition}"
        a.subscribes(FAILOVER, partition, topic=name, consumer_name="a")
        a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
        b.subscribes(FAILOVER, partition, topic=name, consumer_name="b")
        b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
        a.receives_rest()


def the_topics_name_decides_among_equals(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    for number in range(6):
        topic = f"persistent://{NAMESPACE}/fixed-name-{number}"
        a.subscribes(FAILOVER, number, topic=topic, consumer_name="alpha")
        a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
        b.subscribes(FAILOVER, number, topic=topic, consumer_name="beta")
        b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
        a.receives_rest()


def an_old_client_is_not_notified_that_it_is_active(t: Trace) -> None:
    a = t.connects(version=11)
    a.subscribes(FAILOVER)
    a.receives_rest()


# Unsubscribing ----------------------------------------------------------------------------------


def unsubscribing(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.receives_rest()


def the_consumer_after_unsubscribing(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.closes_consumer()


def unsubscribing_forgets_what_was_acknowledged(t: Trace) -> None:
    a = t.publisher(2)
    ids = a.published
    a.subscribes()
    a.acks(ids)
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.subscribes()
    a.permits(10)
    a.receives(2)


def unsubscribing_beside_other_consumers(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.receives_rest()
    b.receives_rest()


def unsubscribing_by_force(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    b.subscribes(SHARED)
    a.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1, force=True))
    a.receives_rest()
    b.receives_rest()


def unsubscribing_as_an_inactive_consumer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(FAILOVER)
    a.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.subscribes(FAILOVER, priority_level=1)
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.asks(pb.CommandUnsubscribe(request_id=0, consumer_id=1))
    a.receives_rest()


# Where a subscription begins --------------------------------------------------------------------


def from_the_earliest_message(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)


def from_the_latest_message(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    a.permits(10)
    a.publishes(1, first=2)
    a.receives()


def the_position_counts_only_once(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    a.closes_consumer()
    a.subscribes(initialPosition=pb.CommandSubscribe.Earliest)
    a.permits(10)
    a.publishes(1, first=2)
    a.receives()


def a_start_message_means_nothing_to_a_durable_subscription(t: Trace) -> None:
    a = t.publisher(3)
    ids = a.published
    a.subscribes(start_message_id=ids[1])
    a.permits(10)
    a.receives(3)


def an_initial_subscription_of_a_producer(t: Trace) -> None:
    a = t.connects()
    a.produces(initial_subscription_name="sub")
    a.publishes(2)
    a.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    a.permits(10)
    a.receives(2)


def starting_a_while_back(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(
        initialPosition=pb.CommandSubscribe.Latest, start_message_rollback_duration_sec=3600
    )
    a.permits(10)
    a.receives_rest()


def a_compacted_view_of_a_topic_that_was_never_compacted(t: Trace) -> None:
    a = t.publisher(2)
    a.subscribes(read_compacted=True)
    a.permits(10)
    a.receives(2)
