"""Checks the segments that are only in stores of objects."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from magnetar_storage.errors import Corrupt, NoObject, NoSegment
from magnetar_storage.local import footer
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.objects.object_disk import ObjectDisk, StoredFile
from magnetar_storage.tiered import copying
from magnetar_storage.verify.report import Problem, Report

OpenPlace = Callable[[str], Objects]
"""Opens the store of objects of a place; raises `Unavailable`."""


def check_objects(
    report: Report, records: Mapping[str, bytes], open_place: OpenPlace, reads_all: bool
) -> None:
    """Add to a report the objects that are missing, have another size, or are damaged.

    Every entry is read only with `reads_all`.  `Unavailable` if a store cannot be asked.
    """
    opened: dict[str, Objects] = {}
    for key, value in records.items():
        for segment, place in _remote(key, value):
            if place not in opened:
                opened[place] = open_place(place)
            why = _trouble(opened[place], segment, reads_all)
            report.objects += 1
            if why is not None:
                report.problems.append(_problem(key, segment, place, why))
    report.remote = 0


def _remote(key: str, value: bytes) -> Iterator[tuple[Segment, str]]:
    """Yield the segments of a log that are only objects, each with its place."""
    with suppress(Corrupt):  # which is in the report already
        for segment in LogRecord.decode(key, value).segments:
            if segment.copy is not None and segment.is_remote:
                yield segment, segment.copy.place


def _trouble(objects: Objects, segment: Segment, reads_all: bool) -> str | None:
    """Return a description of an object's damage; None if none was found."""
    copy = segment.copy
    assert copy is not None
    try:
        size = objects.size(copy.name)
    except NoObject:
        return "the object does not exist"
    # promise[never]: an object that was cut off is found without reading it
    if size != copy.size:
        return f"the object has {size} bytes: expected {copy.size}"
    if not reads_all:
        return None
    disk = ObjectDisk(objects, {file_name(segment.id): StoredFile(copy.name, copy.size)})
    try:
        copying.verify(disk, segment.id, lambda: True)
        entries = footer.load(disk, segment.id)[0].entries
    except (Corrupt, NoSegment) as error:
        return f"the object is damaged: {error}"
    # promise[never]: an object of another segment is found
    if entries != segment.entries:
        return f"the object has {entries} entries, but the topic's record counts {segment.entries}"
    return None


def _problem(key: str, segment: Segment, place: str, why: str) -> Problem:
    """Return the problem of a segment: all of its entries count as lost, if it has any."""
    name = "" if segment.copy is None else segment.copy.name
    first, last = (0, segment.entries - 1) if segment.entries else (None, None)
    return Problem(f"{name} in {place}", 0, why, segment.id, first, last, key)
