"""Metrics and health of a broker of several workers, one of which is stopped for a while."""

import os
import re
import signal
from collections.abc import Callable
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from admin_http import Admin
from official import connect, publish
from running_broker import RunningBroker

TOPICS = [f"persistent://public/default/topic-{number}" for number in range(9)]
PROCESSES = {"controller", "worker-0", "worker-1", "worker-2"}
Make = Callable[..., RunningBroker]


def scrape(broker: RunningBroker, up: int) -> dict[str, list[Sample]]:
    """Return all samples by name, of a page of `up` workers; a slow worker is omitted."""
    while workers(samples := scrape_now(broker))["up"] != up:
        pass
    return samples


def scrape_now(broker: RunningBroker) -> dict[str, list[Sample]]:
    """Return all samples by name, after checking that no series is repeated."""
    with urlopen(f"{broker.http_url}/metrics") as answer:
        page = answer.read().decode()
    samples: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample)
    for name, some in samples.items():
        series = {frozenset(sample.labels.items()) for sample in some}
        assert len(series) == len(some), name
    return samples


def workers(samples: dict[str, list[Sample]]) -> dict[str, float]:
    return {sample.labels["state"]: sample.value for sample in samples["magnetar_workers"]}


def test_one_page_and_one_health_check_for_all_workers(make_broker: Make) -> None:
    # The session timeout would end the stopped worker.
    broker = make_broker(magnetarWorkers="3", metadataStoreSessionTimeoutMillis="3600000")
    client = connect(broker.service_url)
    for topic in TOPICS:
        publish(client.create_producer(topic), "one", "two")
    samples = scrape(broker, up=3)
    assert workers(samples) == {"up": 3, "down": 0}
    topics = {
        sample.labels["topic"]: sample.value for sample in samples["pulsar_in_messages_total"]
    }
    assert topics == dict.fromkeys(TOPICS, 2)
    (count,) = samples["pulsar_broker_topics_count"]
    assert count.value == len(TOPICS)
    for name in ("process_resident_memory_bytes", "magnetar_loop_stretch_seconds_count"):
        assert {sample.labels["process"] for sample in samples[name]} == PROCESSES, name
    journals = samples["magnetar_journal_bytes_total"]
    assert {sample.labels["process"] for sample in journals} == PROCESSES - {"controller"}
    assert all(sample.value > 0 for sample in journals)
    admin = Admin(broker)
    assert admin.get("brokers/health").body == b"ok"
    pid = int(re.findall(r"worker-1 is process (\d+)", broker.log)[-1])
    os.kill(pid, signal.SIGSTOP)
    try:
        samples = scrape(broker, up=2)
        assert workers(samples) == {"up": 2, "down": 1}
        (count,) = samples["pulsar_broker_topics_count"]
        assert 0 < count.value < len(TOPICS) + len(PROCESSES)
        health = admin.get("brokers/health")
        assert (health.status, health.reason.partition(" ")[0]) == (503, "worker-1"), health.reason
        assert admin.get("brokers/ready").status == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    assert admin.get("brokers/health").body == b"ok"
    assert workers(scrape(broker, up=3)) == {"up": 3, "down": 0}
    client.close()
