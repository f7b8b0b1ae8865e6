"""Whole pages of a running broker, as Prometheus reads them, and the dashboards based on them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar_broker.metrics.rows import TLS_ROWS
from running_broker import RunningBroker

ROOT = Path(__file__).resolve().parents[4]
DASHBOARDS = sorted((ROOT / "docker" / "grafana" / "dashboards").glob("*.json"))
ALERTS = ROOT / "docker" / "alerts.yml"
METRICS = ROOT / "docs" / "metrics.md"
RUNBOOKS = ROOT / "docs" / "alerts.md"
NAME = re.compile(r"\b(?:pulsar|magnetar|process)_\w+")
SETTINGS = {
    "statsUpdateFrequencyInSecs": "1",
    "exposeConsumerLevelMetricsInPrometheus": "true",
    "exposeProducerLevelMetricsInPrometheus": "true",
    "backlogQuotaDefaultLimitBytes": "1000000",
}
DASHBOARD_NAMES = {
    "gauge": """
        version_info topics_count subscriptions_count producers_count consumers_count
        rate_in rate_out throughput_in throughput_out msg_backlog
        storage_size storage_backlog_size storage_write_rate storage_read_rate
        storage_backlog_quota_limit subscription_back_log subscription_delayed
        subscription_msg_rate_out subscription_msg_throughput_out
        storage_write_latency_le_0_5 storage_write_latency_le_1 storage_write_latency_le_5
        storage_write_latency_le_10 storage_write_latency_le_20 storage_write_latency_le_50
        storage_write_latency_le_100 storage_write_latency_le_200 storage_write_latency_le_1000
        storage_write_latency_overflow storage_write_latency_count storage_write_latency_sum
        entry_size_le_128 entry_size_le_512 entry_size_le_1_kb entry_size_le_2_kb
        entry_size_le_4_kb entry_size_le_16_kb entry_size_le_100_kb entry_size_le_1_mb
        entry_size_le_overflow average_msg_size active_connections
        lb_cpu_usage lb_memory_usage ml_count ml_AddEntryMessagesRate ml_ReadEntriesRate
        ml_StoredMessagesSize ml_cache_used_size ml_cache_entries ml_cache_hits_rate""",
    "summary": """
        broker_publish_latency broker_lookup_count topic_load_times_count
        schema_get_ops_latency_count schema_put_ops_latency_count""",
    "counter": """
        in_messages_total in_bytes_total out_messages_total out_bytes_total
        schema_put_ops_failed_total schema_compatible_total""",
}
"""The metrics, without `pulsar_`, that public dashboards for Pulsar use most and we have."""
ENDINGS = ("_bucket", "_count", "_sum", "_total")


def check(page: str) -> dict[str, str]:
    """Return the type of every metric of a page, by the names of its samples.

    Checks that each is declared once, before its samples, and that no sample is repeated.
    """
    types: dict[str, str] = {}
    present = ""
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            present, kind = line.split(" ")[2:]
            assert present not in types, present
            types[present] = kind
        elif not line.startswith("#"):
            name = re.split("[{ ]", line, maxsplit=1)[0]
            assert name == present or (
                types[present] in ("histogram", "summary")
                and name.removeprefix(present) in ("_bucket", "_count", "_sum")
            ), line
    found: dict[str, str] = {}
    seen = set()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in seen, key
            seen.add(key)
            found[sample.name] = family.type
            assert sample.labels["cluster"] == "standalone"
    return found


def expressions(of: Path) -> list[str]:
    """Return the queries of a dashboard, or of the alerts."""
    text = of.read_text()
    if of == ALERTS:
        return re.findall(r"expr: (?:>\n)?(.*?)\n +for:", text, flags=re.DOTALL)
    board = json.loads(text)
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    return queries + [variable["definition"] for variable in board["templating"]["list"]]


def names_in(of: Path) -> set[str]:
    return {name for expression in expressions(of) for name in NAME.findall(expression)}


def written_page(broker: RunningBroker, producers: list[Any]) -> str:
    """Publish; return the page once it has what all topics wrote in the last window."""
    for producer in producers:
        producer.send(b"more")
    page = broker.metrics
    labels = re.findall(r"pulsar_entry_size_count{(.*)}", page)
    by_topic = [line for line in labels if "topic=" in line]
    is_complete = len(by_topic) == len(producers) if by_topic else bool(labels)
    return page if is_complete else ""


@pytest.fixture
def used(make_broker: Callable[..., RunningBroker]) -> Callable[..., str]:
    """Return a function for the page of a broker in which every possible sample has a value."""

    def page(**settings: str) -> str:
        broker, producers = make_broker(**SETTINGS, **settings), []
        client = pulsar.Client(broker.service_url)
        try:
            for local in ("one", "two", "three"):
                kind = pulsar.ConsumerType.Shared
                consumer = client.subscribe(local, "sub", consumer_type=kind)
                producers.append(client.create_producer(local))
                producers[-1].send(b"payload")
                consumer.acknowledge(consumer.receive())
            client.create_producer("four", schema=pulsar.schema.StringSchema())
            while not (page := written_page(broker, producers)):
                pass
            return page
        finally:
            client.close()

    return page


@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.parametrize("by_topic", ["true", "false"])
def test_pages_are_valid(used: Callable[..., str], workers: str, by_topic: str) -> None:
    types = check(used(magnetarWorkers=workers, exposeTopicLevelMetricsInPrometheus=by_topic))
    shows = by_topic == "true"
    assert ("pulsar_consumer_available_permits" in types) is shows
    assert ("pulsar_producer_msg_rate_in" in types) is shows
    assert types["pulsar_rate_in"] == "gauge"
    assert types["pulsar_in_messages_total"] == "counter"
    assert types["pulsar_broker_publish_latency"] == "summary"
    assert types["magnetar_journal_fsync_seconds_bucket"] == "histogram"
    of_topics = ("average_msg_size", "storage_backlog_quota_limit")
    for kind, names in DASHBOARD_NAMES.items():
        for name in names.split():
            if shows or not (name in of_topics or name.startswith("subscription_")):
                assert types.get(f"pulsar_{name}") == kind, name
    known = METRICS.read_text()
    for name in types:
        if not name.startswith(("process_", "python_")):
            whole = name if name in known else re.sub("_(bucket|count|sum|created)$", "", name)
            assert re.search(rf"\b{whole}\b", known), f"{name} is not in docs/metrics.md"


def test_dashboards_and_alerts_use_names_that_a_page_has(
    used: Callable[..., str],
) -> None:
    types = check(used(magnetarWorkers="3"))
    tls = {row.name for row in TLS_ROWS}
    assert DASHBOARDS
    for of in (*DASHBOARDS, ALERTS):
        assert expressions(of)
        for name in names_in(of):
            # Metrics of TLS are present if a port uses it (test_tls.py).
            assert name in types or name in tls, f"{name} in {of.name}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_panels_of_a_dashboard_do_not_overlap(path: Path) -> None:
    board = json.loads(path.read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_every_alert_has_a_runbook() -> None:
    text = ALERTS.read_text()
    names = re.findall(r"- alert: (\w+)", text)
    runbooks = re.findall(r"runbook: docs/alerts.md#(\w+)", text)
    assert names and [name.lower() for name in names] == runbooks
    assert len(re.findall(r"\n +expr: ", text)) == len(names) == len(expressions(ALERTS))
    assert re.findall(r"^## (.+)$", RUNBOOKS.read_text(), re.MULTILINE) == names
