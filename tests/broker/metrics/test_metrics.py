"""The page for Prometheus, rendered from figures."""

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pytest import approx

from fakes.world import ManualClock
from magnetar_broker.base.version import VERSION, commit
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.metrics import prometheus
from magnetar_broker.metrics.figures import (
    ConsumerFigures,
    Done,
    Figures,
    Load,
    LookupFigures,
    ProducerFigures,
    Quotas,
    SubscriptionFigures,
    Times,
    TopicFigures,
    total,
)
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.metrics.loop import LoopStats
from magnetar_broker.metrics.process import process_part
from magnetar_broker.metrics.prometheus import of_schemas, of_usage, parts
from magnetar_broker.metrics.text import SLICE
from magnetar_broker.metrics.usage import Usage, UsageMeter
from magnetar_broker.producers.write_counts import LATENCY_BOUNDS_MS, WriteCounts
from magnetar_broker.schemas.counts import MAX_NAMESPACES, SchemaCounts, Work
from magnetar_broker.throttling.dispatch_throttle import ThrottleEvents
from magnetar_broker.topic.measuring import Consuming, Publishing
from magnetar_broker.watchdog import Stalls
from magnetar_storage.interfaces import CopyCounts
from magnetar_storage.runtime.execution import Cause
from magnetar_storage.runtime.write_time import WriteTime

TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = SubscriptionFigures(
    name="billing",
    backlog=Backlog(messages=7, entries=5, size=70, delayed=2),
    oldest_ms=8500,
    consumers=2,
    rates=Consuming(3.5, 35.0, 0.5),
    messages_out=12,
    bytes_out=120,
    unacked=4,
    blocked=True,
    in_replay=1,
    blocker="no_permits",
    dropped=None,
)
LOAD = Load(
    topics=1,
    subscriptions=1,
    producers=3,
    consumers=2,
    rate_in=1.5,
    throughput_in=15.0,
    rate_out=3.5,
    throughput_out=35.0,
    rate_read=6.0,
    rate_read_from_disk=2.0,
    messages_in=20,
    bytes_in=200,
    storage_bytes=180,
    offloaded_bytes=60,
    backlog=7,
    backlog_bytes=70,
    oldest_ms=8500,
)
FIGURES = Figures(
    cluster="standalone",
    broker="host",
    connections=5,
    connections_total=9,
    connections_accepted=7,
    connections_refused=1,
    lookups=LookupFigures(Done(15, 30, 2), 8, 4, 3),
    loads=Done(5, 50, 1),
    limits_reached={"slow_reader": 4},
    connections_half_open=6,
    publish_pending_bytes=11,
    cache_used_bytes=13,
    cache_entries=3,
    cache_evicted=4,
    logs=1,
    read_bytes=17,
    read_limit_bytes=19,
    reads_waiting=2,
    read_dropped_bytes=23,
    unread_bytes=29,
    unread_limit_bytes=31,
    unread_deleted_bytes=37,
    copies=CopyCounts(41, 1, 43, 2, 3),
    topics=(TopicFigures(TOPIC, "public/default", LOAD, (SUBSCRIPTION,)),),
    stalls=(Stalls("damage", 1, 4), Stalls("none", 0, 2)),
    by_topic=True,
    now_ms=10_000,
)
BY_TOPIC = {"cluster": "standalone", "namespace": "public/default", "topic": TOPIC}
BY_NAMESPACE = {"cluster": "standalone", "namespace": "public/default"}
CLUSTER = {"cluster": "standalone"}
LOADS = {
    "subscriptions_count": 1,
    "producers_count": 3,
    "consumers_count": 2,
    "rate_in": 1.5,
    "rate_out": 3.5,
    "throughput_in": 15,
    "throughput_out": 35,
    "storage_size": 180,
    "storage_read_rate": 6,
    "storage_read_cache_misses_rate": 2,
}
BACKLOG_STORAGE = {
    "storage_offloaded_size": 60,
    "storage_backlog_size": 70,
    "storage_backlog_age_seconds": 1.5,
}
TOTALS = {"in_messages_total": 20, "in_bytes_total": 200}


