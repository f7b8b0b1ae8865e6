"""Segments in the store directories of another worker, over a link."""

from collections.abc import Callable, Sequence

from magnetar_broker.links.link import Link
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.joined.joined_store import JoinedStore


class RemoteHolder:
    """The `Holder` of another worker's directories."""

    def __init__(self, link: Callable[[], Link]) -> None:
        """`link` returns the link to that worker's present process, or raises `Unavailable`."""
        self._link = link

    async def recover(self, segment: SegmentId) -> Sealed:
        return Sealed(*await self._link().request("segments.recover", segment))

    async def finish(self, segment: SegmentId) -> None:
        await self._link().request("segments.finish", segment)

    async def delete(self, segment: SegmentId) -> None:
        await self._link().request("segments.delete", segment)

    async def missing(self, segments: Sequence[SegmentId]) -> list[SegmentId]:
        found: list[SegmentId] = await self._link().request("segments.missing", list(segments))
        return found


def serve_segments(store: JoinedStore, link: Link) -> None:
    """Answer the requests of a `RemoteHolder`, for the directories that this process has open."""

    async def recover(segment: SegmentId) -> tuple[int, ...]:
        return tuple(await store.opened(segment).recover(segment))

    async def finish(segment: SegmentId) -> None:
        await store.opened(segment).finish(segment)

    async def delete(segment: SegmentId) -> None:
        await store.opened(segment).delete(segment)

    async def missing(segments: list[SegmentId]) -> list[SegmentId]:
        return await store.opened(segments[0]).missing(segments) if segments else []

    link.serve(
        {
            "segments.recover": recover,
            "segments.finish": finish,
            "segments.delete": delete,
            "segments.missing": missing,
        }
    )
