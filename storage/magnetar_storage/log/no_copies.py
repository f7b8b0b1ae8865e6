"""The `SegmentCopies` of a process that makes and reads no copies, such as an offline tool."""

from collections.abc import Callable
from typing import Final, NoReturn

from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import CopyCounts, SegmentCopy, SegmentId, SegmentReader

OFFLINE: Final = "this command reads no store of objects; use the broker"


class NoCopies:
    """Refuses every call: nothing is known of the objects."""

    counts = CopyCounts()

    def __init__(self, why: str = OFFLINE) -> None:
        """`why` is the reason, for the texts of errors."""
        self._why = why

    def new_name(self, segment: SegmentId) -> str:
        return self._refuse(f"segment {segment}")

    async def upload(
        self, segment: SegmentId, copy: SegmentCopy, goes_on: Callable[[], bool]
    ) -> int:
        return self._refuse(f"segment {segment}")

    async def is_there(self, copy: SegmentCopy) -> bool:
        return self._refuse(f"{copy.name} in {copy.place}")

    async def reader(self, segment: SegmentId, copy: SegmentCopy) -> SegmentReader:
        return self._refuse(f"segment {segment}, which is only in {copy.place}")

    async def delete(self, copy: SegmentCopy) -> None:
        self._refuse(f"{copy.name} in {copy.place}")

    def _refuse(self, what: str) -> NoReturn:
        raise Unavailable(f"{what} cannot be reached: {self._why}")
