"""A broker and a restored copy of it run on one store of objects, and neither loses data."""

from pathlib import Path

import pulsar
import pytest

from admin_http import Admin
from broker.server.data_directory.snapshots.test_snapshots import MakeBroker, restored, snapshot
from fakes.waiting import until
from official import connect, publish, take, texts

TOPIC = "persistent://public/default/shared"
OFFLOADING = {
    "managedLedgerOffloadDriver": "filesystem",
    "managedLedgerOffloadAutoTriggerSizeThresholdBytes": "0",
    "managedLedgerOffloadDeletionLagMs": "0",
    "managedLedgerMaxEntriesPerLedger": "2",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
}


@pytest.mark.parametrize("workers", [1, 3])
async def test_each_may_delete_the_topic(
    make_broker: MakeBroker, tmp_path: Path, workers: int
) -> None:
    place = tmp_path / "objects"
    place.mkdir()
    options = OFFLOADING | {"magnetarWorkers": str(workers), "fileSystemURI": f"file://{place}"}
    original = make_broker(**options)
    client = connect(original.service_url)
    publish(client.create_producer(TOPIC), *"abcde")
    client.close()
    await until(lambda: only_objects(place, original.data_dir), "a ledger is only an object")
    objects = only_objects(place, original.data_dir)
    copy = restored(snapshot(original, "one"), tmp_path / "copy", workers)
    try:
        await until(lambda: list(place.rglob("about/shared")), "the copy has written its mark")
        force = "persistent/public/default/shared?force=true"
        assert Admin(original).delete(force).status == 204
        assert set(place.rglob("*.seg")) >= objects
        client = connect(copy.service_url)
        reader = client.subscribe(
            TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest,
        )  # fmt: skip
        assert texts(take(reader, 5)) == list("abcde")
        client.close()
        assert Admin(copy).delete(force).status == 204
        assert set(place.rglob("*.seg")) >= objects
    finally:
        copy.stop()


def only_objects(place: Path, data_dir: Path) -> set[Path]:
    """Return the objects of the place whose ledgers have no file in the data directory."""
    files = {path.stem for path in data_dir.rglob("segments/*.seg")}
    return {path for path in place.rglob("*.seg") if path.stem.partition("-")[0] not in files}
