"""Topics that end: terminated, truncated, trimmed."""

from conformance.differences import Difference, differs
from conformance.trace import FAILOVER, SHARED, Kind, Peer, Trace
from conformance.traces.seeks import EMPTY
from magnetar_proto import PulsarApi_pb2 as pb

JAVA = "Pulsar-Java-v4.2.4"


def _terminates(t: Trace) -> None:
    t.rest("POST", f"{t.path}/terminate")


def _asks_for_the_last(a: Peer, consumer_id: int = 1) -> None:
    a.asks(pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=0))


# Terminated -----------------------------------------------------------------------------------


def a_terminated_topic_refuses_messages(t: Trace) -> None:
    a = t.publisher(2)
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    a.produces()


def a_topic_is_terminated_twice(t: Trace) -> None:
    a = t.publisher(2)
    _terminates(t)
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)


@differs(EMPTY)
def a_topic_without_messages_is_terminated(t: Trace) -> None:
    t.rest("PUT", t.path)
    _terminates(t)
    a = t.connects(client=JAVA)
    a.subscribes()
    a.permits(1)
    a.awaits_once(Kind.REACHED_END_OF_TOPIC)


def a_topic_that_is_not_there_is_terminated(t: Trace) -> None:
    _terminates(t)


@differs(EMPTY)
def a_partitioned_topic_is_terminated(t: Trace) -> None:
    t.has_partitions(2)
    a, b = t.connects(), t.connects()
    a.produces(f"{t.topic}-partition-0")
    b.produces(f"{t.topic}-partition-1")
    a.publishes(2)
    _terminates(t)
    t.rest("POST", f"{t.path}/terminate/partitions")
    a.awaits(Kind.CLOSE_PRODUCER)
    b.awaits(Kind.CLOSE_PRODUCER)
    a.produces(f"{t.topic}-partition-0")


def a_non_persistent_topic_is_terminated(t: Trace) -> None:
    t.connects().produces(f"non-{t.topic}")
    t.rest("POST", f"non-persistent/public/default/{t.token}/terminate")


def what_is_there_is_still_read(t: Trace) -> None:
    a, b = t.publisher(3), t.connects(client=JAVA)
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    b.subscribes()
    _asks_for_the_last(b)
    b.permits(9)
    ids = b.receives(3)
    b.acks(ids)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)


def a_consumer_that_has_read_all_is_notified_of_the_end(t: Trace) -> None:
    a, b = t.publisher(2), t.connects(client=JAVA)
    b.subscribes()
    b.permits(9)
    b.acks(b.receives(2))
    _terminates(t)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)
    a.awaits(Kind.CLOSE_PRODUCER)


def a_consumer_that_has_not_acknowledged_does_not(t: Trace) -> None:
    a, b = t.publisher(2), t.connects(client=JAVA)
    b.subscribes()
    b.permits(9)
    ids = b.receives(2)
    _terminates(t)
    b.receives_rest()
    b.acks(ids)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)
    a.awaits(Kind.CLOSE_PRODUCER)


def a_consumer_that_comes_after_the_end(t: Trace) -> None:
    a, b = t.publisher(1), t.connects(client=JAVA)
    a.subscribes()
    a.acks(a.published)
    a.closes_consumer()
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    b.subscribes()
    b.permits(1)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)


@differs(
    Difference(
        "REACHED_END_OF_TOPIC to clients other than Java's",
        "is sent; clients that do not know the command close their connection, repeatedly",
        "is not sent",
    )
)
def a_client_that_is_not_java(t: Trace) -> None:
    a, b = t.publisher(1), t.connects(client="Pulsar-CPP-v3.7.0")
    b.subscribes()
    b.permits(9)
    b.acks(b.receives())
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    b.receives_rest()


def shared_consumers_are_notified_of_the_end(t: Trace) -> None:
    a, b, c = t.publisher(2), t.connects(client=JAVA), t.connects(client=JAVA)
    b.subscribes(SHARED)
    c.subscribes(SHARED)
    b.permits(9)
    b.acks(b.receives(2))
    c.permits(9)
    _terminates(t)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)
    c.awaits_once(Kind.REACHED_END_OF_TOPIC)
    a.awaits(Kind.CLOSE_PRODUCER)


def an_inactive_failover_consumer_is_notified_of_the_end(t: Trace) -> None:
    a, b, c = t.publisher(1), t.connects(client=JAVA), t.connects(client=JAVA)
    b.subscribes(FAILOVER, consumer_name="b")
    b.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    c.subscribes(FAILOVER, consumer_name="c", priority_level=1)
    c.awaits(Kind.ACTIVE_CONSUMER_CHANGE)
    b.permits(9)
    b.acks(b.receives())
    _terminates(t)
    b.awaits_once(Kind.REACHED_END_OF_TOPIC)
    c.awaits_once(Kind.REACHED_END_OF_TOPIC)
    a.awaits(Kind.CLOSE_PRODUCER)


def the_end_is_kept_through_an_unload(t: Trace) -> None:
    a = t.publisher(1)
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    t.rest("PUT", f"{t.path}/unload")
    a.produces()
    a.subscribes()
    a.permits(1)
    a.receives()


def a_terminated_topic_is_deleted(t: Trace) -> None:
    a = t.publisher(1)
    _terminates(t)
    a.awaits(Kind.CLOSE_PRODUCER)
    t.rest("DELETE", f"{t.path}?force=true")
    a.produces()
    a.publishes(1, first=1)


# Truncated --------------------------------------------------------------------------------------


def a_topic_is_truncated(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    t.rest("PUT", f"{t.path}/subscription/sub", "earliest")
    t.rest("DELETE", f"{t.path}/truncate")
    b.subscribes()
    b.permits(9)
    b.receives_rest()
    a.publishes(1, first=3)
    b.receives()
    _asks_for_the_last(b)


def a_topic_is_truncated_under_its_consumer(t: Trace) -> None:
    a, b = t.publisher(4), t.connects()
    b.subscribes(SHARED)
    b.permits(2)
    b.receives(2)
    t.rest("DELETE", f"{t.path}/truncate")
    b.permits(9)
    b.receives_rest()
    a.publishes(1, first=4)
    b.receives()


def readers_of_a_truncated_topic(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    t.rest("DELETE", f"{t.path}/truncate")
    b.subscribes(durable=False)
    b.permits(9)
    b.receives_rest()
    a.publishes(1, first=3)
    b.receives()


def a_partitioned_topic_is_truncated(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("DELETE", f"{t.path}/truncate")
    t.rest("DELETE", f"{t.path}-partition-0/truncate")


def a_topic_that_is_not_there_is_truncated(t: Trace) -> None:
    t.rest("DELETE", f"{t.path}/truncate")


def a_non_persistent_topic_is_truncated(t: Trace) -> None:
    t.connects().produces(f"non-{t.topic}")
    t.rest("DELETE", f"non-persistent/public/default/{t.token}/truncate")


def a_topic_is_trimmed(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("POST", f"{t.path}/trim")
    a.subscribes()
    a.permits(2)
    a.receives(2)


def a_topic_that_is_not_there_is_trimmed(t: Trace) -> None:
    t.rest("POST", f"{t.path}/trim")
