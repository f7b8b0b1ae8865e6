"""A reserve by itself."""

from fakes.faulty_disk import FaultyDisk
from magnetar_storage.errors import DiskFull
from magnetar_storage.space.reserve import STORE_FILE, Reserve


def test_room_that_a_sync_finds_lacking_is_not_reserved() -> None:
    """File systems with delayed allocation notice it only then."""
    disk = FaultyDisk()
    disk.fault = lambda what, name: DiskFull(f"no room to {what}") if what == "sync" else None
    reserve = Reserve(disk, STORE_FILE)
    assert not reserve.take(1000)
    assert not reserve.is_held() and disk.names() == []
