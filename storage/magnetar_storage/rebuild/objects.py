"""Segments that are found in stores of objects when no record lists them any more.

The name of an object has the prefix of the data directory and the id of the segment.  The object is
the segment's file, so its head has the origin, and its end the size: two requests for each.  All
calls block.  Nothing is written or deleted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.interfaces import Sealed, SegmentCopy, SegmentId, SegmentKind, SegmentOrigin
from magnetar_storage.local import footer, segment_origin
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.objects.interfaces import ListedObject, Objects
from magnetar_storage.objects.object_disk import ObjectDisk, StoredFile
from magnetar_storage.tiered import own_objects


class ObjectSegment(NamedTuple):
    """A whole segment in a store of objects."""

    segment: SegmentId
    copy: SegmentCopy
    """The copy as a record lists it: complete, and the only one."""
    origin: SegmentOrigin | None
    """None if a release stored the segment that noted no origins."""
    end: Sealed


class Candidate(NamedTuple):
    """An object whose name is that of a segment of the data directory."""

    place: str
    segment: SegmentId
    object: ListedObject


class Unusable(NamedTuple):
    """An object that is not listed again."""

    name: str
    place: str
    why: str


@dataclass
class FoundObjects:
    """The objects of some places."""

    segments: dict[SegmentId, ObjectSegment] = field(default_factory=dict)
    unusable: list[Unusable] = field(default_factory=list)
    stray: int = 0
    """The objects that a broker had noted for deletion."""
    others: dict[str, int] = field(default_factory=dict)
    """The numbers of segments' objects with other prefixes, by prefix."""
    _disputed: set[SegmentId] = field(default_factory=set)
    """The segments of which two objects have different entries."""

    def add(self, found: Iterable[ObjectSegment | Unusable]) -> None:
        """Add what `examined` has returned.

        Of several objects of one segment the first one is used; none if their entries differ, as
        after a directory and its copy have both written to a segment of this id.
        """
        for one in found:
            if isinstance(one, Unusable):
                self.unusable.append(one)
            elif one.segment in self._disputed:
                self._refuse(one)
            else:
                first = self.segments.setdefault(one.segment, one)
                # promise: of objects that contradict each other none is listed
                if (first.origin, first.end) != (one.origin, one.end):
                    self._disputed.add(one.segment)
                    self._refuse(self.segments.pop(one.segment))
                    self._refuse(one)

    def _refuse(self, one: ObjectSegment) -> None:
        why = f"another object of segment {one.segment} has other entries"
        self.unusable.append(Unusable(one.copy.name, one.copy.place, why))


def candidates(
    objects: Objects,
    place: str,
    prefixes: Collection[str],
    found: FoundObjects,
    doomed: Collection[str] = (),
    listed: Collection[str] = (),
) -> list[Candidate]:
    """Return the objects of segments with these prefixes or names; count the others in `found`.

    `listed` are the names of further objects, of which the prefix may be that of a directory that
    goes on.  Those are left out that a broker had noted as stray, which no record has listed for
    long, and those with the names of `doomed`.
    """
    stray = set(doomed)
    for prefix in prefixes:
        stray |= own_objects.noticed(objects, prefix)
    chosen: list[Candidate] = []
    for prefix, segment, one in _of_segments(objects):
        # promise[ and one.name not in listed -> ]: objects that were listed are listed again
        if prefix not in prefixes and one.name not in listed:
            found.others[prefix] = found.others.get(prefix, 0) + 1
        # promise[never]: an object that was about to be deleted is not listed again
        elif one.name in stray:
            found.stray += 1
        else:
            chosen.append(Candidate(place, segment, one))
    return sorted(chosen)


def _of_segments(objects: Objects) -> Iterator[tuple[str, SegmentId, ListedObject]]:
    for one in objects.list(""):
        parts = own_objects.parts_of(one.name)
        if parts is not None:
            yield *parts, one


def examined(
    one: Candidate, open_place: Callable[[str], Objects], directory: bytes
) -> ObjectSegment | Unusable:
    """Read the origin and the size of a segment's object.

    It is unusable if it is damaged, or belongs to a data directory with another id.
    """
    name, size, modified_ms = one.object
    stored = StoredFile(name, size)
    disk = ObjectDisk(open_place(one.place), {file_name(one.segment): stored})
    try:
        end = footer.end_of(disk, one.segment)
        named = segment_origin.read(disk, one.segment)
    except (Corrupt, NoSegment) as error:  # it was deleted, or cut off, after it was listed
        return Unusable(name, one.place, str(error))
    # promise: an object that was cut off, or is of another segment, is not listed
    if end is None:
        return Unusable(name, one.place, f"it is not the whole file of segment {one.segment}")
    # promise[never]: an object of another data directory is not listed
    if named is not None and named.identity.directory not in (directory, UNKNOWN.directory):
        return Unusable(name, one.place, "it belongs to another data directory")
    if named is not None and named.origin.kind is not SegmentKind.MESSAGES:
        return Unusable(name, one.place, f"it holds {named.origin.kind} and no messages")
    copy = SegmentCopy(one.place, name, size, max(modified_ms, 1), is_only=True)
    return ObjectSegment(one.segment, copy, None if named is None else named.origin, end)
