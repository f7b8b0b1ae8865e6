"""Statistics over REST: names and types of their members, and bad input."""

from conformance.differences import differs
from conformance.trace import Trace
from conformance.traces.statistics import OLDEST


def _used(t: Trace) -> None:
    a, b = t.publisher(2), t.connects()
    b.subscribes()
    b.permits(10)
    b.receives(2)
    a.publishes(1, first=2)
    b.receives()


@differs(OLDEST)
def of_a_topic_that_is_used(t: Trace) -> None:
    _used(t)
    t.web("GET", f"{t.path}/stats", types=True)


@differs(OLDEST)
def of_a_topic_with_every_flag(t: Trace) -> None:
    _used(t)
    flags = "getPreciseBacklog=true&subscriptionBacklogSize=true&getEarliestTimeInBacklog=true"
    t.web("GET", f"{t.path}/stats?{flags}", types=True)


def of_a_topic_that_is_not_used(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/stats", types=True)


def of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.web("GET", f"{t.path}/partitioned-stats", types=True)
    t.web("GET", f"{t.path}/partitioned-stats?perPartition=true", types=True)


def of_the_log_of_a_topic(t: Trace) -> None:
    _used(t)
    t.web("GET", f"{t.path}/internalStats", types=True)


def of_the_ledgers_of_a_topic(t: Trace) -> None:
    _used(t)
    t.web("GET", f"{t.path}/internal-info", types=True)


def of_a_topic_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"{t.path}/stats")
    t.web("GET", f"{t.path}/internalStats")
    t.web("GET", f"{t.path}/partitioned-stats")
    t.web("GET", f"{t.path}/partitioned-internalStats")


def of_a_partitioned_topic_as_of_a_plain_one(t: Trace) -> None:
    t.has_partitions(2)
    t.web("GET", f"{t.path}/stats")
    t.web("GET", f"{t.path}/internalStats")


def of_a_plain_topic_as_of_a_partitioned_one(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/partitioned-stats")


def of_a_non_persistent_topic(t: Trace) -> None:
    a = t.connects()
    path = t.path.replace("persistent", "non-persistent", 1)
    a.produces(t.topic.replace("persistent", "non-persistent", 1))
    t.web("GET", f"{path}/stats", types=True)
