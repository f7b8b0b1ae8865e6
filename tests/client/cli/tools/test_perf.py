"""`magnetar perf` on a real broker: it sends what it says, and its figures are right."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from admin_http import Admin
from magnetar.cli.tools.perf.latencies import Latencies
from official import connect, take
from running_broker import RunningBroker

COMMAND = str(Path(sys.executable).with_name("magnetar"))
TIMEOUT_S = 120


def new_topic() -> str:
    return f"perf-{uuid.uuid4().hex[:10]}"


def perf(broker: RunningBroker, *arguments: str) -> tuple[dict[str, Any], str]:
    """The summary, and what people see."""
    result = subprocess.run(
        [COMMAND, "perf", *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment(broker),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


def environment(broker: RunningBroker) -> dict[str, str]:
    return os.environ | {
        "MAGNETAR_URL": broker.service_url,
        "MAGNETAR_ADMIN_URL": broker.http_url,
    }


def test_everything_that_is_counted_is_stored_and_comes_back(broker: RunningBroker) -> None:
    topic = new_topic()
    assert Admin(broker).put(f"persistent/public/default/{topic}").status == 204
    assert Admin(broker).put(f"persistent/public/default/{topic}/subscription/s").status == 204
    summary, shown = perf(broker, "produce", topic, "-r", "0", "-s", "50", "-m", "12345")
    assert (summary["messages"], summary["bytes"], summary["failed"]) == (12345, 617250, 0)
    assert (summary["durability"], "durability fsync" in shown) == ("fsync", True)
    latency = summary["latency_ms"]
    whole_ms = summary["seconds"] * 1000 + 1  # it is rounded
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"] <= whole_ms
    received, _ = perf(broker, "consume", topic, "-ss", "s", "-m", "12345")
    assert (received["messages"], received["failed"]) == (12345, 0)
    left = Admin(broker).get(f"persistent/public/default/{topic}/stats").json
    assert left["subscriptions"]["s"]["msgBacklog"] == 0, "every message was acknowledged"


@pytest.mark.parametrize("options", [("-db",), ("-z", "ZSTD"), ("-b", "5", "-bm", "7")])
def test_other_clients_read_what_it_sends(
    broker: RunningBroker, tmp_path: Path, options: tuple[str, ...]
) -> None:
    topic, file = new_topic(), tmp_path / "payload"
    file.write_bytes(b"the payload")
    client = connect(broker.service_url)
    consumer = client.subscribe(topic, "s")
    summary, _ = perf(broker, "produce", topic, "-r", "2000", "-m", "50", "-f", str(file), *options)
    assert (summary["messages"], summary["size"]) == (50, 11)
    assert [message.data() for message in take(consumer, 50)] == [b"the payload"] * 50
    client.close()


def test_topics_partitions_and_producers(broker: RunningBroker) -> None:
    topic = new_topic()
    summary, _ = perf(
        broker, "produce", topic, "-t", "2", "-np", "3", "-n", "2", "-r", "5000", "-m", "600"
    )
    assert (summary["messages"], summary["producers"]) == (600, 4)
    for number in range(2):
        path = f"persistent/public/default/{topic}-{number}/partitions"
        assert Admin(broker).get(path).json["partitions"] == 3
    other = subprocess.run(
        [COMMAND, "perf", "produce", f"{topic}-0", "-np", "4", "-m", "1"],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment(broker),
    )  # fmt: skip
    assert (other.returncode, "has 3 partitions, not 4" in other.stderr) == (1, True)


def test_shared_consumers_divide_what_several_subscriptions_get(broker: RunningBroker) -> None:
    topic = new_topic()
    perf(broker, "produce", topic, "-r", "0", "-m", "3000", "-s", "10")
    summary, _ = perf(
        broker, "consume", topic, "-ns", "2", "-n", "2", "-st", "Shared", "-sp", "Earliest",
        "-m", "6000",
    )  # fmt: skip
    assert (summary["consumers"], summary["messages"]) == (4, 6000)


def test_intervals_are_shown_and_logged(broker: RunningBroker, tmp_path: Path) -> None:
    topic, log = new_topic(), tmp_path / "latencies.hlog"
    summary, shown = perf(
        broker, "produce", topic, "-r", "1000", "-time", "2", "-i", "0.5",
        "--histogram-file", str(log),
    )  # fmt: skip
    lines = [line for line in shown.splitlines() if line.startswith("produced ")]
    assert len(lines) >= 2 and all("msg/s" in line for line in lines)
    assert any(" p99 " in line for line in lines)
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000, 3))
    found = 0
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found += histogram.get_total_count()
    reader.close()
    assert found == summary["messages"] > 0


def test_an_interrupted_run_sums_up(broker: RunningBroker) -> None:
    process = subprocess.Popen(
        [COMMAND, "perf", "produce", new_topic(), "-r", "500", "-i", "0.2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(broker),
    )  # fmt: skip
    assert process.stderr is not None
    while not process.stderr.readline().startswith("produced "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, errors
    summary = json.loads(output)
    assert summary["messages"] > 0 and summary["failed"] == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("produce", "t", "--url", "pulsar://127.0.0.1:1", "--timeout", "0.1"), "cannot connect"),
        (("produce", "t", "-f", "/nowhere"), "/nowhere: No such file"),
        (("produce", "t", "--histogram-file", "/nowhere/x"), "/nowhere/x: No such file"),
        (("produce", "t", "-txn"), "there are no transactions"),
        (("produce", "a/b", "-m", "1"), "'a/b' is not a topic"),
        (("consume", "t", "-st", "nope"), "Invalid value for '-st'"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(arguments: tuple[str, ...], why: str) -> None:
    result = subprocess.run(
        [COMMAND, "perf", *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env=os.environ | {"MAGNETAR_ADMIN_URL": "http://127.0.0.1:1"},
    )  # fmt: skip
    assert result.returncode != 0
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_percentiles_count_messages_and_not_batches() -> None:
    latencies = Latencies(None)
    latencies.record(0.001, 999)
    latencies.record(0.1, 1)
    interval = latencies.end_interval()
    assert interval["p99"] == pytest.approx(1, rel=0.01)
    assert interval["p99.99"] == pytest.approx(100, rel=0.01)
    assert latencies.end_interval() == {}, "an interval begins empty"
    assert latencies.close()["max"] == pytest.approx(100, rel=0.01)
