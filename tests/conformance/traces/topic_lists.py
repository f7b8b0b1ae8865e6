"""Patterns in GET_TOPICS_OF_NAMESPACE, and WATCH_TOPIC_LIST."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.trace import Kind, Peer, Trace
from conformance.traces.lookups import NO_NAMESPACE
from magnetar_proto import PulsarApi_pb2 as pb

LOOK_AROUND = Difference(
    "patterns of topics with look-around or back-references",
    "matched by the broker, however long that takes",
    "left to clients (`filtered=false`); NotAllowedError to a watcher, whose client then lists",
)
Topics = pb.CommandGetTopicsOfNamespace
Watch, Close = pb.CommandWatchTopicList, pb.CommandWatchTopicListClose


def _watch(a: Peer, namespace: str, pattern: str, watcher_id: int = 1, **fields: Any) -> Any:
    return a.asks(
        Watch(
            request_id=0,
            watcher_id=watcher_id,
            namespace=namespace,
            topics_pattern=pattern,
            **fields,
        )
    )


def topics_of_patterns(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    for number, name in enumerate(("apple", "apricot", "plum.new"), 1):
        a.produces(f"persistent://{namespace}/{name}", producer_id=number)
    for pattern in (
        ".*/a.*",
        ".*/ap",
        "apple",
        "persistent://.*/p.*",
        "non-persistent://.*/p.*",
        ".*/ap(ple|ricot)",
        ".*/A.*",
        "(?i).*/A.*",
        r".*/\Qplum.\E.*",
        "",
    ):
        a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=pattern))


def patterns_and_partitions(t: Trace) -> None:
    namespace = t.has_namespace()
    t.rest("PUT", f"persistent/{namespace}/parted/partitions", 2)
    a = t.connects()
    for pattern in (".*/parted", ".*/parted-partition-1"):
        a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=pattern))


@differs(LOOK_AROUND)
def a_pattern_that_looks_ahead(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=".*/(?!w)a.*"))


def a_pattern_that_is_none(t: Trace) -> None:
    namespace = t.has_namespace()
    t.connects().asks(Topics(request_id=0, namespace=namespace, topics_pattern="(a"))


def a_pattern_that_its_domain_makes_long(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    for pattern in (f"persistent://{namespace}/.*", f"persistent://{namespace}/..........*"):
        a.asks(Topics(request_id=0, namespace=namespace, topics_pattern=pattern))


def a_pattern_and_a_hash(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    fields: dict[str, Any] = {"namespace": namespace, "topics_pattern": ".*/a.*"}
    known = a.asks(Topics(request_id=0, **fields)).topics_hash
    a.produces(f"persistent://{namespace}/plum", producer_id=2)
    a.asks(Topics(request_id=0, topics_hash=known, **fields))
    a.produces(f"persistent://{namespace}/apricot", producer_id=3)
    a.asks(Topics(request_id=0, topics_hash=known, **fields))


def a_watcher_is_notified_of_created_and_deleted_topics(t: Trace) -> None:
    namespace = t.has_namespace()
    a, b = t.connects(), t.connects()
    _watch(a, namespace, ".*")
    b.produces(f"persistent://{namespace}/one")
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    t.rest("DELETE", f"persistent/{namespace}/one?force=true")
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    b.produces(f"persistent://{namespace}/one", producer_id=2)
    a.awaits(Kind.WATCH_TOPIC_UPDATE)


def a_watcher_is_notified_of_what_matches(t: Trace) -> None:
    namespace = t.has_namespace()
    a, b = t.connects(), t.connects()
    b.produces(f"persistent://{namespace}/apple")
    _watch(a, namespace, f"persistent://{namespace}/a.*")
    b.produces(f"persistent://{namespace}/plum", producer_id=2)
    b.produces(f"persistent://{namespace}/apricot", producer_id=3)
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    a.receives_rest()


def a_watcher_is_notified_of_partitions(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    t.rest("PUT", f"persistent/{namespace}/parted/partitions", 1)
    _watch(a, namespace, ".*/parted")


def a_watcher_is_not_notified_of_topics_that_are_not_stored(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    _watch(a, namespace, ".*")
    a.produces(f"non-persistent://{namespace}/one")
    a.receives_rest()


def a_watcher_that_knows_the_list(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    known = _watch(a, namespace, ".*").topics_hash
    _watch(a, namespace, ".*", 2, topics_hash=known)
    _watch(a, namespace, ".*", 3, topics_hash="01234567")


def a_watcher_that_asks_again(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    known = _watch(a, namespace, ".*").topics_hash
    _watch(a, namespace, ".*")
    _watch(a, namespace, ".*", topics_hash=known)
    a.produces(f"persistent://{namespace}/one")
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    a.receives_rest()
    _watch(a, namespace, ".*", topics_hash=known)


def two_watchers_of_one_client(t: Trace) -> None:
    namespace = t.has_namespace()
    a, b = t.connects(), t.connects()
    _watch(a, namespace, ".*/a.*", 1)
    _watch(a, namespace, ".*/b.*", 2)
    b.produces(f"persistent://{namespace}/apple", producer_id=1)
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    b.produces(f"persistent://{namespace}/beet", producer_id=2)
    a.awaits(Kind.WATCH_TOPIC_UPDATE)
    a.receives_rest()


def a_watcher_that_is_closed(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    _watch(a, namespace, ".*")
    a.asks(Close(request_id=0, watcher_id=1))
    a.produces(f"persistent://{namespace}/one")
    a.receives_rest()
    _watch(a, namespace, ".*")


def closing_a_watcher_that_is_not_there(t: Trace) -> None:
    t.connects().asks(Close(request_id=0, watcher_id=7))


def a_watcher_of_a_long_pattern(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    _watch(a, namespace, f"persistent://{namespace}/" + "a" * 50)
    _watch(a, namespace, "a" * 50, 2)
    _watch(a, namespace, "a" * 51, 3)


def a_watcher_of_what_is_no_pattern(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    _watch(a, namespace, "(a")
    a.asks(Close(request_id=0, watcher_id=1))
    _watch(a, namespace, ".*")


@differs(LOOK_AROUND)
def a_watcher_of_a_pattern_that_looks_ahead(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    a.produces(f"persistent://{namespace}/apple")
    _watch(a, namespace, ".*/(?!w)a.*")


def a_watcher_of_a_namespace_that_is_not_there(t: Trace) -> None:
    _watch(t.connects(), f"public/{t.token}", ".*")


@differs(NO_NAMESPACE)
def a_watcher_of_what_is_no_namespace(t: Trace) -> None:
    _watch(t.connects(), "nonsense", ".*")
