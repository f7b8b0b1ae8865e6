"""Segments in the store directories of another worker, over a link."""

from collections.abc import Callable
from typing import Any

from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.multi_store.holder import Holder


class RemoteHolder:
    """The `Holder` of another worker's directories.

    If that worker ends, its next process is asked again: topics of other workers continue.
    """

    def __init__(self, links: SuccessiveLinks) -> None:
        self._links = links

    async def recover(self, segment: SegmentId) -> Sealed:
        return Sealed(*await self._ask("segments.recover", segment))

    async def finish(self, segment: SegmentId) -> None:
        await self._ask("segments.finish", segment)

    async def delete(self, segment: SegmentId) -> None:
        await self._ask("segments.delete", segment)

    async def _ask(self, name: str, argument: Any) -> Any:
        while True:
            link = await self._links.present()
            try:
                return await link.request(name, argument)
            except ProcessUnavailable:
                if not link.has_ended:
                    raise
                # The request may have been done; each of these requests may be done twice.


def serve_segments(opened: Callable[[SegmentId], Holder], link: Link) -> None:
    """Answer the requests of a `RemoteHolder`, for the directories that this process has open.

    `opened` returns the holder of a segment; `Unavailable` if its directory is not open here.
    """

    async def recover(segment: SegmentId) -> tuple[int, ...]:
        return tuple(await opened(segment).recover(segment))

    async def finish(segment: SegmentId) -> None:
        await opened(segment).finish(segment)

    async def delete(segment: SegmentId) -> None:
        await opened(segment).delete(segment)

    link.serve(
        {
            "segments.recover": recover,
            "segments.finish": finish,
            "segments.delete": delete,
        }
    )
