"""A broker that offloads ledgers to a directory, as an administrator sees it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from admin_command import answered, done
from admin_http import Admin
from fakes.waiting import until
from official import connect, publish, take, texts
from running_broker import RunningBroker

SMALL_LEDGERS = {
    "managedLedgerMaxEntriesPerLedger": "10",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
}
ALWAYS = {"retentionCheckIntervalInSeconds": "1"}
NAMESPACE = "public/default"
SENT = [f"m{number}" for number in range(35)]


def files(directory: Path) -> list[Path]:
    """The files of ledgers, here or as objects."""
    return sorted(directory.rglob("*.seg"))


async def published(broker: RunningBroker, topic: str) -> None:
    """Publish to a subscription that acknowledges nothing; one ledger at least is closed then."""
    client = connect(broker.service_url)
    client.subscribe(topic, "sub")
    publish(client.create_producer(topic, batching_enabled=False), *SENT)
    client.close()
    await until(lambda: len(ledgers_of(broker, topic)) > 1, "a ledger is closed")


def ledgers_of(broker: RunningBroker, topic: str) -> list[dict[str, Any]]:
    """The ledgers of a topic, the oldest first."""
    found: list[dict[str, Any]]
    found = Admin(broker).get(f"{path_of(topic)}/internalStats").json["ledgers"]
    return found


def path_of(topic: str) -> str:
    return topic.replace("://", "/", 1)


@pytest.mark.parametrize("workers", ["1", "3"])
async def test_a_topic_is_offloaded_deleted_here_and_read_again(
    make_broker: Callable[..., RunningBroker], topic: str, tmp_path: Path, workers: str
) -> None:
    cold = tmp_path / "cold"
    cold.mkdir()
    broker = make_broker(
        magnetarWorkers=workers, fileSystemURI=cold.as_uri(), **SMALL_LEDGERS, **ALWAYS
    )
    admin, path = Admin(broker), path_of(topic)
    await published(broker, topic)
    directory = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": cold.as_uri()}
    assert admin.post(f"namespaces/{NAMESPACE}/offloadPolicies", directory).status == 204
    assert "triggered" in done(broker, "topics", "offload", topic, "-s", "1")
    status = answered(broker, "topics", "offload-status", topic, "-w")
    assert (status["status"], status["lastError"]) == ("SUCCESS", "")
    # The ledger that was the last one for the command may have been closed since then.
    first, ledgers = status["firstUnoffloadedMessage"]["ledgerId"], ledgers_of(broker, topic)
    offloaded = [ledger for ledger in ledgers if ledger["offloaded"]]
    assert offloaded == [ledger for ledger in ledgers if ledger["ledgerId"] < first] != []
    size = sum(ledger["size"] for ledger in offloaded)
    stats = admin.get(f"{path}/stats").json
    assert stats["offloadedStorageSize"] == size
    assert stats["lastOffloadLedgerId"] == offloaded[-1]["ledgerId"]
    assert f"{path_metric(broker)} {size}" in page_of(broker)
    assert len(files(cold)) == len(offloaded)
    done(broker, "namespaces", "set-offload-deletion-lag", NAMESPACE, "-l", "0")
    gone = {f"{ledger['ledgerId']:016x}.seg" for ledger in offloaded}
    await until(
        lambda: not gone & {file.name for file in files(broker.data_dir)},
        "offloaded ledgers are deleted here",
    )
    broker.stop()
    broker.start()
    client = connect(broker.service_url)
    assert texts(take(client.subscribe(topic, "sub"), len(SENT))) == SENT
    client.close()
    done(broker, "topics", "delete", topic, "-f")
    await until(lambda: not files(cold), "objects of a deleted topic are deleted")


def path_metric(broker: RunningBroker) -> str:
    """The beginning of the line with the offloaded size of the only topic that has one."""
    (line,) = (
        line
        for line in page_of(broker).splitlines()
        if line.startswith("pulsar_storage_offloaded_size{") and not line.endswith(" 0")
    )
    return line.rpartition(" ")[0]


def page_of(broker: RunningBroker) -> str:
    with urlopen(f"{broker.http_url}/metrics") as page:
        return str(page.read().decode())


async def test_settings_and_thresholds_offload_by_themselves(
    make_broker: Callable[..., RunningBroker], topic: str, tmp_path: Path
) -> None:
    cold = tmp_path / "cold"
    cold.mkdir()
    broker = make_broker(
        managedLedgerOffloadDriver="filesystem",
        fileSystemURI=cold.as_uri(),
        **SMALL_LEDGERS,
        **ALWAYS,
    )
    await published(broker, topic)
    assert not files(cold)
    done(broker, "namespaces", "set-offload-threshold", NAMESPACE, "-s", "0")
    closed = len(ledgers_of(broker, topic)) - 1
    await until(lambda: len(files(cold)) >= closed, "closed ledgers are offloaded")
    assert files(broker.data_dir), "the lag of four hours has not passed"
