"""PRODUCER and CLOSE_PRODUCER."""

from conformance.differences import Difference, differs
from conformance.trace import Trace, producer
from magnetar_proto import PulsarApi_pb2 as pb

SILENT = Difference(
    "client that does not answer the liveness PING",
    "its connection is closed",
    "the producer or consumer in question is closed; keep-alive ends the connection",
)


def a_producer_opens_and_closes(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.closes_producer()


def a_producer_without_a_name_gets_one(t: Trace) -> None:
    a = t.connects()
    a.produces()
    a.produces(producer_id=2)


def an_open_producer_is_opened_again(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.produces(producer_name="me")


def an_open_producer_id_is_opened_for_another_topic(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.produces(t.topic + "-2", producer_name="you")
    a.publishes()


def a_name_that_another_connection_holds(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me")
    b.produces(producer_name="me")
    a.publishes()


def a_name_that_the_same_connection_holds(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.produces(producer_name="me", producer_id=2)
    a.publishes()


@differs(SILENT)
def a_name_whose_holder_does_not_answer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me")
    a.mute = True
    b.produces(producer_name="me")
    b.publishes()


def a_name_whose_holder_has_left(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me")
    a.closes_producer()
    b.produces(producer_name="me")


def a_newer_epoch_replaces_the_producer(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me", epoch=0)
    a.produces(producer_name="me", epoch=1)
    a.publishes()


def an_older_epoch_does_not_replace_the_producer(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me", epoch=1)
    a.produces(producer_name="me", epoch=0)
    a.publishes()


def a_newer_epoch_from_another_connection(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me", epoch=0)
    b.produces(producer_name="me", epoch=1)


def two_producers_of_one_name_at_once(t: Trace) -> None:
    a = t.connects()
    first = a.begins(producer(t.topic, 1, producer_name="me"))
    second = a.begins(producer(t.topic, 2, producer_name="me"))
    a.is_answered(first)
    a.is_answered(second)


def a_producer_that_encrypts(t: Trace) -> None:
    a = t.connects()
    a.produces(encrypted=True, metadata=[pb.KeyValue(key="k", value="v")])
    a.publishes()


def closing_twice(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.closes_producer()
    a.closes_producer()


def closing_what_was_never_open(t: Trace) -> None:
    t.connects().closes_producer(99)


def opening_again_after_closing(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.publishes(2)
    a.closes_producer()
    a.produces(producer_name="me")
    a.publishes(1, first=2)
