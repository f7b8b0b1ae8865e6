"""Joining the metrics pages of several processes to one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.metrics.figures import Figures, Load, SubscriptionFigures, TopicFigures
from magnetar_broker.metrics.joining import Rule, join, rule_of
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.metrics.loop import LoopStats
from magnetar_broker.metrics.process import process_part
from magnetar_broker.metrics.prometheus import of_loop, parts
from magnetar_broker.metrics.text import SLICE
from magnetar_broker.topic.measuring import Consuming
from magnetar_broker.watchdog import Stalls

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

NUMBERS = st.integers(0, 1 << 30)
RATES = st.integers(0, 1 << 20).map(lambda eighths: eighths / 8)  # sums of these are exact
LABELS = st.sampled_from(
    ["plain", 'quoted "', "back\\slash", "two\nlines", "carriage\rreturn", ',topic="', "} 1.0"]
)
SUBSCRIPTION = SubscriptionFigures("sub", None, 0.0, 0, Consuming(), 0, 0, 0, False, 0, None)


COUNTED = (
    "connections",
    "connections_total",
    "publish_pending_bytes",
    "cache_used_bytes",
    "read_bytes",
    "read_limit_bytes",
    "reads_waiting",
    "read_dropped_bytes",
    "unread_bytes",
    "unread_limit_bytes",
    "unread_deleted_bytes",
)


def figures_of(
    cluster: str,
    numbers: Sequence[int],
    topics: tuple[TopicFigures, ...] = (),
    stalls: tuple[Stalls, ...] = (),
    by_topic: bool = True,
) -> Figures:
    named: dict[str, Any] = dict(zip(COUNTED, numbers, strict=True))
    return Figures(
        cluster=cluster,
        broker="host",
        topics=topics,
        stalls=stalls,
        by_topic=by_topic,
        **named,
    )


@st.composite
def topics(draw: st.DrawFn) -> TopicFigures:
    namespace, backlog = draw(st.sampled_from(["t/a", "t/b", "t/c"])), draw(st.none() | NUMBERS)
    load = Load(
        topics=1,
        subscriptions=1,
        producers=draw(NUMBERS),
        rate_in=draw(RATES),
        messages_in=draw(NUMBERS),
        publish_waits=draw(NUMBERS),
        backlog=backlog,
        backlog_bytes=backlog,
        oldest_ms=None if backlog is None else draw(NUMBERS),
    )
    name = f"persistent://{namespace}/{draw(LABELS)}{draw(NUMBERS)}"
    compacted = draw(st.none() | st.just(CompactionFigures(1, 2, 3, 4, 5)))
    one = SUBSCRIPTION._replace(name=draw(LABELS), consumers=draw(NUMBERS))
    return TopicFigures(name, namespace, load, (one,), compacted)


@st.composite
def processes(draw: st.DrawFn) -> list[tuple[Figures, JournalStats, LoopStats]]:
    """Draw the figures of several processes."""
    every = draw(st.lists(topics(), max_size=8, unique_by=lambda topic: topic.name))
    count = draw(st.integers(1, 4))
    places = [draw(st.integers(0, count - 1)) for _ in every]
    cluster, by_topic = draw(LABELS), draw(st.booleans())
    made = []
    for number in range(count):
        numbers = [draw(NUMBERS) for _ in COUNTED]
        of = tuple(topic for topic, place in zip(every, places, strict=True) if place == number)
        stalls = (Stalls("damage", draw(NUMBERS), draw(NUMBERS)),)
        journal, loop = JournalStats(), LoopStats()
        journal.observe(draw(NUMBERS), draw(NUMBERS), draw(st.none() | RATES))
        loop.observe("read", draw(RATES))
        made.append((figures_of(cluster, numbers, of, stalls, by_topic), journal, loop))
    return made


def page_of(
    figures: Figures, journal: JournalStats, loop: LoopStats, is_joined: bool = True
) -> list[bytes]:
    return list(parts(figures, journal.figures(), loop.figures(), is_joined))


def whole(of: list[tuple[Figures, JournalStats, LoopStats]]) -> Figures:
    """Return the figures of a single process that does the work of all of these."""
    every = [figures for figures, _, _ in of]
    first = every[0]
    numbers = [sum(getattr(one, name) for one in every) for name in COUNTED]
    topics = tuple(topic for one in every for topic in one.topics)
    stalls = [one.stalls[0] for one in every]
    stalled = Stalls("damage", sum(one.now for one in stalls), sum(one.total for one in stalls))
    return figures_of(first.cluster, numbers, topics, (stalled,), first.by_topic)


def series(page: Iterable[bytes]) -> Series:
    """Return every series of a page, after checking that each is declared and sampled once."""
    found: Series = {}
    text = b"".join(page).decode()
    declared = [line.split(" ")[2] for line in text.split("\n") if line.startswith("# TYPE ")]
    assert len(declared) == len(set(declared))
    for family in text_string_to_metric_families(text):
        assert family.type != "unknown"
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def together(page: Series) -> Series:
    """Add up the series of all processes."""
    summed: Series = {}
    for (name, labels), value in page.items():
        key = name, frozenset((label, text) for label, text in labels if label != "process")
        summed[key] = summed.get(key, 0.0) + value
    return summed


def joined(pages: Mapping[str, Iterable[bytes]]) -> Series:
    return series(join(pages))


@given(processes())
def test_joined_pages_are_the_page_of_one_process(
    of: list[tuple[Figures, JournalStats, LoopStats]],
) -> None:
    pages = {f"worker-{number}": page_of(*one) for number, one in enumerate(of)}
    one, journal, loop = whole(of), JournalStats(), LoopStats()
    expected = series(page_of(one, journal, loop, is_joined=False))
    found = together(joined(pages))
    own = {key for key in expected if key[0].startswith(("magnetar_journal_", "magnetar_loop_"))}
    assert found.keys() == expected.keys()
    for key in expected.keys() - own:
        assert found[key] == expected[key], key
    counts = ("magnetar_journal_round_records_count", "magnetar_loop_stretch_seconds_count")
    for name in counts:
        assert sum(found[key] for key in own if key[0] == name) == len(of)


def labels_of(page: Series, name: str) -> list[dict[str, str]]:
    return [dict(labels) for (found, labels) in page if found == name]


def simple(number: int, **changes: Any) -> list[bytes]:
    figures = replace(figures_of("c", range(1, len(COUNTED) + 1), (topic(number),)), **changes)
    return page_of(figures, JournalStats(), LoopStats())


def topic(number: int, **load: Any) -> TopicFigures:
    loaded = Load(topics=1, backlog=number)._replace(**load)
    return TopicFigures(f"persistent://t/n/{number}", "t/n", loaded, (SUBSCRIPTION,))


def test_what_is_a_process_s_own_has_its_name() -> None:
    page = joined({"worker-0": simple(0), "worker-1": simple(1)})
    for name in (
        "magnetar_journal_fsync_seconds_count",
        "magnetar_loop_stretch_seconds_count",
        "magnetar_journal_bytes_total",
        "magnetar_read_bytes",
        "magnetar_read_limit_bytes",
        "magnetar_unread_bytes",
        "pulsar_connection_created_total_count",
    ):
        found = {labels["process"] for labels in labels_of(page, name)}
        assert found == {"worker-0", "worker-1"}, name
    for name in ("pulsar_active_connections", "pulsar_version_info", "pulsar_topics_count"):
        (labels,) = labels_of(page, name)
        assert "process" not in labels
    assert page["pulsar_version_info", frozenset(labels_of(page, "pulsar_version_info")[0].items())]


def test_the_controller_s_own_metrics_are_among_them() -> None:
    own = [process_part("c"), of_loop(LoopStats().figures(), "c")]
    page = joined({"worker-0": [*simple(0), process_part("c")], "controller": own})
    for name in ("process_cpu_seconds_total", "python_info", "magnetar_loop_stretch_seconds_count"):
        found = {labels["process"] for labels in labels_of(page, name)}
        assert found == {"worker-0", "controller"}, name


def test_parts_with_topics_are_passed_on_unread() -> None:
    one, other = simple(0), simple(1)
    passed = [part for part in join({"worker-0": one, "worker-1": other}) if b',topic="' in part]
    given = [part for part in (*one, *other) if b',topic="' in part]
    assert sorted(map(id, passed)) == sorted(map(id, given))


def test_a_sum_with_something_unknown_is_unknown() -> None:
    unknown = (topic(1, backlog=None, oldest_ms=None),)
    for by_topic in (True, False):
        pages = {
            "worker-0": simple(0, by_topic=by_topic),
            "worker-1": simple(1, topics=unknown, by_topic=by_topic),
        }
        for order in (pages, dict(reversed(pages.items()))):
            page = joined(order)
            assert not labels_of(page, "pulsar_broker_msg_backlog")
            assert labels_of(page, "pulsar_broker_topics_count")
            of_namespaces = "pulsar_msg_backlog", "pulsar_storage_backlog_age_seconds"
            for name in of_namespaces if not by_topic else ():
                assert not labels_of(page, name)


def test_a_part_of_many_namespaces_is_read_in_slices() -> None:
    def of_many(number: int) -> list[bytes]:
        loaded = (
            TopicFigures(f"persistent://t/{n}/{number}", f"t/{n}", Load(topics=1), ())
            for n in range(2 * SLICE)
        )
        return simple(0, topics=tuple(loaded), by_topic=False)

    pages = {"worker-0": of_many(0), "worker-1": of_many(1)}
    page = list(join(pages))
    assert page.count(b"") >= sum(map(len, pages.values())), "it pauses after each part"
    assert max(part.count(b"\n") for part in page) <= SLICE
    found = series(page)
    assert len(labels_of(found, "pulsar_topics_count")) == 2 * SLICE
    assert (
        found["pulsar_topics_count", frozenset({"cluster": "c", "namespace": "t/1"}.items())] == 2
    )


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        ("pulsar_broker_rate_in", "gauge", Rule.SUM),
        ("pulsar_storage_backlog_age_seconds", "gauge", Rule.LARGEST),
        ("pulsar_in_messages_total", "counter", Rule.APART),
        ("process_open_fds", "gauge", Rule.APART),
        ("magnetar_loop_stretch_seconds", "histogram", Rule.APART),
    ],
)
def test_rules(name: str, kind: str, rule: Rule) -> None:
    assert rule_of(name, kind) is rule


def test_topics_that_are_shown_in_sums_are_summed_over_the_processes() -> None:
    def of(number: int, messages: int) -> list[bytes]:
        others = (topic(number)._replace(load=Load(topics=1, backlog=number, rate_in=2.5)),)
        totals = {"t/n": (messages, 0, messages, 0)}
        return simple(number, topics=(), others=others, other_totals=totals)

    page = joined({"worker-0": of(3, 10), "worker-1": of(4, 20)})
    labels = {"cluster": "c", "namespace": "t/n", "topic": "other"}
    assert page["pulsar_msg_backlog", frozenset(labels.items())] == 7
    assert page["pulsar_rate_in", frozenset(labels.items())] == 5
    of_subscription = labels | {"subscription": "other"}
    assert page["pulsar_subscription_msg_rate_out", frozenset(of_subscription.items())] == 0
    for worker, messages in (("worker-0", 10), ("worker-1", 20)):
        own = frozenset((labels | {"process": worker}).items())
        assert page["pulsar_in_messages_total", own] == messages
