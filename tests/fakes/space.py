"""A disk that lacks room when a test says so."""

from magnetar_storage.errors import DiskLow
from magnetar_storage.space.disk_space import SpaceState

LACKS = "the disk of /data has 1 MB free, less than the 1 GB that are to stay free"


def set_room(space: SpaceState, is_low: bool) -> None:
    """Make a disk lack room, or have enough again, as if that had just been noticed."""
    space.refusal = DiskLow(LACKS) if is_low else None
    for call in space._listeners:
        call(is_low)