def samples(
    figures: Figures, stats: JournalStats | None = None, loop: LoopStats | None = None
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return every sample of the page by name, as Prometheus's own parser reads it."""
    journal = (stats or JournalStats()).figures()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    page = b"".join(parts(figures, journal, (loop or LoopStats()).figures()))
    page += process_part(figures.cluster)
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_topic_has_its_own_series() -> None:
    page = samples(FIGURES)
    for name, value in {**LOADS, **BACKLOG_STORAGE, **TOTALS, "msg_backlog": 7}.items():
        assert page[f"pulsar_{name}"] == [(BY_TOPIC, value)], name
    assert page["pulsar_topics_count"] == [(BY_NAMESPACE, 1)]


def test_limits_that_protect_the_broker_have_a_series_each() -> None:
    page = samples(FIGURES)
    assert page["magnetar_unauthenticated_connections"] == [(CLUSTER, 6)]
    reached = {**CLUSTER, "limit": "slow_reader"}
    assert page["magnetar_limits_reached_total"] == [(reached, 4)]


def test_a_subscription_has_its_own_series() -> None:
    page = samples(FIGURES)
    labels = {**BY_TOPIC, "subscription": "billing"}
    expected = {
        "subscription_back_log": 7,
        "subscription_back_log_no_delayed": 5,
        "subscription_delayed": 2,
        "subscription_storage_backlog_size": 70,
        "subscription_storage_backlog_age_seconds": 1.5,
        "subscription_blocked_on_unacked_messages": 1,
        "subscription_msg_rate_redeliver": 0.5,
        "subscription_unacked_messages": 4,
        "subscription_in_replay": 1,
        "subscription_msg_rate_out": 3.5,
        "subscription_msg_throughput_out": 35,
        "subscription_consumers_count": 2,
        "out_messages_total": 12,
        "out_bytes_total": 120,
    }
    for name, value in expected.items():
        assert page[f"pulsar_{name}"] == [(labels, value)], name


def test_metrics_of_a_compacted_topic() -> None:
    assert "pulsar_compaction_succeed_count" not in samples(FIGURES)
    done = CompactionFigures(succeeded=2, failed=1, duration_ms=40, entries=5, size=500)
    page = samples(replace(FIGURES, topics=(FIGURES.topics[0]._replace(compactions=done),)))
    for name, value in {
        "succeed_count": 2,
        "failed_count": 1,
        "duration_time_in_mills": 40,
        "compacted_entries_count": 5,
        "compacted_entries_size": 500,
    }.items():
        assert page[f"pulsar_compaction_{name}"] == [(BY_TOPIC, value)], name


def test_metrics_of_backlog_quotas() -> None:
    assert "pulsar_storage_backlog_quota_limit" not in samples(FIGURES)
    limited = FIGURES.topics[0]._replace(quotas=Quotas(size=1000), evictions=(3, 1))
    page = samples(replace(FIGURES, topics=(limited,)))
    assert page["pulsar_storage_backlog_quota_exceeded_evictions_total"] == [
        (BY_TOPIC | {"quota_type": "size"}, 3),
        (BY_TOPIC | {"quota_type": "time"}, 1),
    ]
    assert page["pulsar_storage_backlog_quota_limit"] == [(BY_TOPIC, 1000)]
    assert "pulsar_storage_backlog_quota_limit_time" not in page
    limited = limited._replace(quotas=Quotas(size=0, age=60))
    page = samples(replace(FIGURES, topics=(limited,)))
    assert page["pulsar_storage_backlog_quota_limit"] == [(BY_TOPIC, 0)]
    assert page["pulsar_storage_backlog_quota_limit_time"] == [(BY_TOPIC, 60)]


def test_the_broker_as_a_whole() -> None:
    page = samples(FIGURES)
    installed = {**CLUSTER, "version": VERSION, "commit": commit()}
    assert page["pulsar_version_info"] == [(installed, 1)]
    connection = {**CLUSTER, "broker": "host", "metric": "broker_connection"}
    assert page["pulsar_active_connections"] == [(connection, 5)]
    assert page["pulsar_connection_created_total_count"] == [(connection, 9)]
    assert page["pulsar_connection_closed_total_count"] == [(connection, 4)]
    assert page["pulsar_connection_create_success_count"] == [(connection, 7)]
    assert page["pulsar_connection_create_fail_count"] == [(connection, 1)]
    assert page["pulsar_broker_lookup_count"] == [(CLUSTER, 15)]
    assert page["pulsar_broker_lookup_sum"] == [(CLUSTER, 30)]
    assert page["pulsar_broker_lookup_pending_requests"] == [(CLUSTER, 2)]
    assert page["pulsar_broker_lookup_answers_total"] == [(CLUSTER, 8)]
    assert page["pulsar_broker_lookup_redirects_total"] == [(CLUSTER, 4)]
    assert page["pulsar_broker_lookup_failures_total"] == [(CLUSTER, 3)]
    assert page["pulsar_topic_load_times_count"] == [(CLUSTER, 5)]
    assert page["pulsar_topic_load_times_sum"] == [(CLUSTER, 50)]
    assert page["pulsar_broker_topic_load_pending_requests"] == [(CLUSTER, 1)]
    assert page["pulsar_ml_cache_hits_rate"] == [(CLUSTER, 4)]
    assert page["pulsar_ml_cache_misses_rate"] == [(CLUSTER, 2)]
    assert page["magnetar_publish_pending_bytes"] == [(CLUSTER, 11)]
    assert page["pulsar_ml_cache_used_size"] == [(CLUSTER, 13)]
    assert page["pulsar_ml_cache_entries"] == [(CLUSTER, 3)]
    assert page["pulsar_ml_cache_evictions"] == [(CLUSTER, 4)]
    assert page["pulsar_ml_count"] == [(CLUSTER, 1)]
    assert page["magnetar_read_bytes"] == [(CLUSTER, 17)]
    assert page["magnetar_read_limit_bytes"] == [(CLUSTER, 19)]
    assert page["magnetar_reads_waiting"] == [(CLUSTER, 2)]
    assert page["magnetar_read_dropped_bytes_total"] == [(CLUSTER, 23)]
    assert page["magnetar_unread_bytes"] == [(CLUSTER, 29)]
    assert page["magnetar_unread_limit_bytes"] == [(CLUSTER, 31)]
    assert page["magnetar_unread_deleted_bytes_total"] == [(CLUSTER, 37)]
    assert page["magnetar_offloaded_bytes_total"] == [(CLUSTER, 41)]
    assert page["brk_ledgeroffloader_offload_error"] == [(CLUSTER, 1)]
    assert page["brk_ledgeroffloader_read_bytes"] == [(CLUSTER, 43)]
    assert page["brk_ledgeroffloader_read_offload_error"] == [(CLUSTER, 2)]
    assert page["brk_ledgeroffloader_delete_offload_ops"] == [(CLUSTER, 3)]
    for name, value in {**LOADS, "msg_backlog": 7, "topics_count": 1}.items():
        assert page[f"pulsar_broker_{name}"] == [(CLUSTER, value)], name


def read(page: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples of a part of the page, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_logs_of_a_namespace_are_shown_whether_its_topics_are_or_not() -> None:
    for by_topic in (True, False):
        page = samples(replace(FIGURES, by_topic=by_topic))
        assert page["pulsar_ml_AddEntryMessagesRate"] == [(BY_NAMESPACE, 1.5)]
        assert page["pulsar_ml_AddEntryBytesRate"] == [(BY_NAMESPACE, 15)]
        assert page["pulsar_ml_ReadEntriesRate"] == [(BY_NAMESPACE, 6)]
        assert page["pulsar_ml_ReadEntriesOpsCacheMissesRate"] == [(BY_NAMESPACE, 2)]
        assert page["pulsar_ml_NumberOfMessagesInBacklog"] == [(BY_NAMESPACE, 7)]
        assert page["pulsar_ml_StoredMessagesSize"] == [(BY_NAMESPACE, 180)]


def test_the_mean_size_of_a_topic_s_messages() -> None:
    assert samples(FIGURES)["pulsar_average_msg_size"] == [(BY_TOPIC, 10)]
    (topic,) = FIGURES.topics
    idle = topic._replace(load=topic.load._replace(rate_in=0.0, throughput_in=0.0))
    page = samples(replace(FIGURES, topics=(idle,)))
    assert page["pulsar_average_msg_size"] == [(BY_TOPIC, 0)]


def test_what_the_process_uses_of_the_machine() -> None:
    page = read(of_usage(Usage(12.5, 25), FIGURES))
    labels = {**CLUSTER, "broker": "host", "metric": "loadBalancing"}
    assert page == {
        "pulsar_lb_cpu_usage": [(labels, 12.5)],
        "pulsar_lb_memory_usage": [(labels, 25)],
    }
    used = UsageMeter(now_ms=1000).usage(now_ms=1_000_000_000)
    assert 0 <= used.cpu < 100
    assert 0 < used.memory < 100


def test_what_is_done_with_schemas_by_namespace() -> None:
    clock = ManualClock()
    counts = SchemaCounts(clock)
    assert read(of_schemas(counts, "standalone")) == read(of_schemas(None, "standalone")) == {}
    with counts.doing(Work.PUT, "public/default"):
        clock.set_forward(20)
    with pytest.raises(ValueError, match="broken"), counts.doing(Work.GET, "public/default"):
        raise ValueError("broken")
    counts.of("public/default").incompatible += 1
    page = read(of_schemas(counts, "standalone"))
    expected = {
        "pulsar_schema_put_ops_latency_count": 1,
        "pulsar_schema_put_ops_latency_sum": 20,
        "pulsar_schema_put_ops_failed_total": 0,
        "pulsar_schema_get_ops_latency_count": 1,
        "pulsar_schema_get_ops_failed_total": 1,
        "pulsar_schema_del_ops_latency_count": 0,
        "pulsar_schema_compatible_total": 0,
        "pulsar_schema_incompatible_total": 1,
    }
    for name, value in expected.items():
        assert page[name] == [(BY_NAMESPACE, value)], name


def test_schemas_of_very_many_namespaces_are_counted_together() -> None:
    counts = SchemaCounts(ManualClock())
    for number in range(MAX_NAMESPACES + 10):
        with counts.doing(Work.GET, f"public/{number}"):
            pass
    done = {name: one.durations[Work.GET].count for name, one in counts.all()}
    assert len(done) == MAX_NAMESPACES + 1
    assert done["other"] == 10


def test_stalls_by_what_is_in_the_way() -> None:
    page = samples(FIGURES)
    damage, nothing = {**CLUSTER, "blocker": "damage"}, {**CLUSTER, "blocker": "none"}
    assert page["magnetar_subscription_stalled"] == [(damage, 1), (nothing, 0)]
    assert page["magnetar_subscription_stalled_total"] == [(damage, 4), (nothing, 2)]


def test_the_process_is_there_under_the_cluster_s_label() -> None:
    page = samples(FIGURES)
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "python_info"):
        ((labels, value),) = page[name]
        assert labels["cluster"] == "standalone"
        assert value > 0


def test_namespaces_add_their_topics_up() -> None:
    other = "persistent://public/default/other"
    elsewhere = "non-persistent://tenant/ns/volatile"
    topics = (
        FIGURES.topics[0],
        TopicFigures(other, "public/default", LOAD, (SUBSCRIPTION,)),
        TopicFigures(elsewhere, "tenant/ns", LOAD._replace(backlog=0), ()),
    )
    page = samples(replace(FIGURES, topics=topics, by_topic=False))
    there = {"cluster": "standalone", "namespace": "tenant/ns"}
    for name, value in {**LOADS, **TOTALS, "topics_count": 1}.items():
        assert page[f"pulsar_{name}"] == [(BY_NAMESPACE, 2 * value), (there, value)], name
    local = {"remote_cluster": "local"}
    assert page["pulsar_msg_backlog"] == [(BY_NAMESPACE | local, 14), (there | local, 0)]
    assert page["pulsar_broker_storage_size"] == [(CLUSTER, 540)]
    assert page["pulsar_subscription_delayed"] == [(BY_NAMESPACE, 0), (there, 0)]
    assert not [labels for some in page.values() for labels, _ in some if "topic" in labels]


def test_what_is_not_known_is_not_there() -> None:
    unknown = SUBSCRIPTION._replace(
        backlog=None, unacked=None, in_replay=None, messages_out=None, bytes_out=None
    )
    topics = (
        TopicFigures(TOPIC, "public/default", LOAD._replace(backlog=None), (unknown,)),
        TopicFigures(TOPIC + "2", "public/default", LOAD, (SUBSCRIPTION,)),
    )
    page = samples(replace(FIGURES, topics=topics))
    for name in (
        "subscription_back_log",
        "subscription_unacked_messages",
        "subscription_in_replay",
        "out_messages_total",
        "out_bytes_total",
    ):
        ((labels, _),) = page[f"pulsar_{name}"]
        assert labels["topic"] == TOPIC + "2"
    ((labels, _),) = page["pulsar_msg_backlog"]
    assert labels["topic"] == TOPIC + "2"
    assert "pulsar_broker_msg_backlog" not in page
    assert "pulsar_msg_backlog" not in samples(replace(FIGURES, topics=topics, by_topic=False))


def test_a_broker_without_topics_still_has_totals() -> None:
    page = samples(replace(FIGURES, topics=()))
    assert page["pulsar_broker_topics_count"] == [(CLUSTER, 0)]
    assert page["pulsar_broker_msg_backlog"] == [(CLUSTER, 0)]
    assert "pulsar_topics_count" not in page


def test_the_journal_s_rounds() -> None:
    stats = JournalStats()
    stats.observe(1, 100, 0.004)
    stats.observe(30, 3000, None)
    page = samples(FIGURES, stats)
    buckets = {
        labels["le"]: value for labels, value in page["magnetar_journal_round_records_bucket"]
    }
    assert (buckets["1"], buckets["20"], buckets["50"], buckets["+Inf"]) == (1, 1, 2, 2)
    assert page["magnetar_journal_round_records_sum"] == [(CLUSTER, 31)]
    assert page["magnetar_journal_fsync_seconds_count"] == [(CLUSTER, 1)]
    assert page["magnetar_journal_fsync_seconds_sum"] == [(CLUSTER, 0.004)]
    assert page["magnetar_journal_bytes_total"] == [(CLUSTER, 3100)]


def test_stretches_of_the_loop_by_cause() -> None:
    stats = LoopStats()
    stats.observe("read", 0.0003)
    stats.observe("read", 0.03)
    stats.observe("checkpoint", 0.002)
    page = samples(FIGURES, loop=stats)
    name = "magnetar_loop_stretch_seconds"
    buckets = {(labels["cause"], labels["le"]): value for labels, value in page[f"{name}_bucket"]}
    assert (buckets["read", "0.0005"], buckets["read", "+Inf"]) == (1, 2)
    assert (buckets["checkpoint", "0.001"], buckets["checkpoint", "0.002"]) == (0, 1)
    assert {labels["cause"] for labels, _ in page[f"{name}_count"]} == set(get_args(Cause))


def test_each_name_is_declared_once() -> None:
    whole = *parts(FIGURES, JournalStats().figures(), LoopStats().figures()), process_part("c")
    page = b"".join(whole).decode()
    declared = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(declared) == len(set(declared))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_survives_as_a_label(text: str) -> None:
    subscription = SUBSCRIPTION._replace(name=text)
    topic = TopicFigures(f"persistent://t/n/{text}", "t/n", LOAD, (subscription,))
    labels = {"cluster": "standalone", "namespace": "t/n", "topic": topic.name,
              "subscription": text}  # fmt: skip
    page = samples(replace(FIGURES, topics=(topic,)))
    assert page["pulsar_subscription_back_log"] == [(labels, 7)]


def test_no_part_of_the_page_has_more_than_a_slice() -> None:
    topics = tuple(
        TopicFigures(f"persistent://t/n{number % 3}/{number}", f"t/n{number % 3}", LOAD,
                     (SUBSCRIPTION, SUBSCRIPTION._replace(name="shipping")))
        for number in range(2 * SLICE + 1)
    )  # fmt: skip
    figures = replace(FIGURES, topics=topics)
    page = list(parts(figures, JournalStats().figures(), LoopStats().figures()))
    samples_of_tables = [part for part in page if not part.startswith(b"# HELP magnetar_")]
    assert max(part.count(b"\n") for part in samples_of_tables) == SLICE
    found = samples(figures)
    assert len(found["pulsar_subscription_back_log"]) == 2 * len(topics)
    assert found["pulsar_broker_topics_count"] == [(CLUSTER, len(topics))]
    by_namespace = {labels["namespace"]: n for labels, n in found["pulsar_topics_count"]}
    assert by_namespace == {f"t/n{n}": len(topics[n::3]) for n in range(3)}


@pytest.mark.parametrize("by_topic", [True, False])
@pytest.mark.parametrize("shown", [True, False])
def test_many_namespaces_are_summed_up_a_slice_at_a_time(
    by_topic: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = labels = 0

    def counted(loads: Iterable[Load]) -> Load:
        nonlocal added
        added += len(present := list(loads))
        return total(present)

    def label(text: str) -> str:
        nonlocal labels
        labels += 1
        return text

    monkeypatch.setattr(prometheus, "total", counted)
    monkeypatch.setattr(prometheus, "escaped", label)
    topics = tuple(
        TopicFigures(f"persistent://t/n{number}/orders", f"t/n{number}", LOAD, ())
        for number in range(3 * SLICE)
    )
    figures = replace(
        FIGURES, by_topic=by_topic, topics=topics if shown else (), others=() if shown else topics
    )
    most_added = most_labels = 0
    for _ in parts(figures, JournalStats().figures(), LoopStats().figures()):
        most_added, most_labels = max(most_added, added), max(most_labels, labels)
        added = labels = 0
    assert 0 < most_added <= 2 * SLICE, "each is added to the sum of the others"
    assert 0 < most_labels <= 2 * SLICE, "a namespace and a topic"


def test_consumers_and_producers() -> None:
    consumer = ConsumerFigures("c", 1, Consuming(2.0, 20.0, 0.5, 1.5), 3, True, 9)
    subscription = SUBSCRIPTION._replace(members=(consumer,))
    producer = ProducerFigures("p", 7, Publishing(4.0, 400.0))
    topic = FIGURES.topics[0]._replace(subscriptions=(subscription,), producers=(producer,))
    page = samples(replace(FIGURES, topics=(topic,)))
    labels = {**BY_TOPIC, "subscription": "billing", "consumer_name": "c", "consumer_id": "1"}
    for name, value in {
        "msg_rate_out": 2,
        "msg_throughput_out": 20,
        "msg_rate_redeliver": 0.5,
        "msg_ack_rate": 1.5,
        "unacked_messages": 3,
        "blocked_on_unacked_messages": 1,
        "available_permits": 9,
    }.items():
        assert page[f"pulsar_consumer_{name}"] == [(labels, value)], name
    labels = {**BY_TOPIC, "producer_name": "p", "producer_id": "7"}
    for name, value in {"rate_in": 4, "throughput_in": 400, "average_Size": 100}.items():
        assert page[f"pulsar_producer_msg_{name}"] == [(labels, value)], name


def test_times_and_throttling_of_a_subscription() -> None:
    events = ThrottleEvents()
    events.messages["topic"] += 2
    times = Times(acked=1000, consumed=2000)
    subscription = SUBSCRIPTION._replace(times=times, throttled=events, expired=6)
    page = samples(
        replace(FIGURES, topics=(FIGURES.topics[0]._replace(subscriptions=(subscription,)),))
    )
    labels = {**BY_TOPIC, "subscription": "billing"}
    assert page["pulsar_subscription_last_acked_timestamp"] == [(labels, 1000)]
    assert page["pulsar_subscription_last_consumed_timestamp"] == [(labels, 2000)]
    assert "pulsar_subscription_last_expire_timestamp" not in page
    assert page["pulsar_subscription_total_msg_expired"] == [(labels, 6)]
    name = "pulsar_subscription_dispatch_throttled_msg_events"
    throttled = {of["reason"]: value for of, value in page[name]}
    assert throttled == {"subscription": 0, "topic": 2, "broker": 0}


def test_the_number_of_a_partition_is_a_label_of_its_own_if_that_is_set() -> None:
    topics = tuple(
        TopicFigures(f"{TOPIC}{end}", "public/default", LOAD, ())
        for end in ("", "-partition-3", "-partition-x")
    )
    page = samples(replace(FIGURES, topics=topics, split_partitions=True))
    found = [(labels["topic"], labels["partition"]) for labels, _ in page["pulsar_rate_in"]]
    assert found == [(TOPIC, "-1"), (TOPIC, "3"), (f"{TOPIC}-partition-x", "-1")]


def test_topics_beyond_the_limit_are_shown_in_sums() -> None:
    other = TopicFigures(f"{TOPIC}2", "public/default", LOAD, ())
    figures = replace(
        FIGURES, others=(other, other), other_totals={"public/default": (100, 1000, 50, 500)}
    )
    page = samples(figures)
    rest = BY_TOPIC | {"topic": "other"}
    assert page["pulsar_rate_in"] == [(BY_TOPIC, 1.5), (rest, 3)]
    assert page["pulsar_in_messages_total"] == [(BY_TOPIC, 20), (rest, 100)]
    rest |= {"subscription": "other"}
    assert (rest, 14) in page["pulsar_subscription_back_log"]
    assert (rest, 50) in page["pulsar_out_messages_total"]
    assert page["pulsar_broker_rate_in"] == [(CLUSTER, 4.5)]
    assert page["pulsar_topics_count"] == [(BY_NAMESPACE, 3)]
    shown = {labels["shown"]: value for labels, value in page["magnetar_topics_shown"]}
    assert shown == {"alone": 1, "other": 2}


def test_writes_by_topic_in_sums_and_of_the_broker() -> None:
    time = WriteTime(LATENCY_BOUNDS_MS)
    time.set_seconds(0.003)
    counts = WriteCounts(time)
    counts.count(6, 600)
    counts.close_window()
    (topic,) = FIGURES.topics
    wrote = topic._replace(writes=counts.window)
    figures = replace(FIGURES, topics=(wrote,), others=(wrote, topic), window_seconds=3)
    page = samples(figures)
    found = {labels["topic"]: n for labels, n in page["pulsar_storage_write_latency_le_5"]}
    assert found == {topic.name: 6, "other": 6}
    assert {n for _, n in page["pulsar_storage_write_rate"]} == {2}
    assert page["pulsar_broker_storage_write_rate"][0][1] == 4
    assert page["pulsar_broker_publish_latency_count"][0][1] == 12
    assert page["pulsar_broker_publish_latency_sum"][0][1] == approx(36)
    page = samples(replace(figures, by_topic=False))
    ((labels, value),) = page["pulsar_entry_size_le_128"]
    assert (labels, value) == ({"cluster": "standalone", "namespace": "public/default"}, 12)
    assert "pulsar_entry_size_count" not in samples(FIGURES)
    assert "pulsar_broker_publish_latency" not in samples(FIGURES)
