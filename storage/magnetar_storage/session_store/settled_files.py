"""The files of segments in packs, read like files of a disk."""

from collections.abc import Callable, Sequence
from typing import Final

from magnetar_storage.errors import NoObject, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import segment_file
from magnetar_storage.local.finished_segments import FinishedSegments
from magnetar_storage.local.recovery import Finding
from magnetar_storage.objects.interfaces import ReadableObjects
from magnetar_storage.objects.object_disk import ObjectDisk, StoredFile
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.session_store.manifest import Extent, SegmentRow
from magnetar_storage.session_store.session_ids import session_of
from magnetar_storage.tiered.read_ahead import ReadAhead

PLACE: Final = "the store of segments"


class ObjectNames:
    """The names of the objects of all sessions."""

    def __init__(self, prefix: str) -> None:
        """`prefix` is empty, or ends with `/`."""
        self.prefix = prefix

    def directory(self, session: int) -> str:
        """Return the beginning of the names of a session's objects."""
        return f"{self.prefix}sessions/{session:06x}/"

    def of(self, session: int, number: int) -> str:
        """Return the name of a pack or manifest."""
        return f"{self.directory(session)}{number:016x}"

    def number_of(self, name: str) -> int:
        """Return the number of a pack or manifest with this name."""
        return int(name.rpartition("/")[2], 16)

    @property
    def quarantine(self) -> str:
        """The beginning of the names of copies of damaged entries."""
        return f"{self.prefix}quarantine/"


class SettledFiles:
    """Reads the parts of segment files from packs, as if each file were an object.

    Changed on the owner's thread; the reads are made in others.
    """

    def __init__(self, objects: ReadableObjects, names: ObjectNames) -> None:
        self._objects = objects
        self._names = names
        self._places: dict[str, tuple[int, tuple[Extent, ...]]] = {}
        self.stored: dict[str, StoredFile] = {}
        """The files, for an `ObjectDisk`."""

    @property
    def text(self) -> str:
        """The name of the store, for errors."""
        return PLACE

    def objects(self) -> "SettledFiles":
        """Return the object itself, in which files are like objects."""
        return self

    def put(self, segment: SegmentId, row: SegmentRow) -> None:
        """Add the file of a segment, or replace it by a longer one that begins with it."""
        if row.extents:
            name = segment_file.file_name(segment)
            # In this order: a read in another thread finds the extents of what it was told.
            self._places[name] = session_of(segment), row.extents
            self.stored[name] = StoredFile(name, row.length)

    def drop(self, segment: SegmentId) -> None:
        """Remove the file of a segment."""
        name = segment_file.file_name(segment)
        self.stored.pop(name, None)
        self._places.pop(name, None)

    def size(self, name: str) -> int:
        """Return the bytes of a file; `NoObject` if it was deleted."""
        return sum(extent.size for extent in self._found(name)[1])

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read from as many packs as necessary; fewer bytes only at the end of the file."""
        while True:
            session, extents = self._found(name)
            try:
                return self._read(session, extents, offset, size)
            except NoObject as error:
                # promise[self._found(name)[1] is extents -> True]: a segment whose parts were moved
                #   to another pack while it was read is read there
                if self._found(name)[1] is extents:
                    # A wrong place looks the same: what is listed is not given up for that.
                    raise Unavailable(
                        f"{name} is incomplete in {PLACE} ({error}): check that the place is the"
                        " right one, and put the object back from a copy of it"
                    ) from error

    def _read(self, session: int, extents: tuple[Extent, ...], offset: int, size: int) -> bytes:
        end, start, data = offset + size, 0, list[bytes]()
        for extent in extents:
            first, stop = max(offset, start), min(end, start + extent.size)
            if first < stop:
                pack = self._names.of(session, extent.pack)
                data.append(self._part(pack, extent.at + first - start, stop - first))
            start += extent.size
        return b"".join(data)

    def _found(self, name: str) -> tuple[int, tuple[Extent, ...]]:
        found = self._places.get(name)
        if found is None:
            raise NoObject(f"{name} was deleted")
        return found

    def _part(self, pack: str, at: int, size: int) -> bytes:
        data = self._objects.read(pack, at, size)
        if len(data) != size:
            raise Unavailable(
                f"object {pack} answered {len(data)} bytes at byte {at}: expected {size}"
            )
        return data


class ReadLane:
    """One thread that reads segments, with what it has read ahead and the indexes that it knows."""

    def __init__(
        self,
        files: SettledFiles,
        worker: Worker,
        cache_bytes: int,
        indexes: int,
        report: Callable[[Finding], None],
    ) -> None:
        """Keep `cache_bytes` read ahead, and the indexes of at most `indexes` segments."""
        self.worker = worker
        self.disk = ObjectDisk(ReadAhead(lambda: cache_bytes).of(files), files.stored)
        self.finished = FinishedSegments(self.disk, worker, indexes, report)


def lane_of(lanes: Sequence[ReadLane], segment: SegmentId) -> ReadLane:
    """Return the lane of a segment, always the same one."""
    return lanes[(segment >> 24) % len(lanes)]
