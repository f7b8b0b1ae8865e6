"""Producers that want a topic for themselves: access modes and topic epochs."""

from conformance.differences import Difference, differs
from conformance.trace import Kind, Trace, producer
from magnetar_proto import PulsarApi_pb2 as pb

SHARED, EXCLUSIVE, WAITING, FENCING = (
    pb.ProducerAccessMode.Value(name)
    for name in ("Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing")
)

PROBED = Difference(
    "an exclusive producer that reconnects before its old connection is detected as dead",
    "refused with ProducerFenced, which ends it permanently",
    "the old connection gets a PING, as for shared producers, and the new producer takes over if "
    "there is no answer",
)
FORGOTTEN = Difference(
    "a producer that leaves while it waits for exclusive access",
    "it gets access anyway, which raises the topic's epoch, before the next one does",
    "it is removed from the queue",
)


def an_exclusive_producer_keeps_shared_ones_out(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_name="you")
    a.publishes()


def an_exclusive_producer_keeps_others_out(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="you")
    a.publishes()


@differs(PROBED)
def an_exclusive_producer_keeps_out_its_own_name(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_name="me")


@differs(PROBED)
def an_exclusive_producer_whose_client_is_silent(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.mute = True
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="me")


def an_exclusive_producer_asks_again(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.publishes()


@differs(PROBED)
def a_shared_producer_keeps_exclusive_ones_out(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me")
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="you")
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.closes_producer()
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="you")


def every_exclusive_producer_raises_the_epoch(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_name="me")
    a.closes_producer()
    for _ in range(3):
        a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
        a.closes_producer()
    a.produces(producer_name="me")


def an_exclusive_producer_comes_back_with_its_epoch(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.leaves()
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="me", topic_epoch=0)
    b.closes_producer()
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="me")


def a_larger_epoch_is_taken_over(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me", topic_epoch=7)
    a.closes_producer()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")


def a_smaller_epoch_is_refused(t: Trace) -> None:
    a = t.connects()
    for _ in range(2):
        a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
        a.closes_producer()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me", topic_epoch=0)
    a.produces(producer_access_mode=WAITING, producer_name="me", topic_epoch=0, producer_id=2)
    a.produces(producer_access_mode=FENCING, producer_name="me", topic_epoch=0, producer_id=3)
    a.produces(producer_name="me", topic_epoch=0, producer_id=4)


def the_exclusive_producer_has_left(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    a.closes_producer()
    b.produces(producer_name="you")
    b.publishes()


def a_waiting_producer_gets_a_free_topic(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_access_mode=WAITING, producer_name="me")
    a.publishes()


def a_waiting_producer_follows_an_exclusive_one(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    a.publishes()
    a.closes_producer()
    b.is_answered(1)
    b.publishes()


def a_waiting_producer_follows_one_whose_connection_goes(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    a.leaves()
    b.is_answered(1)


def a_waiting_producer_follows_the_last_shared_one(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="one")
    a.produces(producer_name="two", producer_id=2)
    b.produces(producer_access_mode=WAITING, producer_name="you")
    a.closes_producer()
    b.receives_rest()
    a.closes_producer(2)
    b.is_answered(1)


def waiting_producers_take_turns(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    c.produces(producer_access_mode=WAITING, producer_name="she")
    a.closes_producer()
    b.is_answered(1)
    c.receives_rest()
    b.closes_producer()
    c.is_answered(1)


def a_waiting_producer_keeps_others_out(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    c.produces(producer_name="she")
    c.produces(producer_access_mode=EXCLUSIVE, producer_name="she")


@differs(FORGOTTEN)
def a_waiting_producer_gives_up(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    b.closes_producer()
    a.closes_producer()
    b.receives_rest()
    c.produces(producer_name="she")


@differs(FORGOTTEN)
def a_waiting_producer_leaves(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    b.leaves()
    a.settle()
    a.closes_producer()
    c.produces(producer_name="she")


def a_waiting_producer_asks_again(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    a.closes_producer()
    b.is_answered(1)


def a_waiting_producer_sends_already(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    b.sends(0)
    b.receives_rest()


@differs(PROBED)
def a_waiting_producer_of_the_same_name(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="me")
    a.closes_producer()
    b.is_answered(1)


def a_fencing_producer_takes_over_from_an_exclusive_one(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=FENCING, producer_name="you")
    a.receives_rest()
    b.publishes()
    a.sends(0)
    a.is_closed()


def a_fencing_producer_takes_over_from_shared_ones(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_name="one")
    b.produces(producer_name="two")
    c.produces(producer_access_mode=FENCING, producer_name="you")
    a.receives_rest()
    b.closes_producer()
    a.closes_producer()
    c.publishes()


def a_fencing_producer_sends_waiting_ones_away(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=WAITING, producer_name="you")
    c.produces(producer_access_mode=FENCING, producer_name="she")
    b.is_answered(1)
    b.produces(producer_access_mode=WAITING, producer_name="you")


def a_fenced_producer_comes_back(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_access_mode=FENCING, producer_name="you")
    b.closes_producer()
    a.sends(0)
    a.is_closed()
    c.produces(producer_access_mode=EXCLUSIVE, producer_name="me", topic_epoch=0)
    c.produces(producer_access_mode=FENCING, producer_name="me", topic_epoch=0)


def a_fencing_producer_takes_its_own_name(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=FENCING, producer_name="me")
    b.produces(producer_access_mode=FENCING, producer_name="me")
    b.publishes()


def two_want_it_at_once(t: Trace) -> None:
    a = t.connects()
    first = a.begins(producer(t.topic, 1, producer_access_mode=EXCLUSIVE, producer_name="me"))
    second = a.begins(producer(t.topic, 2, producer_access_mode=EXCLUSIVE, producer_name="you"))
    a.is_answered(first)
    a.is_answered(second)


def access_modes_of_a_topic_that_keeps_nothing(t: Trace) -> None:
    t.topic = t.topic.replace("persistent", "non-persistent")
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE, producer_name="me")
    b.produces(producer_name="you")
    b.produces(producer_access_mode=WAITING, producer_name="you", producer_id=2)
    a.closes_producer()
    b.awaits(Kind.PRODUCER_SUCCESS)
    b.closes_producer(2)
    b.produces(producer_access_mode=EXCLUSIVE, producer_name="you", producer_id=3)


def an_exclusive_producer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_access_mode=EXCLUSIVE)
    b.produces(producer_access_mode=EXCLUSIVE)
    b.produces(producer_id=2)
    a.publishes()


def an_exclusive_producer_beside_others(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces()
    b.produces(producer_access_mode=EXCLUSIVE)
    a.publishes()


def a_producer_that_fences_the_others(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces()
    b.produces(producer_access_mode=FENCING)
    b.publishes()
    a.sends(0)
    a.is_closed()
