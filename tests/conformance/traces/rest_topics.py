"""Topics and partitions over REST: headers, types and bad input."""

from conformance.differences import differs
from conformance.rest_differences import CONVERTED, ENDS_OF_EMPTY, REFUSED, SYSTEM
from conformance.trace import Trace

METADATA = "application/vnd.partitioned-topic-metadata+json"


def the_answers_about_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/partitions")
    t.web("GET", f"{t.path}/properties")
    t.web("PUT", f"{t.path}/properties", {"colour": "green"})
    t.web("GET", f"{t.path}/properties")
    t.web("GET", f"{t.path}/subscriptions")
    t.web("PUT", f"{t.path}/unload")
    t.web("POST", f"{t.path}/trim")
    t.web("DELETE", f"{t.path}/truncate")
    t.web("DELETE", t.path)


@differs(ENDS_OF_EMPTY)
def the_end_of_an_empty_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/lastMessageId")
    t.web("POST", f"{t.path}/terminate")


@differs(ENDS_OF_EMPTY)
def the_ends_of_empty_partitions(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 2)
    t.web("POST", f"{t.path}/terminate/partitions")


def the_end_of_a_topic(t: Trace) -> None:
    t.publisher(2)
    t.web("POST", f"{t.path}/terminate")
    t.web("POST", f"{t.path}/terminate")


def a_topic_that_is_not_there(t: Trace) -> None:
    t.web("DELETE", t.path)
    t.web("PUT", f"{t.path}/unload")
    t.web("GET", f"{t.path}/subscriptions")
    t.web("POST", f"{t.path}/terminate")
    t.web("DELETE", f"{t.path}/truncate")
    t.web("POST", f"{t.path}/trim")
    t.web("PUT", f"{t.path}/compaction")
    t.web("GET", f"{t.path}/compaction")
    t.web("GET", f"{t.path}/lastMessageId")
    t.web("GET", f"{t.path}/properties")
    t.web("GET", f"{t.path}/permissions")


def names_of_topics(t: Trace) -> None:
    t.web("PUT", f"{t.path}%20x")
    t.web("GET", f"{t.path}%20x/partitions?checkAllowAutoCreation=false")
    t.web("PUT", f"{t.path}*x")
    t.web("PUT", f"{t.path}%C3%A4")
    t.web("GET", f"{t.path}%C3%A4/partitions")
    t.web("DELETE", f"{t.path}%C3%A4")


def broken_percent_encoding(t: Trace) -> None:
    t.web("PUT", f"{t.path}%")
    t.web("PUT", f"{t.path}%zz")
    t.web("PUT", f"{t.path}%ff")


@differs(SYSTEM)
def names_of_system_topics(t: Trace) -> None:
    t.web("PUT", f"namespaces/public/{t.token}")
    t.web("PUT", f"persistent/public/{t.token}/__change_events")
    t.web("PUT", f"persistent/public/{t.token}/__change_events/partitions", 2)


def domains_that_are_none(t: Trace) -> None:
    t.web("GET", "permanent/public/default")
    t.web("PUT", f"permanent/public/default/{t.token}")


def methods_that_topics_do_not_have(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/unload")
    t.web("GET", f"{t.path}/terminate")
    t.web("POST", f"{t.path}/subscriptions")
    t.web("PATCH", t.path)
    t.web("GET", f"{t.path}/nothing")


def properties_that_are_none(t: Trace) -> None:
    t.web("PUT", t.path, [1])
    t.web("PUT", t.path, "text")
    t.web("PUT", t.path, b"{")
    t.web("PUT", t.path, {"a": {"b": "c"}})
    t.web("PUT", t.path, b"null")
    t.web("PUT", f"{t.path}/properties", [1])
    t.web("PUT", f"{t.path}/properties", b"{")
    t.web("GET", f"{t.path}/properties")


def numbers_of_partitions(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 0)
    t.web("PUT", f"{t.path}/partitions", -1)
    t.web("PUT", f"{t.path}/partitions", "many")
    t.web("PUT", f"{t.path}/partitions", True)
    t.web("PUT", f"{t.path}/partitions", [2])
    t.web("PUT", f"{t.path}/partitions", b"{")


@differs(CONVERTED)
def a_part_of_a_partition(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 1.5)


@differs(REFUSED)
def more_partitions_than_an_integer_counts(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 99999999999)


def partitions_with_properties(t: Trace) -> None:
    body = {"partitions": 2, "properties": {"colour": "green"}}
    t.web("PUT", f"{t.path}/partitions", body, media=METADATA)
    t.web("GET", f"{t.path}/partitions")
    t.web("PUT", f"{t.path}/partitions", body, media=METADATA)
    t.web("GET", f"{t.path}/properties")
    t.web("POST", f"{t.path}/partitions", 3)
    t.web("POST", f"{t.path}/partitions", 2)
    t.web("POST", f"{t.path}/partitions", "many")
    t.web("POST", f"{t.path}/partitions", b"{")
    t.web("GET", f"{t.path}/partitions")
    t.web("POST", f"{t.path}/createMissedPartitions")
    t.web("DELETE", t.path)
    t.web("DELETE", f"{t.path}/partitions")


def what_a_partitioned_topic_cannot_do(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 2)
    t.web("POST", f"{t.path}/terminate")
    t.web("GET", f"{t.path}/lastMessageId")
    t.web("GET", f"{t.path}/compaction")
    t.web("PUT", f"{t.path}/unload")


def partitions_of_a_topic_that_has_none(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("POST", f"{t.path}/terminate/partitions")
    t.web("POST", f"{t.path}/createMissedPartitions")
    t.web("DELETE", f"{t.path}/partitions")
    t.web("PUT", f"{t.path}/partitions", 2)


def non_persistent_topics(t: Trace) -> None:
    path = t.path.replace("persistent", "non-persistent", 1)
    t.web("PUT", path)
    t.web("GET", f"{path}/partitions")
    t.web("GET", f"{path}/properties")
    t.web("POST", f"{path}/terminate")
    t.web("DELETE", f"{path}/truncate")
    t.web("GET", f"{path}/lastMessageId")
    t.web("DELETE", path)


@differs(REFUSED)
def compaction_of_a_non_persistent_topic(t: Trace) -> None:
    path = t.path.replace("persistent", "non-persistent", 1)
    t.web("PUT", path)
    t.web("PUT", f"{path}/compaction")


def compaction(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/compaction", types=True)
    t.web("PUT", f"{t.path}/compaction")


def permissions_on_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/permissions")
    t.web("POST", f"{t.path}/permissions/reader", ["consume"])
    t.web("GET", f"{t.path}/permissions")
    t.web("DELETE", f"{t.path}/permissions/reader")
    t.web("DELETE", f"{t.path}/permissions/nobody")
    t.web("GET", f"{t.path}/permissions")
