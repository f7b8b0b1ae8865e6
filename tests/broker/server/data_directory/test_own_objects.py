"""The objects of a data directory in a real store of objects: a directory of this machine."""

import os
from pathlib import Path

from broker.server.data_directory.test_local_storage import runtime
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.server.data_directory.local_storage import LocalStorage

HOUR_SECONDS = 3600


async def test_stray_objects_are_deleted(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "objects"
    place.mkdir()
    settings = Settings(
        data_dir=str(data),
        managed_ledger_offload_driver=OffloadDriver.FILES,
        file_system_uri=f"file://{place}",
        magnetar_offload_orphan_minutes=60,
    )
    async with runtime() as process, LocalStorage(settings).open(process) as opened:
        names = [opened.engine.copies.new_name(number) for number in (1, 2)]
        metadata, watch = opened.engine.metadata, ClockWatch(process.clock)
        stray = StrayObjects(settings, metadata, process.clock, watch, opened.objects)
        await stray.collect()
        (place / names[0]).parent.mkdir(exist_ok=True)
        for name in names:
            (place / name).write_bytes(b"x")
        await stray.collect()
        (noted,) = place.glob("*/about/stray")
        assert noted.read_text().splitlines() == sorted(names)
        noted.write_text(names[0])
        written = noted.stat().st_mtime - HOUR_SECONDS - 1
        os.utime(noted, (written, written))
        await stray.collect()
        assert stray.deleted == 1
        assert not (place / names[0]).exists() and (place / names[1]).exists()
