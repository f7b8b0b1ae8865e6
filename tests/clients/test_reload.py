"""Official clients while the workers are restarted one by one with a changed configuration."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from admin_http import Admin
from clients.traffic import undisturbed
from crash.victims import pids_of
from magnetar_proto import PulsarApi_pb2 as pb
from moving import move, owner_of
from raw_client import RawClient
from running_broker import RunningBroker

WORKERS = 3
BEFORE = "maxConsumerMetadataSize=1024\n"
AFTER = """\
maxConsumerMetadataSize=10
subscriptionKeySharedEnable=false
clusterName=other
"""
LARGE = [pb.KeyValue(key="a property", value="of more than ten bytes")]
REFUSALS = (pb.MetadataError, pb.NotAllowedError)
DONE = "all workers have the changed configuration"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration file of the broker."""
    path = tmp_path / "broker.conf"
    path.write_text(BEFORE)
    return path


@pytest.fixture
def broker(make_broker: Callable[..., RunningBroker], conf: Path) -> RunningBroker:
    return make_broker(conf=conf, magnetarWorkers=str(WORKERS))


def can_subscribe(broker: RunningBroker, topic: str, **options: Any) -> bool:
    """Whether the owner accepts it.  Official clients try again what is refused."""
    with RawClient.of_topic(broker.port, topic) as client:
        answer = client.subscribe(topic, "s", **options)
    if isinstance(answer, pb.CommandError):
        assert answer.error in REFUSALS, answer
    return isinstance(answer, pb.CommandSuccess)


def owners(broker: RunningBroker) -> dict[str, bytes]:
    return {
        f"worker-{number}": Admin(broker)
        .get(f"brokers/standalone/worker-{number}/ownedNamespaces")
        .body
        for number in range(WORKERS)
    }


def test_all_workers_change_and_clients_lose_nothing(
    broker: RunningBroker, conf: Path, topic: str
) -> None:
    parted = f"{topic}-parted"
    assert Admin(broker).put(f"{parted.replace('://', '/')}/partitions", WORKERS).status == 204
    partitions = [f"{parted}-partition-{number}" for number in range(WORKERS)]
    for number, partition in enumerate(partitions):
        move(broker, partition, number)
    homes = [owner_of(broker.port, name) for name in (topic, *partitions)]
    assert all(can_subscribe(broker, name, metadata=LARGE) for name in partitions)
    before, owned = pids_of(broker), owners(broker)
    with undisturbed(broker.service_url, topic) as traffic:
        conf.write_text(AFTER)
        broker.reload()
        while DONE not in broker.log:
            traffic.await_more()
        traffic.await_more()
    after = pids_of(broker)
    assert [name for name in before if after[name] == before[name]] == ["controller"]
    assert [owner_of(broker.port, name) for name in (topic, *partitions)] == homes
    assert owners(broker) == owned
    assert not any(can_subscribe(broker, name, metadata=LARGE) for name in partitions)
    assert not any(
        can_subscribe(broker, name, sub_type=pb.CommandSubscribe.Key_Shared) for name in partitions
    )
    assert all(can_subscribe(broker, name) for name in partitions)
    assert "clusterName is standalone, and needs a restart of the broker" in broker.log
    assert "ERROR" not in broker.log


def test_the_settings_that_are_shown_are_those_of_the_reload(
    broker: RunningBroker, conf: Path
) -> None:
    admin = Admin(broker)
    assert admin.post("brokers/configuration/ttlDurationDefaultInSeconds/7").status == 200
    conf.write_text(AFTER + "ttlDurationDefaultInSeconds=60\n")
    broker.reload()
    wanted = {
        "maxConsumerMetadataSize": ("10", f"{conf}:1"),
        "subscriptionKeySharedEnable": ("false", f"{conf}:2"),
        "clusterName": ("standalone", "default"),
        "ttlDurationDefaultInSeconds": ("7", "dynamic"),
    }
    while (shown := settings_of(broker, wanted)) != wanted:
        assert "ERROR" not in broker.log, shown
    assert admin.delete("brokers/configuration/ttlDurationDefaultInSeconds").status == 200
    assert settings_of(broker, ["ttlDurationDefaultInSeconds"]) == {
        "ttlDurationDefaultInSeconds": ("60", f"{conf}:4")
    }


def test_a_change_that_contradicts_the_reload_is_left_out(
    broker: RunningBroker, conf: Path, topic: str
) -> None:
    admin = Admin(broker)
    for name, value in (("defaultNumPartitions", 10), ("ttlDurationDefaultInSeconds", 7)):
        assert admin.post(f"brokers/configuration/{name}/{value}").status == 200
    conf.write_text("maxNumPartitionsPerPartitionedTopic=4\n")
    broker.reload()
    wanted = {
        "maxNumPartitionsPerPartitionedTopic": ("4", f"{conf}:1"),
        "defaultNumPartitions": ("1", "default"),
        "ttlDurationDefaultInSeconds": ("7", "dynamic"),
    }
    while (shown := settings_of(broker, wanted)) != wanted:
        assert "ERROR" not in broker.log, shown
    assert "not in effect: defaultNumPartitions=10: expected at most" in broker.log
    # Every worker follows, and so do later changes.
    assert admin.post("brokers/configuration/ttlDurationDefaultInSeconds/8").status == 200
    assert settings_of(broker, ["ttlDurationDefaultInSeconds"]) == {
        "ttlDurationDefaultInSeconds": ("8", "dynamic")
    }


def settings_of(broker: RunningBroker, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The value and the source of settings."""
    found = Admin(broker).get("brokers/configuration/explain").json
    return {name: (found[name]["value"], found[name]["source"]) for name in names}


def test_a_configuration_with_an_error_changes_nothing(
    broker: RunningBroker, conf: Path, topic: str
) -> None:
    before = pids_of(broker)
    conf.write_text("maxConsumerMetadataSize=10\nsubscriptionKeySharedEnable=perhaps\n")
    with undisturbed(broker.service_url, topic) as traffic:
        broker.reload()
        while "the configuration cannot be used, and nothing changes" not in broker.log:
            traffic.await_more()
    assert pids_of(broker) == before
    assert can_subscribe(broker, topic, metadata=LARGE)


def test_one_process_needs_a_restart_and_says_so(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(magnetarWorkers="1")
    with undisturbed(broker.service_url, topic) as traffic:
        broker.reload()
        while "SIGHUP: the configuration is not read again" not in broker.log:
            traffic.await_more()
