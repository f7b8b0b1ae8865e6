"""A daemon that moves closed ledgers to a store of objects, and what is left of them where."""

from collections.abc import Collection
from typing import Any

import pulsar

import object_servers
from admin_http import Admin
from fakes.waiting import await_true
from magnetar_broker.server.object_stores.credentials import Credentials
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_storage.local import segment_file
from magnetar_storage.tiered.own_objects import SUFFIX
from official import TIMEOUT_MS
from running_broker import RunningBroker

LEDGER_ENTRIES = 50


def on_request(endpoint: str, prefix: str, secret: str = object_servers.SECRET) -> dict[str, str]:
    """Return settings with which ledgers are small, kept, and offloaded when that is asked for."""
    return {
        "managedLedgerOffloadDriver": "aws-s3",
        "s3ManagedLedgerOffloadBucket": f"{object_servers.BUCKET}/{prefix}",
        "s3ManagedLedgerOffloadRegion": "us-east-1",
        "s3ManagedLedgerOffloadServiceEndpoint": endpoint,
        "s3ManagedLedgerOffloadCredentialId": object_servers.KEY,
        "s3ManagedLedgerOffloadCredentialSecret": secret,
        "managedLedgerOffloadDeletionLagMs": "0",
        "managedLedgerMaxEntriesPerLedger": str(LEDGER_ENTRIES),
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        "retentionCheckIntervalInSeconds": "1",
        "defaultRetentionTimeInMinutes": "-1",
        "defaultRetentionSizeInMB": "-1",
        "activeConsumerFailoverDelayTimeMillis": "0",
        "managedLedgerCacheSizeMB": "0",  # so that what is read comes from the store
    }


def at_once(endpoint: str, prefix: str, secret: str = object_servers.SECRET) -> dict[str, str]:
    """Return settings with which every ledger is offloaded, and deleted here, when it is closed."""
    return on_request(endpoint, prefix, secret) | {
        "managedLedgerOffloadAutoTriggerSizeThresholdBytes": "0"
    }


def path_of(topic: str) -> str:
    """Return the path of a topic in the admin API."""
    return topic.replace("://", "/")


def ledgers_of(broker: RunningBroker, topic: str) -> list[dict[str, Any]]:
    """Return the ledgers of a topic as its internal statistics list them."""
    answer = Admin(broker).get(f"{path_of(topic)}/internalStats")
    assert answer.status == 200, answer.body
    return list(answer.json["ledgers"])


def files_of(broker: RunningBroker, ledgers: Collection[int]) -> list[str]:
    """Return the names of the files of these ledgers in the data directory."""
    wanted = {segment_file.file_name(ledger).rpartition("/")[2] for ledger in ledgers}
    return [path.name for path in broker.data_dir.rglob("*") if path.name in wanted]


def await_moved(broker: RunningBroker, topic: str) -> list[int]:
    """Wait until the closed ledgers of a topic are only in the store; return their ids."""
    moved: list[int] = []

    def are_moved() -> bool:
        closed = ledgers_of(broker, topic)[:-1]
        moved[:] = [one["ledgerId"] for one in closed]
        return (
            bool(closed) and all(one["offloaded"] for one in closed) and not files_of(broker, moved)
        )

    await_true(are_moved, f"the closed ledgers of {topic} are only in the store")
    return moved


def objects_in(endpoint: str, prefix: str) -> list[str]:
    """Return the names of all ledgers' objects under a prefix of the bucket."""
    credentials = Credentials(object_servers.KEY, object_servers.SECRET, "")
    objects = open_objects(object_servers.place_at(endpoint, prefix), credentials)
    return [one.name for one in objects.list("") if one.name.endswith(SUFFIX)]


def objects_of(endpoint: str, prefix: str, ledgers: Collection[int]) -> list[str]:
    """Return the names of the objects of these ledgers."""
    wanted = {f"{ledger:016x}" for ledger in ledgers}
    return [
        name
        for name in objects_in(endpoint, prefix)
        if name.rpartition("/")[2].partition("-")[0] in wanted
    ]


def publish(client: pulsar.Client, topic: str, texts: list[str], **options: Any) -> None:
    """Publish messages, each one an entry, and wait for all receipts.

    Few are under way together: a ledger that is full takes what comes until its end is stored.
    """
    results: list[pulsar.Result] = []
    producer = client.create_producer(topic, max_pending_messages=5, block_if_queue_full=True)
    for text in texts:
        producer.send_async(
            text.encode(), lambda result, _: results.append(result), partition_key=text, **options
        )
    producer.flush()
    producer.close()
    assert results == [pulsar.Result.Ok] * len(texts)


def read_all(client: pulsar.Client, topic: str, **options: Any) -> list[str]:
    """Return the texts of all messages of a topic, from the beginning."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest, **options)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(timeout_millis=TIMEOUT_MS).data().decode())
    reader.close()
    return found


def backlog(broker: RunningBroker, topic: str, subscription: str) -> int:
    """Return the messages of a subscription's backlog, counted exactly."""
    answer = Admin(broker).get(f"{path_of(topic)}/stats?getPreciseBacklog=true")
    assert answer.status == 200, answer.body
    return int(answer.json["subscriptions"][subscription]["msgBacklog"])


def offload_status(broker: RunningBroker, topic: str) -> dict[str, Any]:
    """Return the status of the topic's last requested offload once it does not run."""
    found: dict[str, Any] = {}

    def has_ended() -> bool:
        found.update(Admin(broker).get(f"{path_of(topic)}/offload").json)
        return bool(found["status"] != "RUNNING")

    await_true(has_ended, "the offload has ended")
    return found
